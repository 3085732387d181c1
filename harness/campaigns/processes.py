"""The processes of workers: starting one, and removing what a dead one has left."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from harness.campaigns.worker import Judge, serve
from harness.clusters.cleaning import remove_left
from harness.errors import AcklossError, HarnessFailure
from harness.machine import state
from harness.run.client_process import ClientCommand


class Process(Protocol):
    """The process of a worker (`multiprocessing.Process`), as far as it is used here."""

    @property
    def exitcode(self) -> int | None: ...
    def is_alive(self) -> bool: ...
    def join(self, timeout: float | None = None) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Start = Callable[[int, Path, Judge], tuple[Process, Connection]]
"""Starts the process of a worker, by its number: the process, and the pipe to it."""


def start_process(
    number: int,
    runs: Path,
    judge: Judge,
    *,
    client: ClientCommand | None = None,
    inventory: Path | None = None,
) -> tuple[Process, Connection]:
    """A worker in a new process, which shares nothing with this one; `client`: the command of the
    user's own clients, `inventory`: the hosts of its nodes."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=serve, args=(theirs, runs, judge, client, inventory), name=f"worker-{number}"
    )
    process.start()
    theirs.close()
    return process, ours


@dataclass
class OnInventories:
    """Starts each worker on the hosts of one inventory, which no other living worker has."""

    inventories: Sequence[Path]
    client: ClientCommand | None = None
    begin: Callable[..., tuple[Process, Connection]] = start_process
    _processes: dict[Path, Process] = field(default_factory=dict)

    def __call__(self, number: int, runs: Path, judge: Judge) -> tuple[Process, Connection]:
        """See `Start`. Raises HarnessFailure when every inventory has a worker."""
        for inventory in self.inventories:
            process = self._processes.get(inventory)
            if process is None or not process.is_alive():
                begun, pipe = self.begin(
                    number, runs, judge, client=self.client, inventory=inventory
                )
                self._processes[inventory] = begun
                return begun, pipe
        raise HarnessFailure("every inventory has a worker already")


def remove_cluster(cluster_id: str) -> None:
    """Remove what a dead worker has left; what cannot be removed is left to `ackloss clean`."""
    with state.claimed(cluster_id) as dead, suppress(AcklossError):
        if dead:
            remove_left(cluster_id, kind=state.kind_of(cluster_id))
            state.forget(cluster_id)

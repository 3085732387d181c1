"""The processes of workers: starting one, and removing what a dead one has left."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from harness.campaigns.worker import Judge, serve
from harness.clusters.cleaning import remove_left
from harness.errors import AcklossError
from harness.machine import state


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


def start_process(number: int, runs: Path, judge: Judge) -> tuple[Process, Connection]:
    """A worker in a new process, which shares nothing with this one."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, runs, judge), name=f"worker-{number}")
    process.start()
    theirs.close()
    return process, ours


def remove_cluster(cluster_id: str) -> None:
    """Remove what a dead worker has left; what cannot be removed is left to `ackloss clean`."""
    with state.claimed(cluster_id) as dead, suppress(AcklossError):
        if dead:
            remove_left(cluster_id)
            state.forget(cluster_id)

"""Removes what dead runs left: the objects of registered runs, processes of the user's that were
their clients, and temporary folders.

The rules and processes of a fault live on its node, and are removed with it. On a cluster that
ackloss did not start, its provider undoes what is in force (`harness.clusters.external`). Clients
are known by a variable of their environment, which all that they start inherits.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import psutil

from harness import registry
from harness.errors import AcklossError
from harness.faults.journal import open_acts
from harness.machine import state
from harness.machine.files import remove_abandoned
from harness.protocols import Provider


@dataclass
class Cleaned:
    """What was removed; which faults were still in force until then; what was left, and why."""

    removed: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def leaving_objects(kind: str | None = None) -> list[Provider]:
    """The kinds of cluster of which something may outlive its process; or only one."""
    return [
        registry.make("clusters", each, {}, key="cluster.kind")
        for each in registry.usable("clusters")
        if kind in (None, each) and registry.plugins("clusters")[each].outlives
    ]


def remove_left(run_id: str, *, kind: str | None = None, dry_run: bool = False) -> list[str]:
    """Remove everything of a run, whose cluster was of this kind or of any, and the processes of
    its clients; the names."""
    ended = end_client_processes(run_id, dry_run=dry_run)
    return ended + [
        name
        for provider in leaving_objects(kind)
        for name in provider.remove(run_id, dry_run=dry_run)
    ]


def _in_force(run: state.Registered) -> list[str]:
    """The faults of a dead run that its journal does not report as undone."""
    left = open_acts(run.folder / "faults.jsonl")
    acts = [
        f"fault {act.fault!r} of run {run.run_id}: {act.lever} on {act.record.node}"
        for act in left.acts
    ]
    return acts + [f"a fault of run {run.run_id}: {sentence}" for sentence in left.unreadable]


def clean_all(*, dry_run: bool, kept: bool, only: Provider | None = None) -> Cleaned:
    """Clean up after every dead run, after those kept by the user only with `kept`; after those on
    `only` this kind of cluster, where it is given, and on all hosts that it knows. Tries all of
    them, then raises the first failure."""
    cleaned = Cleaned(removed=remove_abandoned(dry_run=dry_run))
    runs = [
        run
        for run in state.registrations()
        if only is None or (run.kind == only.plugin and only.concerns(run.run_id))
    ]
    failures = []
    for run in runs:
        try:
            _clean(run, cleaned, only, dry_run=dry_run, kept=kept)
        except AcklossError as error:
            failures.append(error)
    known = {run.run_id for run in runs}
    for provider in leaving_objects(only.plugin if only is not None else None):
        for run_id in sorted(provider.unknown_runs(known)):
            cleaned.left.append(f"run {run_id} is not in this machine's state folder: left alone")
    if only is not None and only.inventory is not None:
        removed, left = only.clean_hosts(known, dry_run=dry_run)
        cleaned.removed += removed
        cleaned.left += left
    if failures:
        raise failures[0]
    return cleaned


def _clean(
    run: state.Registered, cleaned: Cleaned, only: Provider | None, *, dry_run: bool, kept: bool
) -> None:
    with state.claimed(run.run_id) as dead:
        if not dead:
            alive = psutil.pid_exists(run.pid)  # else another process cleans up after it
            why = f"alive (process {run.pid})" if alive else "cleaned up by another process"
            cleaned.left.append(f"run {run.run_id} is {why}: left alone")
        elif run.keep and not kept:
            cleaned.left.append(f"run {run.run_id} was kept on purpose: `ackloss clean --kept`")
        else:
            if only is not None and only.access is not None:
                # by the file that is given: the one of then may be gone
                cleaned.removed += only.remove(run.run_id, dry_run=dry_run)
            else:
                cleaned.removed += remove_left(run.run_id, kind=run.kind, dry_run=dry_run)
            cleaned.undone += _in_force(run)
            if not dry_run:
                state.forget(run.run_id)


MARK: Final = "ACKLOSS_CLIENT_OF"
"""The variable; its value is the id that the run's cluster is registered by."""

_WAIT_S: Final = 5.0
_EXEC_S: Final = 1.0
_LOOK_AGAIN_S: Final = 0.001
_KTHREADD: Final = 2
_ROUNDS: Final = 20
"""So often at most are processes looked for and killed: some may begin others without end."""


def _variables(process: psutil.Process) -> dict[str, str]:
    """The environment of a process. In the middle of `execve` Linux shows neither that nor
    arguments, though the process that started it already goes on: wait until it shows arguments,
    and look once more. The kernel's own threads, which all begin in its first one, have neither."""
    until, shown = time.monotonic() + _EXEC_S, False
    while not (found := process.environ()):
        if shown or time.monotonic() > until or _KTHREADD in (process.pid, process.ppid()):
            break
        shown = bool(process.cmdline())
        time.sleep(_LOOK_AGAIN_S)
    return found


def client_processes(run_id: str) -> list[psutil.Process]:
    """The processes of a run's clients that are there, of those that this user may look at."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and _variables(process).get(MARK) == run_id:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or is another user's
    return found


def end_client_processes(run_id: str, *, dry_run: bool = False) -> list[str]:
    """Kill a run's clients, with all that their processes start meanwhile; a line for each."""
    ended: list[psutil.Process] = []
    for _ in range(_ROUNDS):
        found = [each for each in client_processes(run_id) if each not in ended]
        ended += found
        if dry_run or not found:
            break
        for process in found:
            with suppress(psutil.Error):
                process.kill()  # checks that the number still belongs to the process that was found
        psutil.wait_procs(found, timeout=_WAIT_S)
    return [f"process {process.pid} of a client of run {run_id}" for process in ended]

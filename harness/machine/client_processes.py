"""Processes of the user's that were clients of a run: known by a variable of their environment,
which all that they start inherits."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

import psutil

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
    """Kill the processes of a run's clients, also those that they start meanwhile; a line for
    each."""
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

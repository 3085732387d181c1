"""Processes of the user's that were clients of a run: known by a variable of their environment,
which all that they start inherits."""

from __future__ import annotations

import os
from typing import Final

import psutil

MARK: Final = "ACKLOSS_CLIENT_OF"
"""The variable; its value is the id that the run's cluster is registered by."""

_WAIT_S: Final = 5.0


def client_processes(run_id: str) -> list[psutil.Process]:
    """The processes of a run's clients that are there, of those that this user may look at."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == run_id:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or is another user's
    return found


def end_client_processes(run_id: str, *, dry_run: bool = False) -> list[str]:
    """Kill the processes of a run's clients; a line for each."""
    found = client_processes(run_id)
    lines = [f"process {process.pid} of a client of run {run_id}" for process in found]
    if not dry_run:
        for process in found:
            try:
                process.kill()  # checks that the number still belongs to the process that was found
            except psutil.Error:
                continue
        psutil.wait_procs(found, timeout=_WAIT_S)
    return lines

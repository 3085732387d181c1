"""Which processes are a run's clients, and that all of them end."""

from __future__ import annotations

import operator
import os
import subprocess
import time

import psutil
import pytest

from harness.clusters.cleaning import MARK, client_processes, end_client_processes


def variables(run_id: str) -> dict[str, str]:
    return {**os.environ, MARK: run_id}


def test_clean_ends_processes_of_a_dead_run_and_no_others() -> None:
    theirs = subprocess.Popen(["sleep", "60"], env=variables("dead-run"))
    others = subprocess.Popen(["sleep", "60"], env=variables("dead-run-2"))
    try:
        lines = [f"process {theirs.pid} of a client of run dead-run"]
        assert end_client_processes("dead-run", dry_run=True) == lines
        assert theirs.poll() is None
        assert end_client_processes("dead-run") == lines
        assert not psutil.pid_exists(theirs.pid)
        assert others.poll() is None
    finally:
        for process in (theirs, others):
            process.kill()
            process.wait()


def test_a_process_in_the_middle_of_execve_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3,000 processes looked at as soon as `Popen` returned, on a busy machine, 176 showed no
    variables yet, most of these no arguments either: so does this one, for three looks."""
    run_id = f"execve-{time.monotonic_ns()}"
    looks = iter([{}] * 3)
    shown, arguments = psutil.Process.environ, psutil.Process.cmdline
    process = subprocess.Popen(["sleep", "60"], env=variables(run_id))

    def environ(one: psutil.Process) -> dict[str, str]:
        return next(looks, shown(one)) if one.pid == process.pid else shown(one)

    def cmdline(one: psutil.Process) -> list[str]:
        early = one.pid == process.pid and operator.length_hint(looks) > 0
        return [] if early else arguments(one)

    monkeypatch.setattr(psutil.Process, "environ", environ)
    monkeypatch.setattr(psutil.Process, "cmdline", cmdline)
    try:
        assert [found.pid for found in client_processes(run_id)] == [process.pid]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("begins", "ended"), [(3, 3), (1_000, 5)])
def test_what_a_client_starts_while_it_is_ended_ends_too(
    monkeypatch: pytest.MonkeyPatch, begins: int, ended: int
) -> None:
    """One that begins others without end does not hold up the run's end."""
    monkeypatch.setattr("harness.clusters.cleaning._ROUNDS", 5)
    run_id = f"meanwhile-{time.monotonic_ns()}"
    begun: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        begun.append(subprocess.Popen(["sleep", "60"], env=variables(run_id)))

    def looked(run_id: str) -> list[psutil.Process]:
        found = client_processes(run_id)
        if len(begun) < begins:
            begin()
        return found

    monkeypatch.setattr("harness.clusters.cleaning.client_processes", looked)
    begin()
    try:
        assert len(end_client_processes(run_id)) == ended
        assert not any(psutil.pid_exists(process.pid) for process in begun[:ended])
    finally:
        for process in begun:
            process.kill()
            process.wait()

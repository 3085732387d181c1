"""Processes that judge: how they begin and end."""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from checkers.judging.processes import pool_of, start

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spawned")]

SAID = "in a buffer until the process ends"


def leaving_something(folder: Path) -> bool:
    """Judges nothing; what it leaves goes when its process ends."""
    left = folder / "left"
    left.touch()
    atexit.register(left.unlink)
    print(SAID, end="")
    return left.exists()


def test_a_process_that_has_judged_tidies_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pool_of(1) as pool:
        assert pool.submit(leaving_something, tmp_path).result()
    assert not (tmp_path / "left").exists()
    assert capfd.readouterr() == ("", SAID), "what a checker prints is not our output"


def whose() -> int:
    return os.getpid()


def test_processes_that_were_started_beforehand_judge() -> None:
    with pool_of(2) as pool:
        start(pool)
        ready = {*pool._processes}
        with pool_of(1, pool) as same:
            assert {same.submit(whose).result() for _ in range(3)} <= ready
    assert len(ready) == 2


def test_processes_end_at_once_where_the_context_does() -> None:
    context = pool_of(1)
    pool = context.__enter__()
    pool.submit(time.sleep, 600)
    (process,) = pool._processes.values()
    assert not context.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert not process.is_alive()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts as in a terminal: a job in the background, and what it starts, ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_does_not_meet_a_process_that_starts(
    interruptible: None, capfd: pytest.CaptureFixture[str]
) -> None:
    with pool_of(1) as pool:
        start(pool)
        (pid,) = pool._processes
        for _ in range(40):
            os.kill(pid, signal.SIGINT)
            time.sleep(0.01)
        assert pool.submit(whose).result() == pid
        assert psutil.pid_exists(pid)
    assert capfd.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

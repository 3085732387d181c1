"""Processes that judge: how they begin and end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from checkers.judging.many_runs import pool_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spawned")]


@pytest.fixture(params=["copied", "begun with nothing"], autouse=True)
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many threads run where processes begin: the runner of these tests has its own."""
    number = 1 if request.param == "copied" else 2
    monkeypatch.setattr(threading, "active_count", lambda: number)


SAID = "in a buffer until the process ends"


def printing() -> int:
    print(SAID, end="")
    return os.getppid()


def test_what_a_checker_prints_is_not_our_output(capfd: pytest.CaptureFixture[str]) -> None:
    with pool_of(1) as pool:
        assert pool.submit(printing).result() == os.getpid()
    assert capfd.readouterr() == ("", SAID)


def whose() -> int:
    return os.getpid()


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
        pool.submit(int)
        (pid,) = pool._processes
        for _ in range(40):
            os.kill(pid, signal.SIGINT)
            time.sleep(0.01)
        assert pool.submit(whose).result() == pid
        assert psutil.pid_exists(pid)
    assert capfd.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

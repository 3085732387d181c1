"""A run stops when a host of its cluster is lost, and only that run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from harness.errors import HarnessFailure, Interrupted
from harness.run.interrupts import Interrupts


@dataclass
class Lossy:
    """A cluster; `tell` says that a host is gone, as its own thread would."""

    tell: Callable[[str], None] = field(default=lambda _: None)

    def when_lost(self, tell: Callable[[str], None]) -> None:
        self.tell = tell

    def lose(self) -> None:
        thread = threading.Thread(target=self.tell, args=("h3 does not answer",))
        thread.start()
        thread.join()


def run_steps(interrupts: Interrupts, cluster: Lossy, *steps: Callable[[], object]) -> None:
    with interrupts.unless_lost(cluster):
        for step in steps:
            step()


def test_a_lost_host_stops_the_run_and_fails_it() -> None:
    interrupts, cluster, stopped = Interrupts(), Lossy(), list[bool]()

    def look() -> None:
        stopped.append(interrupts.stop.is_set())

    with pytest.raises(HarnessFailure, match="h3 does not answer"):
        run_steps(interrupts, cluster, look, cluster.lose, look)
    assert stopped == [False, True]
    interrupts.check()
    assert not interrupts.stop.is_set(), "the next run is not stopped"


def test_what_the_run_itself_raises_is_kept() -> None:
    interrupts, cluster = Interrupts(), Lossy()

    def fail() -> None:
        raise HarnessFailure("a command on b3 failed")

    with pytest.raises(HarnessFailure, match="a command on b3"):
        run_steps(interrupts, cluster, cluster.lose, fail)
    assert not interrupts.stop.is_set()


def test_a_host_that_is_lost_between_two_runs_stops_none() -> None:
    interrupts, cluster = Interrupts(), Lossy()
    run_steps(interrupts, cluster)
    cluster.lose()
    assert not interrupts.stop.is_set()


def test_a_signal_stops_all_later_runs_too() -> None:
    cluster = Lossy()
    with Interrupts() as interrupts:
        with pytest.raises(HarnessFailure):
            run_steps(
                interrupts, cluster, cluster.lose, lambda: signal.raise_signal(signal.SIGTERM)
            )
        with pytest.raises(Interrupted):
            interrupts.check()

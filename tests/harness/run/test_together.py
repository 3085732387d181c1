"""What cells of a run do at the same time: so many at once, and one meeting of all."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import Any

import pytest

from harness.clusters.memory import VirtualClock
from harness.protocols.clock import RealClock
from harness.run.cell_run import Meeting, together


def lasted_s(*calls: Any, at_most: int | None = None) -> float:
    """The virtual seconds that these calls take together."""
    clock = VirtualClock()
    with clock.taking_part("main"):
        together(clock, "call", [partial(call, clock) for call in calls], at_most=at_most)
        return clock.now_ns() / 1e9


def second(clock: VirtualClock) -> None:
    clock.wait(threading.Event(), 1)


def broken(clock: VirtualClock) -> None:
    raise ValueError("broken")


@pytest.mark.parametrize(("at_most", "lasts_s"), [(None, 1), (2, 2), (1, 4), (9, 1)])
def test_so_many_are_made_at_a_time(at_most: int | None, lasts_s: float) -> None:
    assert lasted_s(*[second] * 4, at_most=at_most) == lasts_s


def test_one_alone_is_made_in_the_thread_of_the_caller() -> None:
    seen: list[int] = []
    together(RealClock(), "one", [lambda: seen.append(threading.get_ident())])
    assert seen == [threading.get_ident()]


def test_two_that_come_for_the_last_call_make_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both_came = threading.Barrier(2, timeout=10)

    class Contended(deque[Any]):
        """The last of its calls is taken once both threads have seen that it is left."""

        def popleft(self) -> Any:
            if len(self) == 1:
                both_came.wait()
            return super().popleft()

    monkeypatch.setattr("harness.run.cell_run.deque", Contended)
    made: list[int] = []
    together(RealClock(), "call", [partial(made.append, n) for n in range(3)], at_most=2)
    assert sorted(made) == [0, 1, 2]


def test_an_index_error_of_a_call_is_raised_and_ends_no_other() -> None:
    def fail(clock: VirtualClock) -> None:
        raise IndexError("of the call")

    made: list[int] = []
    with pytest.raises(IndexError, match="of the call"):
        lasted_s(fail, lambda _: made.append(1), at_most=1)
    assert made == [1]


@pytest.mark.parametrize("calls", [[broken], [second, broken, second]])
def test_what_one_raises_is_raised_after_the_others_have_ended(calls: list[Any]) -> None:
    ended = []

    def noted(clock: VirtualClock) -> None:
        second(clock)
        ended.append(1)

    with pytest.raises(ValueError, match="broken"):
        lasted_s(*calls, noted, at_most=1)
    assert ended == [1]


def test_all_wait_for_the_last_and_what_follows_is_done_once() -> None:
    clock, done = VirtualClock(), []
    meeting = Meeting(clock, 3, lambda: done.append(clock.now_ns() / 1e9))

    def come(name: str, after_s: float) -> None:
        clock.wait(threading.Event(), after_s)
        meeting.come(name)
        assert done == [3]

    with clock.taking_part("main"):
        together(clock, "come", [partial(come, f"c{n}", n) for n in (1, 2, 3)])
    assert done == [3]


def test_who_leaves_is_not_waited_for_and_counts_once() -> None:
    clock, done = RealClock(), []
    meeting = Meeting(clock, 2, lambda: done.append(1))
    meeting.leave("a")
    meeting.leave("a")
    assert done == []
    meeting.come("b")
    meeting.leave("b")
    assert done == [1]


def test_what_follows_fails_for_everyone() -> None:
    def fail() -> None:
        raise ValueError("not healed")

    meeting = Meeting(RealClock(), 2, fail)
    meeting.leave("a")
    for name in ("b", "c"):
        with pytest.raises(ValueError, match="not healed"):
            meeting.come(name)

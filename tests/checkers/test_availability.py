"""Gaps, seconds of fault and recovery, each on a timeline small enough to reckon by hand."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.availability import Availability, Timeline
from harness.journal import FaultWindow


def window(from_s: float | None, to_s: float | None, *, proven: bool = True) -> FaultWindow:
    return FaultWindow(
        id="cut", nemesis="partition", from_s=from_s, to_s=to_s, nodes=["b1"], met=None,
        proven=proven, evidence=[], why="",
    )  # fmt: skip


def seen(begun_s: list[float], acknowledged_s: list[float], *windows: FaultWindow) -> Availability:
    """What is told of writes begun and acknowledged at these instants; latency is not looked at."""
    timeline = Timeline()
    for times, delays, instants_s in (
        (timeline.begun, timeline.begun_late, begun_s),
        (timeline.acknowledged, timeline.latency, acknowledged_s),
    ):
        times.append(np.array([round(at_s * 1e9) for at_s in instants_s], np.int64))
        delays.append(np.zeros(len(instants_s), np.int64))
    return timeline.availability(windows)


STEADY = [at * 0.5 for at in range(41)]  # a write each half second from 0 to 20


def stalled(*stalls: tuple[float, float]) -> list[float]:
    return [at for at in STEADY if not any(low < at < high for low, high in stalls)]


@pytest.mark.parametrize(
    ("stalls", "recovery_s"),
    [
        ([(5, 12)], 2.0),  # undone at 10, the first answer at 12
        ([], 0.0),  # it answered all along
        ([(5, 12), (13, 15)], 5.0),  # two answers, then another stall: itself again from 15 on
        ([(5, 9)], 0.0),  # it was itself again before the fault was undone
    ],
)
def test_recovery(stalls: list[tuple[float, float]], recovery_s: float) -> None:
    told = seen(STEADY, stalled(*stalls), window(4, 10))
    assert (told.recovered, told.recovery_s) == (True, recovery_s)


def test_recovery_is_from_the_last_fault_that_was_undone() -> None:
    told = seen(STEADY, stalled((5, 16)), window(4, 10), window(6, 14, proven=False))
    assert told.recovery_s == 2


def test_a_cluster_that_never_answers_again_has_not_recovered() -> None:
    told = seen(STEADY, stalled((5, 21)), window(4, 10))
    assert (told.recovered, told.recovery_s) == (False, None)
    told = seen(STEADY, stalled((5, 12), (13, 21)), window(4, 10))
    assert (told.recovered, told.recovery_s) == (False, None)


def test_a_load_that_is_slow_by_itself_is_no_stall() -> None:
    slow = [float(at) for at in range(0, 31, 3)]
    told = seen(slow, [0, 3, 6, 15, 18, 21, 24, 27, 30], window(7, 10))
    assert told.recovery_s == 5


@pytest.mark.parametrize(
    "windows", [(), (window(None, None),), (window(4, None),), (window(4, 20),)]
)
def test_recovery_is_not_told_without_an_undoing_that_load_follows(
    windows: tuple[FaultWindow, ...],
) -> None:
    told = seen(STEADY, STEADY, *windows)
    assert (told.recovered, told.recovery_s) == (None, None)


@pytest.mark.parametrize(
    ("windows", "fault_s"),
    [
        ((), 0),
        ((window(4, 10),), 6),
        ((window(4, 10), window(8, 12)), 8),  # overlap counts once
        ((window(4, 12), window(5, 6), window(14, 15)), 9),
        ((window(4, None),), 16),  # to the end of the load
        ((window(-3, 2), window(19, 40)), 3),  # only while there was load
        ((window(22, 40),), 0),
        ((window(4, 10, proven=False), window(None, None)), 0),
    ],
)
def test_seconds_of_fault(windows: tuple[FaultWindow, ...], fault_s: float) -> None:
    assert seen(STEADY, STEADY, *windows).fault_s == fault_s


def test_without_an_attempt_nothing_is_told() -> None:
    told = seen([], [], window(4, 10))
    assert (told.longest_gap_s, told.fault_s, told.recovered) == (None, None, None)


def test_longest_gap_reaches_to_the_last_attempt() -> None:
    assert seen(STEADY, stalled((5, 12))).longest_gap_s == 7
    assert seen(STEADY, stalled((5, 21))).longest_gap_s == 15
    assert seen(STEADY, []).longest_gap_s == 20


@pytest.mark.parametrize(
    ("begun_s", "late_s", "begun"),
    [
        ([3, 7], [0, 0], 0),
        ([3, 5], [0, 0], 1),
        ([4, 6], [0, 0], 2),  # both ends of a window belong to it
        ([3, 7], [0, 2], 0),  # due inside, begun after: the fault met nothing of it
        ([], [], 0),
    ],
)
def test_an_operation_meets_a_fault_when_it_is_begun_in_its_window(
    begun_s: list[int], late_s: list[int], begun: int
) -> None:
    timeline = Timeline(
        begun=[np.array(begun_s, np.int64) * 1_000_000_000],
        begun_late=[np.array(late_s, np.int64) * 1_000_000_000],
    )
    told = timeline.availability([window(4, 6), window(None, None), window(0, 100, proven=False)])
    assert told.ops_begun == (begun, 0, len(begun_s))

"""Gaps, seconds of fault and recovery, each on a timeline small enough to reckon by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.judging import availability
from checkers.judging.availability import Availability, Timeline
from harness.protocols import FaultWindow, Writes
from harness.protocols.runs import FAIL, INFO, INVOKED, OK
from tests.fixtures.budget import budget
from tests.fixtures.operation_rows import Write, writes


def window(
    from_s: float | None,
    to_s: float | None,
    *,
    proven: bool = True,
    claimed: bool = False,
    control: bool = False,
    begun_s: float | None = None,
) -> FaultWindow:
    return FaultWindow(
        id="cut", nemesis="partition", from_s=from_s, to_s=to_s, nodes=["b1"], met=None,
        proven=proven, claimed=claimed, control=control, begun_s=begun_s, evidence=[], why="",
    )  # fmt: skip


def rows(*each: tuple[int, int, int]) -> Writes:
    """Writes' rows: the mark, when the write was due and when this was, in ns."""
    return writes(*(Write(mark, due_ns=due, at_ns=at) for mark, due, at in each))


def reported_of(
    *parts: Writes, windows: Sequence[FaultWindow] = (), until_ns: int | None = None
) -> Availability:
    timeline = Timeline(windows, until_ns=until_ns)
    for part in parts:
        timeline.add(part)
    return timeline.availability(lambda: parts)


def seen(begun_s: list[float], acknowledged_s: list[float], *windows: FaultWindow) -> Availability:
    """The report on writes begun and acknowledged at these instants, without latency."""
    begun, acknowledged = (
        [(mark, round(at_s * 1e9), round(at_s * 1e9)) for at_s in instants_s]
        for mark, instants_s in ((INVOKED, begun_s), (OK, acknowledged_s))
    )
    return reported_of(rows(*begun, *acknowledged), windows=windows)


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
    reported = seen(STEADY, stalled(*stalls), window(4, 10))
    assert (reported.recovered, reported.recovery_s) == (True, recovery_s)


@pytest.mark.parametrize(
    ("second", "recovery_s"),
    [
        (window(6, 14), 2),
        (window(6, 14, proven=False, claimed=True), 2),
        (window(6, 14, proven=False), 6),
        (window(None, 30, proven=False, begun_s=6), 6),  # given up when the load was over
    ],
)
def test_recovery_is_from_the_last_fault_that_is_proven_or_claimed(
    second: FaultWindow, recovery_s: float
) -> None:
    reported = seen(STEADY, stalled((5, 16)), window(4, 10), second)
    assert reported.recovery_s == recovery_s


def test_no_fault_that_is_proven_or_claimed_has_no_recovery() -> None:
    reported = seen(STEADY, stalled((5, 12)), window(4, 10, proven=False))
    assert (reported.recovered, reported.recovery_s) == (None, None)


def test_a_stall_while_a_node_stops_is_no_gap_of_the_load_without_faults() -> None:
    """It is requested to stop at 10 s and gone at 16 s; the same stall after it is a stall."""
    load = [at / 10 for at in range(400)]
    answers = [at for at in load if not (10 <= at < 14 or 19 <= at < 22.5)]
    stop = window(16, 18, begun_s=10)
    assert seen(load, answers, stop).recovery_s == 4.5
    of_an_older_version = window(16, 18)
    assert seen(load, answers, of_an_older_version).recovery_s == 0.0


def test_a_fault_that_failed_disturbs_the_load_without_faults_too() -> None:
    stall = stalled((2, 4.5), (12, 14.5))
    failed = window(None, 3, proven=False, begun_s=2)
    assert seen(STEADY, stall, window(8, 10)).recovery_s == 0
    assert seen(STEADY, stall, failed, window(8, 10)).recovery_s == 4.5


def test_a_cluster_that_never_answers_again_has_not_recovered() -> None:
    reported = seen(STEADY, stalled((5, 21)), window(4, 10))
    assert (reported.recovered, reported.recovery_s) == (False, None)
    reported = seen(STEADY, stalled((5, 12), (13, 21)), window(4, 10))
    assert (reported.recovered, reported.recovery_s) == (False, None)


def test_a_load_that_is_slow_by_itself_is_no_stall() -> None:
    slow = [float(at) for at in range(0, 31, 3)]
    reported = seen(slow, [0, 3, 6, 15, 18, 21, 24, 27, 30], window(7, 10))
    assert reported.recovery_s == 5


@pytest.mark.parametrize(
    "windows", [(), (window(None, None),), (window(4, None),), (window(4, 20),)]
)
def test_recovery_is_not_reported_without_an_undoing_that_load_follows(
    windows: tuple[FaultWindow, ...],
) -> None:
    reported = seen(STEADY, STEADY, *windows)
    assert (reported.recovered, reported.recovery_s) == (None, None)


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


def test_without_an_attempt_nothing_is_reported() -> None:
    reported = seen([], [], window(4, 10))
    assert (reported.longest_gap_s, reported.fault_s, reported.recovered) == (None, None, None)


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
    due_and_begun = zip(begun_s, late_s, strict=True)
    reported = reported_of(
        rows(*((INVOKED, (at - late) * 10**9, at * 10**9) for at, late in due_and_begun)),
        windows=[window(4, 6), window(None, None), window(0, 100, proven=False)],
    )
    assert reported.ops_begun == (begun, 0, len(begun_s))


def noted(
    *each: tuple[int, int, int], until_ms: int | None = None, windows: Sequence[FaultWindow] = ()
) -> Availability:
    """The report on writes' rows: the mark, when the write was due and when this was, in ms."""
    until_ns = None if until_ms is None else until_ms * 1_000_000
    made = rows(*((mark, due * 1_000_000, at * 1_000_000) for mark, due, at in each))
    return reported_of(made, windows=windows, until_ns=until_ns)


def test_what_final_scripts_do_is_no_part_of_the_load() -> None:
    load = [(INVOKED, 0, 0), (OK, 0, 10), (INVOKED, 500, 500), (OK, 500, 510)]
    final = [(INVOKED, 9_000, 9_000), (OK, 9_000, 9_900)]
    reported = noted(*load, *final, until_ms=9_000, windows=[window(8, 10)])
    assert reported == noted(*load, windows=[window(8, 10)])
    assert (reported.longest_gap_s, reported.latency_p99_ms, reported.ops_begun) == (0.5, 10, (0,))
    assert noted(*load, *final).longest_gap_s == 9.39


def test_latency_is_counted_from_when_a_write_was_due() -> None:
    """A client that waits for a stalled cluster begins its next write late: the stall counts."""
    each = [(INVOKED, 5, 7), (OK, 5, 12), (INVOKED, 6, 106), (FAIL, 6, 900), (INVOKED, 7, 1007)]
    reported = noted(*each, (OK, 7, 2010))
    assert (reported.latency_p50_ms, reported.latency_p99_ms) == (7, 2003)  # of the acknowledged
    assert reported.lateness_p99_ms == 1000  # of all that were begun
    assert reported.longest_gap_s == 1.998


def test_what_neither_begins_nor_acknowledges_is_not_noted() -> None:
    reported = noted((FAIL, 5, 900), (INFO, 6, 901), windows=(window(0, 2),))
    assert reported == Availability(ops_begun=(0,), ops_acknowledged=(0,))


def test_what_is_acknowledged_in_a_window_counts_whenever_it_was_begun() -> None:
    """A cluster that stops under a fault differs from one that goes on, though both are tried."""
    windows = (window(5, 12), window(None, None), window(19, None))
    stops, goes_on = stalled((5, 12)), [at + 0.4 for at in STEADY]
    assert seen(STEADY, stops, *windows).ops_begun == (15, 0, 3)
    assert seen(STEADY, stops, *windows).ops_acknowledged == (2, 0, 3), "at its ends"
    assert seen(STEADY, goes_on, *windows).ops_acknowledged == (14, 0, 3)
    parts = [rows((OK, 0, at * 10**9)) for at in (4, 6, 7, 13)]
    assert reported_of(*parts, windows=windows).ops_acknowledged == (2, 0, 0)


def test_a_percentile_is_the_smallest_delay_that_so_many_do_not_exceed() -> None:
    for number, p50, p99 in ((1, 1, 1), (2, 1, 2), (3, 2, 3), (100, 50, 99), (101, 51, 100)):
        reported = noted(*[(OK, 0, delay) for delay in range(number, 0, -1)])
        assert (reported.latency_p50_ms, reported.latency_p99_ms) == (p50, p99)
        assert reported.lateness_p99_ms is None


def test_parts_are_noted_one_after_the_other() -> None:
    first = rows((INVOKED, 0, 0), (OK, 0, 30 * 10**6))
    later = rows((INVOKED, 0, 10_000 * 10**6), (OK, 0, 40 * 10**6))
    reported = reported_of(first, later, windows=(window(5, 20),))
    assert (reported.longest_gap_s, reported.latency_p50_ms, reported.ops_begun) == (9.96, 30, (1,))


TIMES = (
    st.integers(0, 12 * 10**9) | st.integers(0, 2_000) | st.integers(0, 12).map(lambda s: s * 10**9)
)
EACH = st.tuples(st.sampled_from([INVOKED, OK, OK, FAIL]), TIMES, TIMES)


@settings(max_examples=budget(40, 100))
@given(
    st.lists(st.lists(EACH, max_size=12), max_size=6),
    st.lists(st.tuples(TIMES, st.none() | TIMES), max_size=2),
    st.sampled_from([None, 4 * 10**9]),
    st.sampled_from([4, 9]),
)
def test_of_very_many_the_same_is_reported(
    each: list[list[tuple[int, int, int]]],
    spans: list[tuple[int, int | None]],
    until_ns: int | None,
    kept: int,
) -> None:
    """The rows that were kept give the same report as all of them."""
    windows = [window(a / 1e9, None if b is None else b / 1e9) for a, b in spans]
    parts = [rows(*part) for part in each]
    reported = reported_of(*parts, windows=windows, until_ns=until_ns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(availability, "KEPT", kept)
        patch.setattr(availability, "FOLDED", kept)
        patch.setattr(availability, "_PAGE", 4)
        assert reported_of(*parts, windows=windows, until_ns=until_ns) == reported


def test_of_a_calm_load_of_very_many_the_longest_gap_is_looked_for_again() -> None:
    """All gaps are about as long, so none is longer than the stretches of which the ends are
    kept."""
    part = rows((INVOKED, 0, 0), *((OK, 0, 100 * at + at % 7) for at in range(500)))
    passes = 0

    def again() -> list[Writes]:
        nonlocal passes
        passes += 1
        return [part]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(availability, "KEPT", 64)
        timeline = Timeline()
        timeline.add(part)
        assert timeline.availability(again).longest_gap_s == round(101 / 1e9, 6)
    assert passes == 2


def test_how_a_delay_is_rounded_does_not_depend_on_how_many_there_are() -> None:
    for delay_ns in [
        *range(0, 6_000, 250),
        *range(-2_500, 0, 250),
        999_500,
        1_000_499,
        2**40 + 500,
    ]:
        few, many = availability.Delays(), availability.Delays()
        few.add(np.array([delay_ns]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(availability, "FOLDED", 0)
            many.add(np.array([delay_ns]))
            assert many.percentile_ms(0.5) == few.percentile_ms(0.5)


def test_a_control_counts_as_no_fault() -> None:
    control = window(5, None, proven=False, control=True)
    alone = seen(STEADY, STEADY, control)
    assert (alone.fault_s, alone.recovered, alone.recovery_s) == (0.0, None, None)
    assert alone.ops_begun == (31,), "what it met is counted by itself"
    acknowledged = stalled((10, 14))
    both = seen(STEADY, acknowledged, control, window(10, 12))
    real = seen(STEADY, acknowledged, window(10, 12))
    assert (both.fault_s, both.recovery_s) == (real.fault_s, real.recovery_s) == (2.0, 2.0)

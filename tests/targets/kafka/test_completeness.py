"""When a partition that was read counts as complete: the pure part of `targets.kafka.reading`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.plan import parse_plan
from harness.protocols import End
from targets.kafka.brokers import NO_EPOCH
from targets.kafka.reading import Message, Reading, _changed, _gap, _judged, of_messages

END = End(
    partition=0,
    log_start_offset=2,
    end_offset=5,
    position=None,
    leader="b1",
    leader_epoch=7,
    members=("b1",),
    complete=False,
)
PLAN = parse_plan({"schema": 1, "name": "t"})


def read_of(*offsets: int, position: int = 5) -> Reading:
    reading = Reading(starts={0: 2}, goals={0: 5})
    for offset in offsets:
        reading.add(0, of_messages([Message(offset, None, b"%010d" % offset, 7)]), first=0)
        reading.add(1, of_messages([Message(40, None, b"0000000040", 7)]), first=0)
    reading.reach(0, position)
    return reading


def judged(reading: Reading, before: End = END, after: End = END) -> End:
    return _judged(before, after, reading, PLAN)


def test_every_offset_once_up_to_an_end_that_stayed() -> None:
    end = judged(read_of(2, 3, 4))
    assert end == replace(END, position=5, complete=True, error=None)


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        (read_of(2, 3, position=4), "read up to offset 4, its end is 5"),
        (read_of(2, 3, 4, position=6), "read up to offset 6, its end is 5"),
        (read_of(2, 4), "no record at offset 3: 4 came next"),
        (read_of(3, 4), "no record at offset 2: 3 came next"),
        (read_of(2, 3), "no record at offset 4: 5 came next"),
        (read_of(), "no record at offset 2: 5 came next"),
        (read_of(2, 3, 3, 4), "offset 3 came after 3"),
        (read_of(2, 4, 3), "no record at offset 3: 4 came next"),
        (read_of(2, 3, 4, 5), "offset 5 is not before the end, 5"),
    ],
)
def test_what_keeps_a_partition_from_being_complete(reading: Reading, why: str) -> None:
    end = judged(reading)
    assert (end.complete, end.error) == (False, why)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ({"end_offset": 6}, "leader epoch and end changed from 7, 5 to 7, 6 while it was read"),
        ({"leader_epoch": 8}, "leader epoch and end changed from 7, 5 to 8, 5 while it was read"),
        ({"end_offset": None}, "leader epoch and end changed from 7, 5 to 7, None while it"),
        ({"leader": "b2"}, "its leader changed from b1 to b2 while it was read"),
    ],
)
def test_an_end_that_did_not_stay(after: dict[str, Any], why: str) -> None:
    later = replace(END, **after)
    end = judged(read_of(2, 3, 4), after=later)
    assert not end.complete
    assert (end.error or "").startswith(why)
    assert _changed({0: END}, {0: later})


@pytest.mark.parametrize(("epoch", "complete"), [(7, True), (NO_EPOCH, False)])
def test_a_leader_that_moved_away_and_back_shows_in_its_epoch_or_in_who_answered(
    epoch: int, complete: bool
) -> None:
    """The log of b2 may have been another one; without epochs, nothing else shows it."""
    reading, end = read_of(2, 3, 4), replace(END, leader_epoch=epoch)
    reading.brokers[0] = {"b1"}
    assert judged(reading, before=end, after=end).complete
    reading.brokers[0].add("b2")
    after = judged(reading, before=end, after=end)
    assert after.complete == complete
    assert after.error == (None if complete else "it was read from several leaders, b1, b2")


def test_a_start_that_moved_is_no_harm_to_what_was_read() -> None:
    later = replace(END, log_start_offset=3)
    assert judged(read_of(2, 3, 4), after=later).complete
    assert _changed({0: END}, {0: later})
    assert not _changed({0: END}, {0: END})


@pytest.mark.parametrize("unknown", ["log_start_offset", "end_offset"])
def test_what_no_leader_reported(unknown: str) -> None:
    before = replace(END, **{unknown: None})
    end = judged(read_of(2, 3, 4), before=before, after=before)
    assert (end.complete, end.error) == (False, "no leader reported where it begins and ends")


def test_an_error_comes_before_what_follows_from_it() -> None:
    reading = read_of(2, position=3)
    reading.fail(0, "_BAD_MSG: reported")
    assert judged(reading).error == "_BAD_MSG: reported"
    other = read_of(2, 3, 4)
    other.errors[1] = "of another partition"
    assert judged(other).complete


@pytest.mark.parametrize(
    ("offsets", "complete"),
    [
        ([2, 3, 4], True),
        ([4], True),
        ([], True),
        ([3, 3], False),
        ([4, 3], False),
        ([1], False),
        ([5], False),
    ],
)
def test_compaction_leaves_gaps_and_nothing_else(offsets: list[int], complete: bool) -> None:
    reported = _gap(np.array(offsets, dtype=np.int64), 2, 5, compacted=True)
    assert (reported is None) == complete

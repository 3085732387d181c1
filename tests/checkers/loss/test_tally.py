"""The tally, part by part: what one part alone cannot tell must be seen across parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.judging.one_run import judge_run
from checkers.loss.findings import Odd, Tally, finder, kept, odd_of
from checkers.loss.numbering import InARow
from harness.errors import HistoryError
from harness.protocols import Reads, Writes
from harness.protocols.runs import FAIL, INFO, INVOKED, OK
from tests.fixtures import operation_rows
from tests.fixtures.hand_made import Made, R, W
from tests.fixtures.operation_rows import Write, writes

VALUES = 8


def reads(*records: tuple[int, int, int], reader: str = "a") -> Reads:
    """Records as (value, partition, offset)."""
    return operation_rows.reads(*((reader, None, *record) for record in records))


def sieved(written: list[Writes], found: list[Reads]) -> tuple[list[int], Odd]:
    """The values that are odd, and all that is known of them."""
    numbering = InARow(0, VALUES)
    tally = Tally(numbering)
    for part in written:
        tally.write(part)
    for part in found:
        tally.read(part, tally.numbers(part))
    odd = tally.odd()
    rows = (kept(each, finder(numbering, odd)) for each in (written, found))
    closer = odd_of(numbering, odd, *rows)
    return odd.tolist(), closer


def acknowledged(*values: int) -> list[Writes]:
    return [writes(*(Write(mark, value) for value in values for mark in (INVOKED, OK)))]


ONCE = [(0, 0, 0), (1, 0, 1), (2, 0, 2)]


@pytest.mark.parametrize(
    ("parts", "odd"),
    [
        ([reads(*ONCE)], []),
        ([reads(*ONCE, (1, 0, 7))], [1]),
        ([reads(*ONCE), reads((1, 0, 7))], [1]),  # the copy is in another part
        ([reads((1, 0, 7)), reads(*ONCE)], [1]),
        ([reads(*ONCE), reads((5, 0, 6)), reads((1, 0, 7))], [1, 5]),  # and in one further on
        ([reads(*ONCE), reads(*ONCE, reader="b")], []),  # the same records, read twice
        ([reads(*ONCE), reads((0, 0, 0), (1, 0, 9), (2, 0, 2))], [1]),
        ([reads(*ONCE), reads((1, 1, 1))], [1]),  # at the same offset of another partition
        ([reads((0, 0, 0), (2, 0, 2)), reads((1, 1, 1))], [1]),
    ],
)
def test_copies_are_seen_whatever_part_they_stand_in(parts: list[Reads], odd: list[int]) -> None:
    found, _ = sieved(acknowledged(0, 1, 2), parts)
    assert found == odd


def test_copies_of_another_part_are_all_listed_once() -> None:
    parts = [reads(*ONCE), reads((1, 0, 7)), reads((1, 0, 7), reader="b"), reads((1, 1, 7))]
    _, odd = sieved(acknowledged(0, 1, 2), parts)
    assert odd.copies.tolist() == [[0, 0, 1], [0, 0, 7], [0, 1, 7]]
    assert odd.sent_to.tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("marks", "found", "odd"),
    [
        ([INVOKED, OK], True, False),
        ([INVOKED, OK], False, True),
        ([INVOKED, FAIL], True, True),
        ([INVOKED, FAIL], False, False),
        ([INVOKED, INFO], True, False),
        ([INVOKED, INFO], False, False),
        ([INVOKED], True, False),
        ([INVOKED], False, False),
        ([INVOKED, FAIL, INFO], True, False),  # what is unknown as well was not surely refused
        ([INVOKED, FAIL, OK], True, False),
        ([INVOKED, FAIL, OK], False, True),
        ([INVOKED, INFO, OK], False, True),
        ([], True, True),
        ([], False, False),
    ],
)
def test_which_values_are_odd(marks: list[int], found: bool, odd: bool) -> None:
    written = [writes(Write(mark, 3)) for mark in marks]
    seen, _ = sieved([*acknowledged(0), *written], [reads(*[(0, 0, 0), (3, 0, 1)][: 1 + found])])
    assert seen == ([3] if odd else [])


def test_a_value_that_was_sent_to_two_partitions_is_odd() -> None:
    written = [writes(Write(INVOKED)), writes(Write(OK, partition=1))]
    seen, odd = sieved(written, [reads((0, 1, 4))])
    assert seen == [0]
    assert odd.sent_to.tolist() == [[0, 0], [0, 1]]
    assert odd.partition.tolist() == [1]


def test_a_partition_that_is_not_known_is_that_of_the_first_record() -> None:
    written = [writes(Write(INVOKED, partition=None)), writes(Write(OK, partition=None))]
    assert sieved(written, [reads((0, 2, 4))])[0] == []
    assert sieved(written, [reads((0, 2, 4)), reads((0, 1, 4))])[0] == [0]


def test_plain_values_are_counted_by_their_marks() -> None:
    tally = Tally(InARow(0, VALUES))
    for part in [
        *acknowledged(0, 1, 2),
        writes(Write(INVOKED, 3), Write(FAIL, 3)),
        writes(Write(1, 4)),
    ]:
        tally.write(part)
    records = reads((0, 0, 0), (1, 0, 1))
    tally.read(records, tally.numbers(records))
    tally.odd()
    counts = tally.plain()
    assert len(counts) == 32
    assert {mark: n for mark, n in enumerate(counts.tolist()) if n} == {
        INVOKED | OK | 16: 2, INVOKED | FAIL: 1, INVOKED: 1,
    }  # fmt: skip


@pytest.mark.parametrize("again", [[W(1)], [W(1, "f")], [W(2), W(1), W(2)]])
def test_a_run_whose_values_are_not_unique_is_refused(again: list[W], tmp_path: Path) -> None:
    """One of two acknowledged writes of a value may be lost behind the other, and two that are
    there are no duplicate."""
    made = [*(W(n) for n in range(3)), *again]
    rundir = Made(writes=made, reads=[R(0), R(1), R(2)]).build(tmp_path, "a")
    with pytest.raises(HistoryError, match=f": {len(again)} of its writes began") as refused:
        judge_run(rundir)
    assert (refused.value.file, refused.value.key) == (str(rundir.history), "value")


def test_a_value_of_each_key_is_unique(tmp_path: Path) -> None:
    keys = (None, "x", "y")
    made = Made(writes=[W(1, key=key) for key in keys], reads=[R(1, key=key) for key in keys])
    document = judge_run(made.build(tmp_path, "a"))
    assert (document["verdict"], document["counts"]["survivors"]) == ("valid", 3)

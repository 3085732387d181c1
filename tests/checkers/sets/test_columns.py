"""Columns of a history, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkers.judging.results import check_document
from checkers.sets import Set
from checkers.sets.columns import (
    ABSENT,
    Adds,
    SetReads,
    history_of,
)
from harness.errors import HistoryError
from harness.protocols.runs import NULL, OK, Ints
from tests.checkers.sets.ops import add, history, judge, read, timed
from tests.fixtures.operation_rows import Row, checked

Add = tuple[int, int, int]
"""How an operation ended, when it began and when it completed."""


def ints(*numbers: int) -> Ints:
    return np.array(numbers, np.int64)


def adds_at(*rows: Add) -> Adds:
    """Adds of 0, 1, ... with times alone."""
    marks, began, ended = np.array(rows, np.int64).reshape(-1, 3).T
    nothing = np.full(len(rows), ABSENT)
    value = np.arange(len(rows))
    return Adds(value, value, marks.astype(np.uint8), nothing, nothing, began, ended)


def reads_at(*rows: tuple[int, int, list[int]]) -> SetReads:
    """Ok reads with times alone."""
    held = [elements for _, _, elements in rows]
    stops = np.cumsum([len(each) for each in held], dtype=np.int64)
    nothing = np.full(len(rows), ABSENT)
    return SetReads(
        process=nothing,
        mark=np.full(len(rows), OK, np.uint8),
        invoke_index=nothing,
        complete_index=nothing,
        invoke_ns=ints(*(began for began, _, _ in rows)),
        complete_ns=ints(*(ended for _, ended, _ in rows)),
        start=stops - ints(*map(len, held)),
        stop=stops,
        elements=ints(*(value for each in held for value in each)),
    )


def test_equal_indices_are_concurrent() -> None:
    adds, reads = adds_at((OK, 10, 20)), reads_at((20, 30, []))
    made = history_of(
        adds._replace(invoke_index=adds.invoke_ns, complete_index=adds.complete_ns),
        reads._replace(invoke_index=reads.invoke_ns, complete_index=reads.complete_ns),
    )
    tally = judge(made).tally
    assert (tally.counts["lost"], tally.counts["never_read"], made.is_final) == (0, 1, False)
    assert tally.read is not None
    assert tally.read["counts"]["lost"] == 0
    assert tally.read["counts"]["not_yet_visible"] == 1


def test_a_value_that_is_added_twice_is_refused() -> None:
    adds, reads = adds_at((OK, 1, 2), (OK, 3, 4)), reads_at()
    with pytest.raises(HistoryError, match="runs/7: value: a value is added twice"):
        history_of(adds._replace(value=ints(5, 5)), reads, file="runs/7")


@pytest.mark.parametrize(
    "again",
    [
        [Row(f="add", process=1, value=5)],
        [Row(f="add", process=1, value=5), Row(f="add", process=1, value=5, type="info")],
        [Row(f="add", process=1, value=5, type="fail")],
    ],
)
@pytest.mark.parametrize("size", [1, 100])
def test_a_run_that_adds_a_value_twice_is_refused(again: list[Row], size: int) -> None:
    """The later outcome would stand for both: an acknowledged element could be lost unseen."""
    once = [Row(f="add", value=5), Row(f="add", value=5, type="ok")]
    read = [Row(f="read"), Row(f="read", type="ok", elements=[])]
    assert checked(Set(), [*once, *read], size=size).counts["lost"] == 1
    with pytest.raises(HistoryError, match="value: a value is added twice"):
        checked(Set(), [*once, *again, *read], size=size)


@pytest.mark.parametrize("answer", [{}, {"result": 1}])
def test_an_ok_read_without_a_list_is_refused(answer: dict[str, int]) -> None:
    """As an empty set it would be the loss of all elements."""
    once = [Row(f="add", value=1), Row(f="add", value=1, type="ok")]
    reads = [Row(f="read", process=1), Row(f="read", process=1, type="ok", **answer)]
    with pytest.raises(HistoryError, match="elements: the ok read at 3 has no list of elements"):
        checked(Set(), [*once, *reads])
    failed = [Row(f="read", process=1), Row(f="read", process=1, type="fail", **answer)]
    empty = [Row(f="read", process=1), Row(f="read", process=1, type="ok", elements=[])]
    assert checked(Set(), [*once, *failed, *empty]).counts["lost"] == 1


def test_an_ok_operation_that_never_completed_is_refused() -> None:
    with pytest.raises(HistoryError, match="an ok operation has no completion"):
        history_of(adds_at((OK, 1, 2)), reads_at())
    with pytest.raises(HistoryError, match="an ok operation has no completion"):
        history_of(adds_at(), reads_at((3, NULL, [0])))


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    made = history(tmp_path, timed(add(1), read(), add(2), read(1, 2), add(3), read(1), read(3)))
    backwards = history_of(
        Adds._make(column[::-1] for column in made.adds),
        SetReads._make([*(column[::-1] for column in made.reads[:-1]), made.reads.elements]),
    )
    one, other = judge(made), judge(backwards)
    assert check_document("set", one.result) == check_document("set", other.result)
    assert one.tally.findings.equals(other.tally.findings)

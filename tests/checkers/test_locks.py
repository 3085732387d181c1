"""The locks checker: two holders of one lock at the same time, and locks that pass on."""

from __future__ import annotations

import pytest

from checkers.locks import Locks
from harness.protocols import CheckResult
from tests.fixtures.operation_rows import Row, checked


def op(f: str, process: int, how: str = "ok", *, yes: bool = True, key: str = "k") -> list[Row]:
    result = int(yes) if f == "confirm" and how == "ok" else None
    return [
        Row(f=f, process=process, key=key),
        Row(f=f, process=process, type=how, key=key, result=result),
    ]


def said(*groups: list[Row], size: int = 100) -> CheckResult:
    return checked(Locks(), [row for rows in groups for row in rows], size=size)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_two_confirmed_holders_at_the_same_time_are_found(size: int) -> None:
    result = said(
        op("acquire", 1),
        op("confirm", 1),
        op("acquire", 2),
        op("confirm", 2),
        op("confirm", 1),
        size=size,
    )
    assert result.counts == {
        "attempted": 2,
        "acknowledged": 2,
        "confirmed": 3,
        "held_twice": 1,
    }
    assert [each.name for each in result.counter_examples] == ["held_twice"]
    assert result.findings is not None
    (row,) = result.findings.to_pylist()
    assert {row["process"], row["other_process"]} == {1, 2}


@pytest.mark.parametrize(
    "after",
    [
        op("confirm", 1, yes=False),
        op("confirm", 1, "info"),
        op("confirm", 1, "fail"),
        op("release", 1),
        op("release", 1, "info"),
    ],
)
def test_a_lock_that_passes_on_has_one_holder(after: list[Row]) -> None:
    result = said(op("acquire", 1), op("confirm", 1), op("acquire", 2), op("confirm", 2), after)
    assert result.counter_examples == ()
    assert result.doubts == ()


def test_a_confirmation_that_began_before_the_other_had_the_lock_proves_nothing() -> None:
    begin, end = op("confirm", 1)
    result = said(op("acquire", 1), [begin], op("acquire", 2), [end], op("confirm", 2))
    assert result.counter_examples == ()


def test_an_acquire_that_was_answered_late_makes_no_holder() -> None:
    """It was granted before the other one, and its session had expired by then."""
    begin, end = op("acquire", 2)
    late = said([begin], op("acquire", 1), [end], op("confirm", 1), op("confirm", 2, yes=False))
    assert late.counter_examples == ()


def test_a_lock_that_was_granted_while_another_held_it_is_found_though_never_confirmed() -> None:
    """Whatever became of it: nobody else was to get it as long as the first one had it."""
    result = said(op("acquire", 1), op("acquire", 2), op("confirm", 2, yes=False), op("confirm", 1))
    assert result.counts["held_twice"] == 1
    assert result.findings is not None
    (row,) = result.findings.to_pylist()
    assert (row["process"], row["from"], row["to"]) == (1, 1, 6)
    assert (row["other_process"], row["other_from"], row["other_to"]) == (2, 2, 3)


def test_of_two_that_are_never_confirmed_nothing_is_known() -> None:
    assert said(op("acquire", 1), op("acquire", 2)).counter_examples == ()


@pytest.mark.parametrize("more", ["j", "k"])
def test_a_process_that_acquires_more_still_holds_what_it_had(more: str) -> None:
    """Another lock, or the same again."""
    result = said(
        op("acquire", 1),
        op("confirm", 1),
        op("acquire", 2),
        op("confirm", 2),
        op("confirm", 1),
        op("acquire", 1, key=more),
        op("confirm", 1, key=more),
    )
    assert result.counts["held_twice"] == 1


def test_each_lock_of_a_process_is_confirmed_by_itself() -> None:
    result = said(
        op("acquire", 1),
        op("acquire", 1, key="j"),
        op("acquire", 2),
        op("confirm", 2),
        op("confirm", 1, key="j"),
        op("release", 1, key="j"),
    )
    assert result.counter_examples == ()
    both = (op("acquire", 1), op("acquire", 1, key="j"), op("acquire", 2), op("confirm", 2))
    assert said(*both, op("confirm", 1)).counts["held_twice"] == 1


def test_an_acquire_without_an_answer_makes_no_holder() -> None:
    result = said(op("acquire", 1, "info"), op("confirm", 1), op("acquire", 2), op("confirm", 2))
    assert result.counter_examples == ()


def test_another_lock_is_another_lock() -> None:
    result = said(
        op("acquire", 1),
        op("acquire", 2, key="other"),
        op("confirm", 2, key="other"),
        op("confirm", 1),
    )
    assert result.counter_examples == ()


def test_nothing_confirmed_is_vacuous() -> None:
    assert [each.name for each in said(op("acquire", 1)).doubts] == ["vacuous"]

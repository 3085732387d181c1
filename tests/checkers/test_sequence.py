"""The sequence checker: a number that was handed out twice, one that is too small, and none."""

from __future__ import annotations

import pytest

from checkers.sequence import Sequence
from harness.protocols import CheckResult
from tests.fixtures.operation_rows import Row, checked


def begin(process: int, value: int) -> Row:
    return Row(f="next", process=process, value=value)


def end(process: int, value: int, number: int | None, how: str = "ok") -> Row:
    return Row(f="next", process=process, type=how, value=value, offset=number)


def said(*rows: Row, size: int = 100) -> CheckResult:
    return checked(Sequence(), rows, size=size)


def both(value: int, number: int) -> list[Row]:
    return [begin(0, value), end(0, value, number)]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_number_that_is_handed_out_again_is_found(size: int) -> None:
    result = said(*both(1, 10), *both(2, 11), *both(3, 10), size=size)
    assert result.counts == {"attempted": 3, "acknowledged": 3, "duplicated": 1, "inverted": 1}
    assert result.findings is not None
    assert [(r["kind"], r["value"], r["number_before"]) for r in result.findings.to_pylist()] == [
        ("duplicated", 3, None),
        ("inverted", 3, 11),
    ]


def test_a_smaller_number_is_wrong_only_where_the_larger_one_was_answered_before() -> None:
    late = [begin(0, 1), begin(1, 2), end(0, 1, 5), end(1, 2, 4)]
    assert said(*late).counter_examples == ()
    late = [begin(0, 1), end(0, 1, 5), begin(1, 2), end(1, 2, 4)]
    assert [each.name for each in said(*late).counter_examples] == ["inverted"]


@pytest.mark.parametrize("how", ["info", "fail"])
def test_numbers_may_have_gaps(how: str) -> None:
    result = said(*both(1, 1), begin(0, 2), end(0, 2, None, how), *both(3, 7))
    assert result.counter_examples == ()
    assert result.all_well == "all 2 numbers are unique and in order"


def test_nothing_handed_out_is_vacuous() -> None:
    assert [each.name for each in said(begin(0, 1), end(0, 1, None, "info")).doubts] == ["vacuous"]


def test_an_answer_without_a_number_is_a_doubt_and_nothing_else() -> None:
    unnumbered = [begin(0, 8), end(0, 8, None), begin(0, 9), end(0, 9, None)]
    result = said(*both(1, 3), *unnumbered, *both(2, 4))
    assert result.counter_examples == ()
    assert result.counts == {"attempted": 4, "acknowledged": 4, "duplicated": 0, "inverted": 0}
    assert result.doubts == (("incomplete", "ok answers without a number: 2"),)
    assert result.all_well == "all 2 numbers are unique and in order"
    doubts = [each.name for each in said(*unnumbered).doubts]
    assert doubts == ["vacuous", "incomplete"]


def test_numbers_may_be_negative() -> None:
    assert said(*both(1, -5), *both(2, -4), *both(3, 0)).counter_examples == ()
    below = said(*both(1, -4), *both(2, -5))
    assert [each.name for each in below.counter_examples] == ["inverted"]

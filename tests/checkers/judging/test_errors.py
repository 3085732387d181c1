"""Error codes counted part by part: a write may begin in one part and end in the next."""

from __future__ import annotations

import pytest

from checkers.judging.availability import NO_ANSWER, NO_CODE, ErrorCodes
from harness.protocols import Writes
from harness.protocols.runs import FAIL, INFO, INVOKED, OK
from tests.fixtures.operation_rows import Write, writes


def counted(*parts: Writes) -> dict[str, dict[str, int]]:
    codes = ErrorCodes()
    for part in parts:
        codes.add(part)
    return codes.document()


BEGUN = Write(INVOKED)
DONE = Write(OK)


def failed(code: str) -> Write:
    return Write(FAIL, error=code)


def unknown(code: str | None) -> Write:
    return Write(INFO, error=code)


@pytest.mark.parametrize(
    ("parts", "unknown"),
    [
        ([writes(BEGUN, DONE)], {}),
        ([writes(BEGUN, BEGUN, DONE)], {NO_ANSWER: 1}),
        ([writes(BEGUN, BEGUN, BEGUN)], {NO_ANSWER: 3}),
        ([writes(BEGUN, BEGUN), writes(DONE, BEGUN)], {NO_ANSWER: 2}),
        ([writes(BEGUN), writes(DONE)], {}),
        ([writes(BEGUN, BEGUN), writes(DONE), writes(DONE)], {}),
        ([writes(DONE)], {}),  # an answer whose beginning is missing
        ([writes(BEGUN, BEGUN, unknown(NO_ANSWER))], {NO_ANSWER: 2}),  # one of each
    ],
)
def test_writes_that_were_never_answered(parts: list[Writes], unknown: dict[str, int]) -> None:
    assert counted(*parts) == {"unknown": unknown, "failed": {}}


def test_codes_are_counted_over_parts_the_most_frequent_first() -> None:
    parts = [
        writes(failed("A"), failed("B"), unknown("B"), unknown(None)),
        writes(failed("B"), unknown("C"), unknown("C"), Write(OK, error="D")),
        writes(),
    ]
    reported = counted(*parts, writes(*[BEGUN] * 8))
    assert reported == {"unknown": {"C": 2, "B": 1, NO_CODE: 1}, "failed": {"B": 2, "A": 1}}
    assert list(reported["failed"]) == ["B", "A"]
    assert next(iter(reported["unknown"])) == "C"


def test_no_code_is_not_a_code_of_another_part() -> None:
    """The same number stands for other names in another part."""
    reported = counted(
        writes(unknown("Z")), writes(unknown("A"), unknown("Z")), writes(*[BEGUN] * 3)
    )
    assert reported["unknown"] == {"Z": 2, "A": 1}

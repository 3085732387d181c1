"""The watches checker: each anomaly where there is one, and none where there is none."""

from __future__ import annotations

import pytest

from checkers.watches import Watches
from harness.protocols import CheckResult
from harness.protocols.runs import NULL
from tests.fixtures.operation_rows import Row, checked


def write(value: int, at: int | None, how: str = "ok", key: str = "k") -> list[Row]:
    written = Row(f="write", key=key, value=value)
    return [written, Row(f="write", type=how, key=key, value=value, offset=at)]


def watch(
    value: int, at: int, notified: int, process: int = 5, key: str = "k", how: str = "ok"
) -> list[Row]:
    begun = Row(f="watch", process=process, key=key)
    answer = {"elements": (value, notified), "offset": at} if how == "ok" else {}
    return [begun, Row(f="watch", process=process, type=how, key=key, **answer)]  # type: ignore[arg-type]


def said(*groups: list[Row], size: int = 100) -> CheckResult:
    return checked(Watches(), [row for rows in groups for row in rows], size=size)


def found(result: CheckResult) -> list[str]:
    assert result.findings is not None
    kinds = [row["kind"] for row in result.findings.to_pylist()]
    assert sorted(set(kinds)) == sorted(each.name for each in result.counter_examples)
    return sorted(kinds)


WELL = (
    write(1, 10),
    watch(1, 10, NULL),
    write(2, 11),
    watch(2, 11, 1),
    watch(2, 11, 0),
    write(3, 12),
    write(4, 13),
    watch(4, 13, 1),
)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_notifications_that_come_before_their_changes_are_well(size: int) -> None:
    result = said(*WELL, size=size)
    assert found(result) == []
    assert result.doubts == ()
    assert result.counts == {
        "attempted": 4,
        "acknowledged": 4,
        "watches": 4,
        "notified": 2,
        "merged": 1,
        "unnotified": 0,
        "too_early": 0,
        "backwards": 0,
        "disagreed": 0,
    }
    assert result.all_well == "all 2 notifications came before the changes were read"


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        ("unnotified", watch(5, 14, 0)),
        ("too_early", watch(4, 13, 1)),
        ("backwards", watch(3, 12, 0)),
        ("disagreed", watch(3, 15, 1)),
    ],
)
@pytest.mark.parametrize("size", [1, 100])
def test_each_anomaly_is_found(kind: str, last: list[Row], size: int) -> None:
    result = said(*WELL, write(5, 14), last, size=size)
    assert found(result) == [kind]
    assert result.findings is not None
    (row,) = result.findings.to_pylist()
    assert (row["process"], row["key"]) == (5, "k")
    assert result.counts[kind] == 1


@pytest.mark.parametrize(
    "last",
    [
        watch(5, 14, NULL),  # its connection was lost meanwhile
        watch(5, 14, 0, process=6),  # another process had left no watch
        watch(5, 14, 0, key="other"),
        watch(5, 14, 0, how="info"),
        watch(5, 14, 0, how="fail"),
    ],
)
def test_without_a_watch_before_nothing_has_to_come(last: list[Row]) -> None:
    assert found(said(*WELL, write(5, 14), last)) == []


def test_readers_agree_about_a_write_whose_place_its_writer_never_learnt() -> None:
    unknown = write(5, None, how="info")
    assert found(said(*WELL, unknown, watch(5, 14, 1), watch(5, 14, NULL, process=6))) == []
    assert found(said(*WELL, unknown, watch(5, 14, 1), watch(5, 15, NULL, process=6))) == [
        "disagreed"
    ]


def test_nothing_acknowledged_or_notified_is_vacuous() -> None:
    assert [each.name for each in said(write(1, None, how="info")).doubts] == ["vacuous"]
    assert [each.name for each in said(write(1, 10), watch(1, 10, NULL)).doubts] == ["vacuous"]

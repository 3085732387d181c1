"""The watches checker: each anomaly where there is one, and none where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.watches import Watches
from harness.protocols import CheckResult
from harness.protocols.runs import NULL
from tests.fixtures.operation_rows import Row, checked


def write(
    value: int, at: int | None, how: str = "ok", key: str = "k", process: int = 0, session: int = 1
) -> list[Row]:
    written = Row(f="write", process=process, key=key, value=value)
    answer = {"elements": (session,)} if how == "ok" else {}
    ended = Row(f="write", process=process, type=how, key=key, value=value, offset=at, **answer)  # type: ignore[arg-type]
    return [written, ended]


def watch(
    value: int,
    at: int | None,
    notified: int,
    process: int = 5,
    key: str = "k",
    how: str = "ok",
    session: int = 1,
) -> list[Row]:
    begun = Row(f="watch", process=process, key=key)
    answer = {"elements": (value, notified, session), "offset": at} if how == "ok" else {}
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
        "unexpected": 0,
        "failed_found": 0,
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
        [*write(6, 15, key="other"), *watch(6, 15, 0, key="other")],
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


@pytest.mark.parametrize(
    ("kinds", "last"),
    [
        (["unexpected"], [watch(99, 14, 1)]),
        (["unexpected"], [watch(1, 15, NULL, process=6, key="other")]),
        (["disagreed", "unexpected"], [watch(77, 13, 0)]),
        (["unexpected"], [watch(5, 14, 1), write(5, None, how="info")]),
        (["failed_found"], [write(5, None, how="fail"), watch(5, 14, 1)]),
        (["failed_found"], [write(5, None)[:1], watch(5, 14, 1), write(5, None, how="fail")[1:]]),
        ([], [write(5, None)[:1], watch(5, 14, 1)]),
        ([], [write(5, None, how="info"), watch(5, 14, 1)]),
    ],
    ids=[
        *("never written", "written to another key", "at the place of another", "written later"),
        *("failed", "failed later", "still open", "of unknown outcome"),
    ],
)
def test_only_what_was_written_is_read(kinds: list[str], last: list[list[Row]]) -> None:
    assert found(said(*WELL, *last)) == kinds


def test_two_writes_have_two_places() -> None:
    """Whatever their keys are: all writes have one order."""
    unknown = write(5, None, how="info")
    for key in ("k", "other"):
        both = (write(6, 14, key=key), unknown, watch(5, 14, 1))
        assert found(said(*WELL, *both)) == ["disagreed"]
        assert found(said(*WELL, write(5, 14), write(6, 14, key=key))) == ["disagreed"]


def test_what_a_process_wrote_it_reads() -> None:
    for process, kinds in ((5, ["backwards"]), (6, [])):
        own = write(5, 14, process=process)
        assert found(said(*WELL, own, watch(4, 13, 0))) == kinds
    assert found(said(*WELL, write(5, 14, process=6), watch(4, 13, NULL, process=6))) == [
        "backwards"
    ]
    unknown = write(5, None, how="info", process=5)
    assert found(said(*WELL, unknown, watch(4, 13, 0))) == []


@pytest.mark.parametrize(("session", "kinds"), [(1, ["backwards"]), (2, []), (NULL, [])])
def test_what_a_process_has_seen_and_written_binds_it_in_its_session(
    session: int, kinds: list[str]
) -> None:
    """The next session may be with a server that is behind; so may one that is not known."""
    assert found(said(*WELL, watch(3, 12, NULL, session=session))) == kinds
    own = write(5, 14, process=6)
    assert found(said(*WELL, own, watch(4, 13, NULL, process=6, session=session))) == kinds
    unknown = watch(4, 13, NULL, process=7, session=NULL)
    assert found(said(*WELL, unknown, watch(3, 12, NULL, process=7, session=session))) == []


def test_a_run_that_noted_no_sessions_is_judged() -> None:
    begun, ended = watch(4, 13, NULL, process=7)
    early = [begun, replace(ended, elements=(4, NULL)), begun, replace(ended, elements=(4, 1))]
    assert found(said(*WELL, early)) == ["too_early"]


def test_what_was_never_written_has_no_value_and_no_place() -> None:
    nothing = watch(NULL, None, NULL, process=6)
    assert found(said(*WELL, nothing, nothing)) == []


def test_nothing_acknowledged_or_notified_is_vacuous() -> None:
    assert [each.name for each in said(write(1, None, how="info")).doubts] == ["vacuous"]
    assert [each.name for each in said(write(1, 10), watch(1, 10, NULL)).doubts] == ["vacuous"]

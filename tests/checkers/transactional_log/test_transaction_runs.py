"""Rows of a run of our own: the same columns, from Parquet that no reader of files has written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from harness.models.micro_ops import (
    DISCARDED,
    END,
    FENCE,
    POLL,
    SEND,
    STORED,
    UNCOMMITTED,
    WHOLE,
)
from harness.protocols import NULL
from tests.checkers.transactional_log.runs import (
    ABORTED,
    POLLED_4,
    ROWS,
    STORED_4,
    Row,
    finally_read,
    judged,
)


def test_a_run_without_anomalies(tmp_path: Path) -> None:
    """What was sent by an operation whose client raised is in its invocation."""
    result = judged(tmp_path, ROWS)
    assert (result.counter_examples, result.doubts) == ((), ())
    assert (result.counts["attempted"], result.counts["acknowledged"]) == (3, 2)


def test_a_run_that_lost_a_write(tmp_path: Path) -> None:
    lost = [*ROWS[:-1], (9, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 2, 72])]
    result = judged(tmp_path, lost)
    assert [each.name for each in result.counter_examples] == [
        *("lost-write", "torn-transaction", "unseen", "int-poll-skip")
    ]
    of = f"of {result.counts['attempted']} ("
    assert of in result.counter_examples[0].sentence, "its share of what was sent"
    assert result.findings is not None
    rows = (
        result.findings.read_all()
        if not isinstance(result.findings, pa.Table)
        else (result.findings)
    )
    assert {(row["key"], row["value"]) for row in rows.to_pylist()} == {("3", "71"), ("3", "72")}


UNANSWERED = [
    (0, "invoke", "txn", [SEND, 3, NULL, 73, SEND, 3, NULL, 74, SEND, 3, NULL, 75]),
    (0, "fail", "txn", [SEND, 3, 3, 73]),
]


@pytest.mark.parametrize(
    ("value", "found"),
    [(73, {"dirty-read": 1}), (74, {"dirty-read": 1}), (76, {"unexpected": 1})],
    ids=["answered", "begun and never answered", "never begun"],
)
def test_a_send_that_was_never_answered_was_begun(
    tmp_path: Path, value: int, found: dict[str, int]
) -> None:
    """The completion of its operation has the sends before it alone."""
    dirty: list[Row] = [
        (1, "invoke", "poll", [UNCOMMITTED, NULL, NULL, NULL]),
        (1, "ok", "poll", [UNCOMMITTED, 3, 4, value]),
    ]
    result = judged(tmp_path, [*ROWS, *UNANSWERED, *dirty])
    assert result.counts["attempted"] == 6
    kinds = ("dirty-read", "unexpected")
    assert {kind: result.counts[kind] for kind in kinds if result.counts[kind]} == found
    assert {each.name for each in result.counter_examples} == {*found} - {"dirty-read"}


def test_logs_that_were_read_to_their_ends_say_all(tmp_path: Path) -> None:
    result = judged(tmp_path, finally_read(POLLED_4, STORED_4), stored=True)
    assert (result.counter_examples, result.doubts) == ((), ())
    assert (result.counts["attempted"], result.counts["failed"]) == (3, 1)
    second = result.details["second_reader"]
    assert second["acknowledged"] == {"committed": 2, "aborted": 0, "absent": 0, "unread": 0}
    assert second["failed"]["aborted"] == 1


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        ([WHOLE, 4, 2, NULL], "absent"),
        ([DISCARDED, 4, 0, 71, WHOLE, 4, 2, NULL], "aborted"),
    ],
)
def test_an_unseen_value_is_lost_where_two_readers_say_so(
    tmp_path: Path, stored: list[int], state: str
) -> None:
    result = judged(tmp_path, finally_read([END, 4, 2, NULL], stored), stored=True)
    assert [each.name for each in result.counter_examples] == ["torn-transaction", "unseen"]
    assert result.doubts == ()
    assert result.details["second_reader"]["acknowledged"][state] == 1


def test_a_value_that_a_second_reader_finds_is_not_lost(tmp_path: Path) -> None:
    """Whatever the reader whose polls are judged says: nobody knows which of them is right."""
    result = judged(tmp_path, finally_read([END, 4, 2, NULL], STORED_4), stored=True)
    assert result.counter_examples == ()
    assert [each.name for each in result.doubts] == ["readers"]
    assert result.counts["unseen"] == 1
    assert isinstance(result.findings, pa.Table)
    assert result.findings["tolerated"].to_pylist() == [True]


@pytest.mark.parametrize(
    "stored",
    [
        [STORED, 4, 1, 71, WHOLE, 4, 2, NULL],
        [STORED, 4, 0, 71, STORED, 4, 1, 71, WHOLE, 4, 2, NULL],
    ],
    ids=["elsewhere", "twice"],
)
def test_readers_that_have_a_record_at_different_offsets_disagree(
    tmp_path: Path, stored: list[int]
) -> None:
    result = judged(tmp_path, finally_read(POLLED_4, stored), stored=True)
    assert (result.counter_examples, len(result.doubts)) == ((), 1)
    assert "differ in what committed, in 1 values" in result.doubts[0].sentence


@pytest.mark.parametrize("outcome", ["ok", "info"])
@pytest.mark.parametrize(
    ("sent", "stored", "torn"),
    [
        ([SEND, 4, 0, 71], [], True),
        ([SEND, 4, 0, 71], [DISCARDED, 4, 0, 71], True),
        ([SEND, 4, NULL, 71], [DISCARDED, 4, 0, 71], True),
        ([SEND, 4, NULL, 71], [], False),
        ([SEND, 4, 0, 71], [STORED, 4, 0, 71], False),
    ],
    ids=["lost", "aborted", "aborted, offset unknown", "perhaps never sent", "readers differ"],
)
def test_a_part_that_is_lost_at_the_end_of_a_log_tears_its_transaction(
    tmp_path: Path, outcome: str, sent: list[int], stored: list[int], torn: bool
) -> None:
    """Also where nobody knows whether it committed: a part of it is there."""
    begun: list[Row] = [
        (0, "invoke", "txn", [SEND, 3, NULL, 70, SEND, 4, NULL, 71]),
        (0, outcome, "txn", [SEND, 3, 0, 70, *sent]),
        (2, "invoke", "txn", [SEND, 3, NULL, 72]),
        (2, "ok", "txn", [SEND, 3, 1, 72]),
        (1, "invoke", "poll", [END, 3, NULL, NULL, END, 4, NULL, NULL]),
        (1, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 1, 72, END, 3, 2, NULL, END, 4, 2, NULL]),
        (1, "invoke", "read-log", [WHOLE, 3, NULL, NULL, WHOLE, 4, NULL, NULL]),
    ]
    second = [STORED, 3, 0, 70, STORED, 3, 1, 72, *stored, WHOLE, 3, 2, NULL, WHOLE, 4, 2, NULL]
    result = judged(tmp_path, [*begun, (1, "ok", "read-log", second)], stored=True)
    names = {each.name for each in result.counter_examples}
    torn |= outcome == "ok" and STORED not in stored  # what was acknowledged was sent
    assert ("torn-transaction" in names) == torn
    assert [each.name for each in result.doubts] == (["readers"] if STORED in stored else [])


def test_a_record_that_only_the_second_reader_has_is_a_doubt(tmp_path: Path) -> None:
    for name, more in {"known": [STORED, 4, 1, 72], "strange": [STORED, 4, 1, -7]}.items():
        (folder := tmp_path / name).mkdir()
        rows = finally_read(POLLED_4, [*more, *STORED_4])
        result = judged(folder, rows, stored=True)
        assert (result.counter_examples, len(result.doubts)) == ((), 1)
        assert "differ in what committed, in 1 values" in result.doubts[0].sentence


@pytest.mark.parametrize(
    ("polled", "stored"), [(None, [WHOLE, 4, 2, NULL]), ([END, 4, 2, NULL], None)]
)
def test_an_unseen_value_of_a_log_that_one_reader_did_not_read_may_be_late(
    tmp_path: Path, polled: list[int] | None, stored: list[int] | None
) -> None:
    result = judged(tmp_path, finally_read(polled, stored), stored=True)
    assert result.counter_examples == ()
    assert [each.name for each in result.doubts] == ["incomplete"]
    assert "no read met the end of logs" in result.doubts[0].sentence
    assert result.counts["unseen"] == 1


def test_a_lost_write_needs_the_second_reader_too(tmp_path: Path) -> None:
    """One that polls went past."""
    begun: list[Row] = [
        (0, "invoke", "txn", [SEND, 4, NULL, 71]),
        (0, "ok", "txn", [SEND, 4, 0, 71]),
        (0, "invoke", "txn", [SEND, 4, NULL, 72]),
        (0, "ok", "txn", [SEND, 4, 1, 72]),
        (1, "invoke", "poll", [END, 4, NULL, NULL]),
        (1, "ok", "poll", [POLL, 4, 1, 72, END, 4, 2, NULL]),
        (1, "invoke", "read-log", [WHOLE, 4, NULL, NULL]),
    ]
    second = [STORED, 4, 1, 72, WHOLE, 4, 2, NULL]
    for name, more, lost in (("gone", [], True), ("there", [STORED, 4, 0, 71], False)):
        (folder := tmp_path / name).mkdir()
        result = judged(folder, [*begun, (1, "ok", "read-log", [*more, *second])], stored=True)
        names = {each.name for each in result.counter_examples}
        assert names == ({"lost-write", "unseen"} if lost else set())
        assert result.counts["lost-write"] == 1


def taken_back(kind: int, outcome: str, second: list[int]) -> list[Row]:
    """A value that was polled, and that no final read returns."""
    return [
        *ABORTED[:2],
        (0, "invoke", "txn", [SEND, 3, NULL, 75]),
        (0, outcome, "txn", [SEND, 3, 1, 75]),
        (6, "invoke", "poll", None),
        (6, "ok", "poll", [kind, 3, 0, 70, kind, 3, 1, 75]),
        (1, "invoke", "poll", [END, 3, NULL, NULL]),
        (1, "ok", "poll", [POLL, 3, 0, 70, END, 3, 4, NULL]),
        (1, "invoke", "read-log", [WHOLE, 3, NULL, NULL]),
        (1, "ok", "read-log", [STORED, 3, 0, 70, *second, WHOLE, 3, 4, NULL]),
    ]


@pytest.mark.parametrize(
    ("kind", "outcome", "second", "names"),
    [
        (POLL, "ok", [], ["lost-after-poll"]),
        (POLL, "ok", [DISCARDED, 3, 1, 75], ["lost-after-poll"]),
        (POLL, "ok", [STORED, 3, 1, 75], []),
        (UNCOMMITTED, "ok", [], ["unseen"]),
        (POLL, "info", [], ["phantom"]),
        (POLL, "info", [DISCARDED, 3, 1, 75], ["phantom"]),
        (UNCOMMITTED, "info", [], ["phantom"]),
        (UNCOMMITTED, "info", [DISCARDED, 3, 1, 75], []),
        (UNCOMMITTED, "fail", [], ["phantom"]),
        (POLL, "fail", [DISCARDED, 3, 1, 75], ["G1a"]),
    ],
)
def test_what_was_polled_and_is_not_in_the_log_was_taken_back(
    tmp_path: Path, kind: int, outcome: str, second: list[int], names: list[str]
) -> None:
    result = judged(tmp_path, taken_back(kind, outcome, second), stored=True)
    assert [each.name for each in result.counter_examples] == names
    assert [each.name for each in result.doubts] == (["readers"] if STORED in second else [])


def test_nothing_is_taken_back_by_what_one_reader_did_not_read(tmp_path: Path) -> None:
    rows = [*taken_back(POLL, "ok", [])[:-1], (1, "fail", "read-log", None)]
    result = judged(tmp_path, rows, stored=True)
    assert (result.counter_examples, result.counts["lost-after-poll"]) == ((), 0)
    assert [each.name for each in result.doubts] == ["incomplete"]


@pytest.mark.parametrize("outcome", ["ok", "info", "fail"])
@pytest.mark.parametrize("kind", [POLL, UNCOMMITTED])
def test_an_aborted_value_is_not_polled_in_any_transaction(
    tmp_path: Path, outcome: str, kind: int
) -> None:
    """What a consumer of our own polled, it polled, whatever became of its transaction. A failed
    operation of a history from outside has perhaps polled nothing."""
    consumes: list[Row] = [
        (6, "invoke", "txn", None),
        (6, outcome, "txn", [POLL, 3, 0, 70, kind, 3, 1, 71, SEND, 4, 7, 80]),
    ]
    read: list[Row] = [
        (1, "invoke", "poll", [END, 3, NULL, NULL]),
        (1, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 2, 72, END, 3, 4, NULL]),
    ]
    for stored, found in ((True, kind == POLL), (False, kind == POLL and outcome == "ok")):
        (folder := tmp_path / str(stored)).mkdir()
        result = judged(folder, [*ABORTED, *consumes, *read], stored=stored)
        assert result.counts["G1a"] == found
        assert ("G1a" in {each.name for each in result.counter_examples}) == found


def test_a_commit_of_a_producer_that_was_taken_over_is_a_zombies(tmp_path: Path) -> None:
    """Where it was acknowledged; one that failed is a G1a where it is visible."""
    fenced = [SEND, 3, 0, 70, SEND, 3, 1, 71, FENCE, NULL, NULL, NULL]
    ended = {"ok": {"zombie-commit"}, "fail": {"G1a"}, "info": set()}
    for outcome, names in ended.items():
        (folder := tmp_path / outcome).mkdir()
        rows = [*ROWS[:3], (0, outcome, "txn", fenced), *ROWS[4:]]
        result = judged(folder, rows)
        assert {each.name for each in result.counter_examples} == names
        assert result.counts["zombie-commit"] == (outcome == "ok")

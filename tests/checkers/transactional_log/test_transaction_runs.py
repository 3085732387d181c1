"""Rows of a run of our own: the same columns, from Parquet that no reader of files has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from checkers.judging.one_run import checker_of, examine
from harness.history import HISTORY
from harness.history.parquet_writer import ParquetWriter
from harness.models.micro_ops import (
    ABORT,
    ASSIGNED,
    DISCARDED,
    END,
    FENCE,
    POLL,
    SEND,
    STORED,
    WHOLE,
)
from harness.protocols import NULL, CheckResult, Facts, Promises

Row = tuple[int, str, str, list[int] | None]

ROWS: list[Row] = [
    (9, "invoke", "assign", [ASSIGNED, 3, NULL, NULL]),
    (9, "ok", "assign", [ASSIGNED, 3, NULL, NULL]),
    (0, "invoke", "txn", None),
    (0, "ok", "txn", [SEND, 3, 0, 70, SEND, 3, 1, 71]),
    (1, "invoke", "txn", [SEND, 3, NULL, 72]),
    (1, "info", "txn", None),
    (9, "invoke", "poll", None),
    (9, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 1, 71, POLL, 3, 2, 72]),
]


def judged(
    folder: Path, rows: list[Row], *, stored: bool = False, isolated: bool = True
) -> CheckResult:
    """`stored`: in a run folder."""
    history = folder / "history"
    history.mkdir()
    process, kind, f, elements = zip(*rows, strict=True)
    places = np.arange(len(rows), dtype=np.int64)
    with ParquetWriter(history, HISTORY, run_id="run") as parts:
        columns = {
            "index": places,
            "process": np.array(process, np.int32),
            "type": pa.array(kind).dictionary_encode(),
            "f": pa.array(f).dictionary_encode(),
            "elements": pa.array(elements, pa.list_(pa.int64())),
            "intended_ns": places,
            "time_ns": places,
        }
        parts.write(pa.table(columns))
    facts = Facts(
        run_id="run",
        folder=folder if stored else None,
        history=tuple(history.glob("part-*.parquet")),
        reads=(),
        ends=(),
        promises=Promises(model="transaction", isolated=isolated),
    )
    result: CheckResult = examine(facts, {"kafka": checker_of("kafka", {})}).results["kafka"]
    return result


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
    assert result.findings is not None
    rows = (
        result.findings.read_all()
        if not isinstance(result.findings, pa.Table)
        else (result.findings)
    )
    assert {(row["key"], row["value"]) for row in rows.to_pylist()} == {("3", "71"), ("3", "72")}


LIVE: list[Row] = [
    (0, "invoke", "txn", [SEND, 3, NULL, 70, SEND, 4, NULL, 71]),
    (0, "ok", "txn", [SEND, 3, 0, 70, SEND, 4, 0, 71]),
    (0, "invoke", "txn", [SEND, 3, NULL, 72, ABORT, NULL, NULL, NULL]),
    (0, "fail", "txn", None),
    (1, "invoke", "poll", [END, 3, NULL, NULL]),
    (1, "ok", "poll", [POLL, 3, 0, 70, END, 3, 2, NULL]),
    (2, "invoke", "poll", [END, 4, NULL, NULL]),
]


STORED_3 = [STORED, 3, 0, 70, DISCARDED, 3, 1, 72, WHOLE, 3, 2, NULL]
POLLED_4 = [POLL, 4, 0, 71, END, 4, 2, NULL]
STORED_4 = [STORED, 4, 0, 71, WHOLE, 4, 2, NULL]


def finally_read(polled_4: list[int] | None, stored_4: list[int] | None) -> list[Row]:
    """The history with what both readers found in log 4; `None`: the reader failed."""
    reads = {"poll": polled_4, "read-log": [*STORED_3, *stored_4] if stored_4 else None}
    ended: list[Row] = [(2, "ok" if found else "fail", f, found) for f, found in reads.items()]
    return [*LIVE, ended[0], (2, "invoke", "read-log", [WHOLE, 3, NULL, NULL]), ended[1]]


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
    assert [each.name for each in result.counter_examples] == ["unseen"]
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


def test_a_record_that_only_the_second_reader_has_is_a_doubt(tmp_path: Path) -> None:
    for name, more in {"known": [STORED, 4, 1, 72], "strange": [STORED, 4, 1, -7]}.items():
        (folder := tmp_path / name).mkdir()
        rows = finally_read(POLLED_4, [*more, *STORED_4])
        result = judged(folder, rows, stored=True)
        assert (result.counter_examples, len(result.doubts)) == ((), 1)
        assert "differ in what committed, in 1 values" in result.doubts[0].sentence


def test_aborted_records_are_no_difference_but_to_readers_of_everything(tmp_path: Path) -> None:
    rows = finally_read(POLLED_4, STORED_4)
    result = judged(tmp_path, rows, stored=True, isolated=False)
    assert [each.name for each in result.doubts] == ["readers"]


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


def test_aborted_values_count_where_polls_are_to_get_what_committed(tmp_path: Path) -> None:
    dirty = finally_read(POLLED_4, STORED_4)
    dirty[5] = (1, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 1, 72, END, 3, 2, NULL])
    for isolated, names in {True: ["G1a"], False: []}.items():
        folder = tmp_path / str(isolated)
        folder.mkdir()
        result = judged(folder, dirty, stored=True, isolated=isolated)
        assert [each.name for each in result.counter_examples] == names
        assert [each.name for each in result.doubts] == (["readers"] if isolated else [])
        assert result.counts["G1a"] == 1


def test_without_isolation_a_poll_shows_no_commit(tmp_path: Path) -> None:
    """What is left of a transaction that nobody knows the outcome of is not torn."""
    rows: list[Row] = [
        *LIVE[:2],
        (5, "invoke", "txn", [SEND, 3, NULL, 80, SEND, 4, NULL, 81]),
        (5, "info", "txn", [SEND, 3, 1, 80, SEND, 4, 1, 81]),
        (6, "invoke", "txn", [SEND, 4, NULL, 90]),
        (6, "ok", "txn", [SEND, 4, 2, 90]),
        (1, "invoke", "poll", None),
        (1, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 1, 80, POLL, 4, 0, 71, POLL, 4, 2, 90]),
    ]
    for isolated, names in {True: {"lost-write", "torn-transaction"}, False: set()}.items():
        folder = tmp_path / str(isolated)
        folder.mkdir()
        result = judged(folder, rows, isolated=isolated)
        found = {each.name for each in result.counter_examples}
        assert found & {"lost-write", "torn-transaction"} == names


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

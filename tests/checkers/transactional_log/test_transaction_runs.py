"""Rows of a run of our own: the same columns, from Parquet that no reader of files has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from checkers.judging.one_run import checker_of, examine
from harness.history import HISTORY
from harness.history.parquet_writer import ParquetWriter
from harness.models.micro_ops import ABORT, ASSIGNED, END, POLL, SEND
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


def test_logs_that_were_read_to_their_ends_say_all(tmp_path: Path) -> None:
    result = judged(
        tmp_path, [*LIVE, (2, "ok", "poll", [POLL, 4, 0, 71, END, 4, 2, NULL])], stored=True
    )
    assert (result.counter_examples, result.doubts) == ((), ())
    assert (result.counts["attempted"], result.counts["failed"]) == (3, 1)


def test_an_unseen_value_of_a_log_that_was_read_to_its_end_is_lost(tmp_path: Path) -> None:
    result = judged(tmp_path, [*LIVE, (2, "ok", "poll", [END, 4, 2, NULL])], stored=True)
    assert [each.name for each in result.counter_examples] == ["unseen"]
    assert result.doubts == ()


def test_an_unseen_value_of_a_log_that_was_not_may_be_late(tmp_path: Path) -> None:
    result = judged(tmp_path, [*LIVE, (2, "fail", "poll", None)], stored=True)
    assert result.counter_examples == ()
    assert [each.name for each in result.doubts] == ["incomplete"]
    assert "no read met the end of logs 4" in result.doubts[0].sentence
    assert result.counts["unseen"] == 1


def test_aborted_values_count_where_polls_are_to_get_what_committed(tmp_path: Path) -> None:
    dirty: list[Row] = [
        *LIVE[:5],
        (1, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 1, 72, END, 3, 2, NULL]),
        LIVE[6],
        (2, "ok", "poll", [POLL, 4, 0, 71, END, 4, 2, NULL]),
    ]
    for isolated, names in {True: ["G1a"], False: []}.items():
        folder = tmp_path / str(isolated)
        folder.mkdir()
        result = judged(folder, dirty, stored=True, isolated=isolated)
        assert [each.name for each in result.counter_examples] == names
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

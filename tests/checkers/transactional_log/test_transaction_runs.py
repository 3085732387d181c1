"""Rows of a run of our own: the same columns, from Parquet that no reader of files has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from checkers.judging.one_run import checker_of, examine
from harness.history import HISTORY
from harness.history.parquet_writer import ParquetWriter
from harness.models.micro_ops import ASSIGNED, POLL, SEND
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


def judged(folder: Path, rows: list[Row]) -> CheckResult:
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
        history=tuple(history.glob("part-*.parquet")),
        reads=(),
        ends=(),
        promises=Promises(model="transaction"),
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

"""Rows of a run of transactions, and what the checker finds in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from checkers.judging.one_run import checker_of, examine
from harness.history import HISTORY
from harness.history.parquet_writer import ParquetWriter
from harness.models.micro_ops import (
    ABORT,
    ASSIGNED,
    DISCARDED,
    END,
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


ABORTED: list[Row] = [
    (0, "invoke", "txn", [SEND, 3, NULL, 70]),
    (0, "ok", "txn", [SEND, 3, 0, 70]),
    (0, "invoke", "txn", [SEND, 3, NULL, 71, ABORT, NULL, NULL, NULL]),
    (0, "fail", "txn", None),
    (0, "invoke", "txn", [SEND, 3, NULL, 72]),
    (0, "ok", "txn", [SEND, 3, 2, 72]),
]


def judged(folder: Path, rows: list[Row], *, stored: bool = False, **options: str) -> CheckResult:
    """`stored`: in a run folder; `options` of the checker."""
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
        promises=Promises(model="transaction"),
    )
    checks = {"kafka": checker_of("kafka", options)}
    result: CheckResult = examine(facts, checks).results["kafka"]
    return result

"""What rows say beside any checker is noted once, whatever checkers do with the rows."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from checkers.judging.availability import WatchedRows
from harness.history import HISTORY
from harness.history.parquet_writer import ParquetWriter
from harness.protocols import Facts, Promises

S = 1_000_000_000


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    """Two parts: a write that is acknowledged after a second, and one that times out."""
    folder = tmp_path / "history"
    folder.mkdir()
    with ParquetWriter(folder, HISTORY, run_id="r", period_s=0) as parts:
        for value, end, error in ((1, "ok", None), (2, "info", "TIMED_OUT")):
            op = ("append", None, value, None, None, None, 0, None, None)
            parts.append(
                [
                    (2 * value - 2, value, "invoke", *op, None, value * S, value * S),
                    (2 * value - 1, value, end, *op, error, value * S, (value + 1) * S),
                ]
            )
    history = tuple(sorted(folder.iterdir()))
    promises = Promises(model="log", partitions=1)
    return Facts(run_id="r", history=history, reads=(), ends=(), promises=promises)


def check_noted(rows: WatchedRows) -> None:
    noted = rows.noted()
    assert rows.availability().latency_p99_ms == 1000
    assert noted.errors.document() == {"unknown": {"TIMED_OUT": 1}, "failed": {}}


def test_nobody_goes_over_the_rows(facts: Facts) -> None:
    check_noted(WatchedRows(facts))


def test_a_checker_goes_over_them_twice(facts: Facts) -> None:
    rows = WatchedRows(facts)
    for _ in range(2):
        assert sum(len(part.value) for part in rows.writes()) == 4
    check_noted(rows)


def test_a_checker_stops_half_way(facts: Facts) -> None:
    rows = WatchedRows(facts)
    assert len(list(islice(rows.writes(), 1))) == 1
    check_noted(rows)

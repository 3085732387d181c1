"""Writes as rows, and their thinning: every lost write stays visible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.latency import (
    GRID,
    LOST,
    OUTCOMES,
    cells,
    coarser,
    counts,
    outcome_is,
    thin,
    writes,
)
from checkers.loss.findings import FINDINGS
from harness.errors import HistoryError
from harness.history import HISTORY
from harness.history.run_folder import RunDir
from tests.fixtures.budget import budget

pytestmark = pytest.mark.slow


def op(kind: str, value: int, at_ms: int, due_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "run_id": "run", "index": 0, "process": 1, "type": kind, "f": "append", "key": None,
        "value": value, "partition": 0, "offset": None, "node": None, "error": None,
        "intended_ns": due_ms * 1_000_000, "time_ns": at_ms * 1_000_000, **more,
    }  # fmt: skip


def run_of(folder: Path, *parts: list[dict[str, Any]], found: dict[str, list[int]]) -> RunDir:
    run = RunDir.create(folder, "run")
    for number, ops in enumerate(parts):
        table = pa.Table.from_pylist(ops)
        names = table.schema.names  # as in files from before columns were added
        columns = {name: table[name].cast(HISTORY.field(name).type) for name in names}
        pq.write_table(pa.table(columns), run.history / f"part-{number:05d}.parquet")
    rows = [{"kind": kind, "value": value} for kind, values in found.items() for value in values]
    pq.write_table(pa.Table.from_pylist(rows, schema=FINDINGS), run.findings / "loss.parquet")
    return run


def outcomes(frame: pd.DataFrame) -> dict[int, str]:
    return {
        int(value): OUTCOMES[outcome]
        for value, outcome in zip(frame["value"], frame["outcome"], strict=True)
    }


def test_every_write_with_its_latency_and_outcome(tmp_path: Path) -> None:
    first = [
        op("invoke", 1, 0, 0), op("invoke", 2, 11, 10), op("invoke", 3, 20, 20),
        op("ok", 1, 5, 0, offset=40), op("invoke", 4, 30, 30), op("invoke", 5, 40, 40),
    ]  # fmt: skip
    second = [
        op("fail", 2, 12, 10), op("info", 3, 8020, 20), op("ok", 4, 31, 30, offset=41),
        op("invoke", 6, 50, 50), op("ok", 6, 51, 50),
        op("invoke", 7, 55, 55), op("ok", 7, 56, 55),
        op("invoke", 99, 60, 60, f="partition", process=-1),
    ]  # fmt: skip
    run = run_of(
        tmp_path, first, second, found={"lost": [4, 2], "not_yet_visible": [6], "deleted": [7]}
    )
    frame = writes(run)
    assert outcomes(frame) == {
        1: "ok",
        2: "fail",
        3: "info",
        4: "lost",
        5: "open",
        6: "absent",
        7: "lost",
    }
    by_value = frame.set_index("value")
    assert by_value.loc[1, "offset"] == 40
    assert by_value.loc[2, "latency_ms"] == 2, "from its due time, not from its invocation"
    assert by_value.loc[3, "latency_ms"] == 8000
    assert np.isnan(by_value.loc[5, "latency_ms"])
    assert counts(frame) == dict.fromkeys(OUTCOMES, 1) | {"lost": 2}


def test_only_acknowledged_writes_can_be_lost(tmp_path: Path) -> None:
    run = run_of(tmp_path, [op("invoke", 1, 0, 0), op("info", 1, 9, 0)], found={"lost": [1]})
    assert outcomes(writes(run)) == {1: "info"}


def test_a_run_without_any_history_has_no_writes(tmp_path: Path) -> None:
    frame = writes(RunDir.create(tmp_path, "run"))
    assert len(frame) == 0
    assert len(thin(frame)) == 0


def test_a_part_that_is_not_parquet_is_named(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "run")
    (run.history / "part-00000.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(HistoryError, match=r"part-00000\.parquet"):
        writes(run)


def frame_of(begin_s: np.ndarray, latency_ms: np.ndarray, outcome: np.ndarray) -> pd.DataFrame:
    n = len(begin_s)
    return pd.DataFrame(
        {
            "value": np.arange(n), "process": 0, "partition": 0, "offset": -1,
            "begin_s": begin_s, "latency_ms": latency_ms.astype(np.float32),
            "outcome": outcome.astype(np.int8),
        }
    )  # fmt: skip


def test_few_writes_are_all_kept() -> None:
    frame = frame_of(np.arange(100.0), np.full(100, 3.0), np.zeros(100))
    kept = thin(frame, at_most=100)
    assert list(kept["value"]) == list(range(100))
    assert kept["count"].sum() == 100


def test_a_lone_lost_write_among_a_million_is_shown() -> None:
    rng = np.random.default_rng(7)
    outcome = np.zeros(1_000_000)
    outcome[567_890] = OUTCOMES.index(LOST)
    frame = frame_of(rng.uniform(0, 60, 1_000_000), rng.lognormal(1, 1, 1_000_000), outcome)
    marks = thin(frame)
    assert 2_000 < len(marks) <= 16_000
    lost = marks[outcome_is(marks, LOST)]
    assert list(lost["value"]) == [567_890]
    assert list(lost["count"]) == [1]
    assert marks["outcome"].is_monotonic_increasing, "lost writes are drawn last, above all others"


@settings(max_examples=budget(20, 60), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 4000),
    at_most=st.integers(40, 400),
    share=st.floats(0, 1),
)
def test_every_lost_write_lies_near_a_mark(seed: int, n: int, at_most: int, share: float) -> None:
    """For any run, counts add up by outcome. If marks are thinned, they occupy exactly the cells
    that the writes occupy in one of the grids, one for each cell and outcome."""
    rng = np.random.default_rng(seed)
    outcome = np.where(
        rng.random(n) < share, OUTCOMES.index(LOST), rng.integers(0, len(OUTCOMES), n)
    )
    begin_s, latency_ms = rng.uniform(0, 50, n), rng.lognormal(2, 3, n)
    latency_ms[outcome == OUTCOMES.index("open")] = np.nan
    frame = frame_of(begin_s, latency_ms, outcome)
    marks = thin(frame, at_most=at_most)
    assert len(marks) <= at_most
    assert counts(frame) == {
        name: int(marks["count"][outcome_is(marks, name)].sum()) for name in OUTCOMES
    }
    if n <= at_most:
        assert len(marks) == n
        return
    shown = cells(frame, GRID)[marks["value"].to_numpy()]
    assert any(
        sorted(coarser(shown, along, up)) == sorted(set(coarser(cells(frame, GRID), along, up)))
        for along, up in ((step // 2, min((step + 1) // 2, 8)) for step in range(21))
    )

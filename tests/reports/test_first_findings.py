"""The first findings of a check on the page of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import HistoryError
from harness.history.run_folder import RunDir
from reports.checks import MOST, examples


def written(folder: Path, rows: Sequence[Mapping[str, Any]], **options: Any) -> RunDir:
    run = RunDir.create(folder, "20260102-030405-abcdef")
    table = pa.Table.from_pylist([{"run_id": run.run_id, **row} for row in rows])
    pq.write_table(table, run.findings_of("mine"), **options)
    return run


def test_of_each_kind_the_first_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    early = [{"kind": "gone", "key": "a", "time_ns": 1_500_000_000, "seen": True}]
    many = [{"kind": "twice", "key": f"k{n}", "time_ns": None, "seen": None} for n in range(200)]
    late = [{"kind": "gone", "key": None, "time_ns": 2_000_000_000, "seen": False}]
    run = written(tmp_path, early + many + late, row_group_size=7)
    gone, twice = examples(run, "mine")
    assert (gone.kind, gone.total, gone.columns) == ("gone", 2, ["key", "time", "seen"])
    assert gone.rows == [["a", "1.50 s", "yes"], ["—", "2.00 s", "no"]]
    assert (twice.kind, twice.total, twice.columns) == ("twice", 200, ["key"])
    assert twice.rows == [[f"k{n}"] for n in range(MOST)]


def test_a_check_that_found_nothing_shows_nothing(tmp_path: Path) -> None:
    run = written(tmp_path, [{"kind": "gone", "key": "a"}])
    assert examples(run, "another") == []


@pytest.mark.parametrize("damage", ["no kind", "cut off"])
def test_what_cannot_be_read_is_named(tmp_path: Path, damage: str) -> None:
    run = written(tmp_path, [{"key": "a"}])
    if damage == "cut off":
        run.findings_of("mine").write_bytes(b"PAR1")
    with pytest.raises(HistoryError, match=r"mine\.parquet"):
        examples(run, "mine")

"""The table of lost writes, and its CSV: safe to open in a spreadsheet."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.findings import findings, first_and_last, values_found, write_csv
from analysis.tables import without_formulas
from checkers.loss.findings import FINDINGS
from harness.errors import EnvironmentFailure
from harness.history.run_folder import RunDir
from harness.protocols.runs import NULL

EVIL = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]


def run_with(folder: Path, *rows: dict[str, object]) -> RunDir:
    run = RunDir.create(folder, "run")
    full = [{"run_id": "run", "kind": "lost"} | row for row in rows]
    pq.write_table(pa.Table.from_pylist(full, schema=FINDINGS), run.findings / "loss.parquet")
    return run


def lost(value: int, partition: int, answered_ms: int, **more: object) -> dict[str, object]:
    return {
        "value": value, "partition": partition, "process": 2, "complete_ns": answered_ms * 10**6,
        "intended_ns": (answered_ms - 1) * 10**6, **more,
    }  # fmt: skip


def test_first_and_last_by_time_for_each_partition(tmp_path: Path) -> None:
    run = run_with(
        tmp_path,
        lost(30, 1, 900), lost(10, 0, 500, fault="cut"), lost(12, 0, 400), lost(11, 0, 450),
        {"kind": "duplicate", "value": 99, "partition": 0},
    )  # fmt: skip
    table = first_and_last(findings(run))
    rows = list(table[["partition", "which", "value", "of"]].itertuples(index=False, name=None))
    assert rows == [(0, "first", 12, 3), (0, "last", 10, 3), (1, "first", 30, 1)]
    assert list(table["fault"]) == [None, "cut", None]


def test_other_kinds_are_selected_by_name(tmp_path: Path) -> None:
    run = run_with(tmp_path, lost(1, 0, 5), {"kind": "unexpected", "value": 7, "partition": 2})
    assert list(findings(run, ["unexpected"])["value"]) == [7]
    assert list(findings(run)["value"]) == [1]


@pytest.mark.parametrize("values", [[2**64 - 1], ["a"], [1.5]])
def test_a_value_that_64_bits_do_not_hold_is_missing(tmp_path: Path, values: list[object]) -> None:
    run = RunDir.create(tmp_path, "run")
    kind = pa.uint64() if isinstance(values[0], int) else None
    table = pa.table({"kind": ["lost"], "value": pa.array(values, kind), "partition": [3]})
    pq.write_table(table, run.findings / "mine.parquet")
    (row,) = findings(run).to_dict("records")
    assert (row["value"], row["partition"]) == (NULL, 3)
    assert list(values_found(run, ["lost"])) == [NULL]


def test_a_run_without_findings_has_an_empty_table(tmp_path: Path) -> None:
    empty = findings(RunDir.create(tmp_path, "run"))
    assert len(empty) == 0
    assert len(first_and_last(empty)) == 0


def test_all_of_them_are_in_the_csv(tmp_path: Path) -> None:
    run = run_with(tmp_path, lost(10, 0, 500, offset=7, fault="cut"), lost(11, 0, 1500))
    write_csv(findings(run), run.lost_csv)
    with run.lost_csv.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0] == {
        "kind": "lost", "partition": "0", "value": "10", "process": "2", "offset": "7",
        "due_s": "0.499", "answered_s": "0.5", "error": "", "fault": "cut",
        "found_partition": "", "found_offset": "",
    }  # fmt: skip
    assert rows[1]["offset"] == "", "a missing offset is an empty cell"


@pytest.mark.parametrize("evil", EVIL)
def test_no_cell_can_be_a_formula(tmp_path: Path, evil: str) -> None:
    run = run_with(tmp_path, lost(10, 0, 500, fault=evil, error=evil))
    write_csv(findings(run), run.lost_csv)
    with run.lost_csv.open(newline="") as stream:
        row = next(iter(csv.DictReader(stream)))
    assert row["fault"] == row["error"] == "'" + evil
    assert f'"\'{evil}"' in run.lost_csv.read_bytes().decode(), "and it is quoted"


def test_harmless_text_is_unchanged() -> None:
    texts = ["cut", "", "a=b", None, "päck"]
    assert without_formulas(pa.array(texts)).to_pylist() == texts


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="lost writes"):
        write_csv(findings(RunDir.create(tmp_path, "run")), tmp_path / "nowhere" / "lost.csv")

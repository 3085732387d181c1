"""The tables of a campaign as files."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.tables import frame, write_tables

ROWS = [
    {"run_id": "a", "lost": None, "share": {"low": 0, "high": 1}, "why": '=cmd("x")'},
    {"run_id": "b", "lost": 7, "share": {"low": 0.5, "high": 1.0}, "why": None},
]


def test_nested_fields_become_columns_of_their_type() -> None:
    table = frame(ROWS)
    assert table.column_names == ["run_id", "lost", "share.low", "share.high", "why"]
    assert table.schema.field("lost").type == pa.int64()
    assert table.schema.field("share.low").type == pa.float64()
    assert table["lost"].to_pylist() == [None, 7]


def test_both_files_hold_the_same_and_no_text_is_a_formula(tmp_path: Path) -> None:
    write_tables({"runs": ROWS}, tmp_path)
    with (tmp_path / "runs.csv").open(newline="") as stream:
        first, second = csv.DictReader(stream)
    assert (first["run_id"], first["lost"], first["share.low"]) == ("a", "", "0")
    assert first["why"] == '\'=cmd("x")'
    assert (second["lost"], second["why"]) == ("7", "")
    assert pq.read_table(tmp_path / "runs.parquet").to_pylist()[0]["why"] == '=cmd("x")'


def test_no_name_of_a_column_is_a_formula(tmp_path: Path) -> None:
    write_tables({"runs": [{"=x": 1, "a\u202eb": 2}]}, tmp_path)
    assert (tmp_path / "runs.csv").read_text().startswith('"\'=x","a\\u202eb"\n')


def test_a_table_without_rows_is_an_empty_file(tmp_path: Path) -> None:
    write_tables({"runs": []}, tmp_path)
    assert (tmp_path / "runs.csv").read_text() == ""
    assert pq.read_table(tmp_path / "runs.parquet").num_rows == 0


def test_invisible_characters_are_shown(tmp_path: Path) -> None:
    write_tables({"runs": [{"why": "a\u202eb"}]}, tmp_path)
    assert "a\\u202eb" in (tmp_path / "runs.csv").read_text()

"""Data frames of a run's files: several files, older files, and what is missing."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis import frames
from harness.history import HISTORY, OBSERVATIONS
from harness.history.run_folder import RunDir
from harness.models import LOG
from tests.fixtures.synthetic_run import Story, build, build_interrupted


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return build(tmp_path_factory.mktemp("runs"), Story())


def row(schema: pa.Schema, **fields: object) -> pa.Table:
    """One row with these fields; what must have a value and has none gets 0 or an empty text."""
    nothing = {
        field.name: None if field.nullable else 0 if pa.types.is_integer(field.type) else ""
        for field in schema
    }
    return pa.Table.from_pylist([{**nothing, **fields}], schema=schema)


def test_files_are_joined_and_observations_ordered_by_time(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "r")
    for number, time_ns in enumerate((3_000_000_000, 1_000_000_000, -500_000_000)):
        table = row(OBSERVATIONS, time_ns=time_ns, answered_by=f"n{number}")
        pq.write_table(table, run.observations / f"part-0000{number}.parquet")
    seen = frames.observations(run)
    assert list(seen["time_s"]) == [-0.5, 1.0, 3.0]
    assert list(seen["answered_by"]) == ["n2", "n1", "n0"]
    assert list(seen.index) == [0, 1, 2]


def test_what_is_missing_is_missing_for_pandas(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "r")
    pq.write_table(row(HISTORY, index=7, value=0), run.history / "part-00000.parquet")
    history = frames.history(run)
    assert (history["index"][0], history["value"][0]) == (7, 0)
    assert history["offset"][0] is history["expected"][0] is pd.NA
    assert history["error"][0] is history["elements"][0] is None


def test_columns_that_an_older_file_lacks_are_missing(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "r")
    table = row(HISTORY, index=1, value=4).drop_columns(["expected", "result", "elements"])
    pq.write_table(table, run.history / "part-00000.parquet")
    history = frames.history(run)
    assert history[["expected", "result", "elements"]].isna().all(axis=None)
    assert list(history["value"]) == [4]


def test_lists_are_lists(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "r")
    pq.write_table(row(HISTORY, elements=[3, 1]), run.history / "part-00000.parquet")
    assert list(frames.history(run)["elements"][0]) == [3, 1]


def test_a_run_that_did_not_begin_has_empty_frames_with_all_columns(
    tmp_path: Path, run: RunDir
) -> None:
    stopped = build_interrupted(tmp_path)
    for frame in (frames.history, frames.observations, frames.reads):
        assert frame(stopped).empty
    assert list(frames.history(stopped).columns) == list(frames.history(run).columns)
    assert frames.writes(stopped, LOG).empty
    assert frames.faults(stopped, None).empty
    assert frames.findings(stopped).empty


def test_findings_of_several_checkers_are_distinguished(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "r")
    lost = pa.table({"run_id": ["r"], "kind": ["lost"], "value": [3], "complete_ns": [2 * 10**9]})
    stale = pa.table({"run_id": ["r"], "kind": ["stale"], "value": [4], "lag": [0.5]})
    pq.write_table(lost, run.findings / "loss.parquet")
    pq.write_table(stale, run.findings / "set.parquet")
    found = frames.findings(run)
    assert list(found.columns) == ["checker", "kind", "value", "complete_s", "lag"]
    assert list(found["checker"]) == ["loss", "set"]
    assert list(found["value"]) == [3, 4]
    assert found["complete_s"][0] == 2.0
    assert found["complete_s"].isna()[1]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([2**64 - 1, None, 3], pa.uint64()),
        ([2**63, 2**63 + 1, None], pa.uint64()),
        ([-(2**63), 2**63 - 1, None], pa.int64()),
        ([Decimal(2**70), None, Decimal(3)], pa.decimal128(38, 0)),
        ([2**60 + 1, None, 1], pa.int64()),
    ],
)
def test_numbers_of_findings_are_those_that_a_checker_wrote(
    tmp_path: Path, values: list[object], kind: pa.DataType
) -> None:
    run = RunDir.create(tmp_path, "r")
    mine = pa.table({"run_id": ["r"] * 3, "kind": ["x"] * 3, "value": pa.array(values, kind)})
    loss = pa.table({"run_id": ["r"], "kind": ["lost"], "value": [2**60 + 1]})
    share = pa.table({"run_id": ["r"], "kind": ["share"], "value": [0.5]})
    pq.write_table(mine, run.findings / "mine.parquet")
    pq.write_table(loss, run.findings / "loss.parquet")
    assert _values(frames.findings(run)) == [2**60 + 1, *values]
    pq.write_table(share, run.findings / "share.parquet")
    assert _values(frames.findings(run)) == [2**60 + 1, *values, 0.5]


def _values(found: pd.DataFrame) -> list[object]:
    return [None if pd.isna(value) else value for value in found["value"]]


def test_times_of_findings_are_seconds_unless_a_column_of_that_name_is_there(
    tmp_path: Path,
) -> None:
    run = RunDir.create(tmp_path, "r")
    columns = {"run_id": ["r"], "kind": ["x"], "begun_ns": [5], "begun_s": [0.5], "text_ns": ["a"]}
    pq.write_table(pa.table(columns), run.findings / "mine.parquet")
    found = frames.findings(run)
    assert list(found.columns) == ["checker", "kind", "begun_ns", "begun_s", "text_ns"]
    assert list(found.iloc[0]) == ["mine", "x", 5, 0.5, "a"]

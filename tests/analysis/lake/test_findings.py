"""Findings of any checker go into the lake: what its columns do not hold is in `more`."""

from __future__ import annotations

import datetime
import importlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.lake.build import _table, build
from analysis.lake.delta import FINDINGS, RUNS, folder_of, open_lake
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
from harness.protocols.checkers import findings_table
from tests.fixtures.campaign_folder import ON
from tests.fixtures.lakes import campaign, lake_of
from tests.fixtures.result_documents import lossy, run

pytestmark = pytest.mark.slow

MODULES = (
    *("locks", "queue", "replicas", "sequence", "watches"),
    *("loss.findings", "register", "sets", "transactional_log.values"),
)


def found(folder: Path, **files: pa.Table) -> list[dict[str, Any]]:
    """The rows of the lake of a run with these findings; `more` as what it holds."""
    made = with_findings(folder / "c", **files)
    rows = lake_of(folder / "lake", made).rows(FINDINGS).to_pylist()
    return [row | {"more": orjson.loads(row["more"] or "{}")} for row in rows]


def with_findings(path: Path, **files: pa.Table) -> CampaignDir:
    """A campaign whose only run has these findings, by the names of their checkers."""
    folder = campaign(path, {ON: [lossy()]})
    (of_run,) = folder.runs.iterdir()
    (of_run / "findings").mkdir()
    for name, table in files.items():
        pq.write_table(table, of_run / "findings" / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("value", ["12"], pa.string()),
        ("value", [2**64 - 1], pa.uint64()),
        ("value", [True], pa.bool_()),
        ("node", [["a", "b"]], pa.list_(pa.string())),
        ("invoke_s", [2**53 + 1], pa.int64()),
        ("more", [3], pa.int8()),
        ("checker", ["another"], pa.string()),
        ("campaign", ["zz"], pa.string()),
        ("number", [2**62 + 1], pa.int64()),
    ],
)
def test_what_a_column_of_the_lake_does_not_hold_is_in_more(
    tmp_path: Path, column: str, values: list[Any], kind: pa.DataType
) -> None:
    table = pa.table({"kind": ["x"], column: pa.array(values, kind)})
    (row,) = found(tmp_path, mine=table)
    assert row["more"] == {column: values[0]}
    assert (row["checker"], row["kind"], row["campaign"]) == ("mine", "x", "c")
    assert row["run_cell"] is row["value"] is row["key"] is row["node"] is row["invoke_s"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.50"), "1.50"),
        (b"\xff", "b'\\xff'"),
        (datetime.timedelta(seconds=90), "0:01:30"),
        (datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC), "2026-01-03T00:00:00+00:00"),
    ],
)
def test_what_json_lacks_is_a_text(tmp_path: Path, value: object, text: str) -> None:
    (row,) = found(tmp_path, mine=pa.table({"kind": ["x"], "it": [value]}))
    assert row["more"] == {"it": text}


def test_what_says_the_same_is_in_the_columns_of_the_lake(tmp_path: Path) -> None:
    table = pa.table(
        {
            "kind": pa.array(["x", "y"]).dictionary_encode(),
            "key": pa.array(["k", None], pa.large_string()),
            "value": pa.array([7, None], pa.uint8()),
            "offset": pa.nulls(2),
            "invoke_ns": pa.array([1_500_000_000, None], pa.int64()),
            "complete_s": pa.array([2, 3], pa.int32()),
        }
    )
    one, two = found(tmp_path, mine=table)
    names = ("kind", "key", "value", "offset", "invoke_s", "complete_s", "more")
    assert [one[name] for name in names] == ["x", "k", 7, None, 1.5, 2.0, {}]
    assert [two[name] for name in names] == ["y", None, None, None, None, 3.0, {}]


def test_checkers_of_one_run_may_differ_in_their_types(tmp_path: Path) -> None:
    loss = pa.table({"kind": ["lost"], "value": [2**60 + 1]})
    kafka = pa.table({"kind": ["lost-write"], "value": ["12"]})
    rows = found(tmp_path, kafka=kafka, loss=loss)
    found_by = sorted(rows, key=lambda row: str(row["checker"]))
    assert [(row["checker"], row["value"], row["more"]) for row in found_by] == [
        ("kafka", None, {"value": "12"}),
        ("loss", 2**60 + 1, {}),
    ]


@pytest.mark.parametrize("module", MODULES)
def test_the_findings_of_every_checker_fit(tmp_path: Path, module: str) -> None:
    checker = importlib.import_module(f"checkers.{module}")
    by_rows = hasattr(checker, "Found")
    columns: pa.Schema = (
        findings_table(checker.Found, (), run_id="").schema if by_rows else checker.FINDINGS
    )
    (row,) = found(tmp_path, own=pa.table({f.name: [sample(f.type)] for f in columns}, columns))
    given = [name.replace("_ns", "_s") for name in columns.names if name != "run_id"]
    assert all(row.get(name) is not None or name in row["more"] for name in given)


def sample(kind: pa.DataType) -> object:
    if pa.types.is_list(kind):
        return [sample(kind.value_type)]
    return "12" if pa.types.is_string(kind) else True if pa.types.is_boolean(kind) else 1


def test_a_result_with_a_number_beyond_64_bits_is_one_that_cannot_be_read(tmp_path: Path) -> None:
    document = run()
    document["counts"] |= {"lost": 2**63}
    build(folder_of(tmp_path / "lake"), campaign(tmp_path / "c", {ON: [document]}))
    lake = open_lake(tmp_path / "lake")
    (row,) = lake.rows(RUNS, ["class", "lost", "reason"]).to_pylist()
    assert (row["class"], row["lost"]) == ("unknown", None)
    assert "result.json: counts.lost is 9223372036854775808: expected less than" in row["reason"]


def test_a_number_that_no_column_holds_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"run\.json: the lake cannot hold its seed"):
        _table(RUNS, [{"seed": 2**63}], tmp_path / "run.json")

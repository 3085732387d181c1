"""From when to when writes were lost, in result.json of a stored run and from findings by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from checkers.judging.one_run import judge_run
from checkers.loss.findings import FINDINGS, lost_spans
from harness.history.documents import LostSpan
from harness.history.run_folder import RunDir

STORED = Path(__file__).parents[2] / "histories" / "runs"


def findings(*rows: tuple[str, int | None, int | None, int | None]) -> pa.Table:
    """Kind, process, begun and answered in milliseconds."""
    return pa.Table.from_pylist(
        [
            {
                "kind": kind,
                "process": process,
                "intended_ns": 0,
                "invoke_ns": None if begun is None else begun * 10**6,
                "complete_ns": None if answered is None else answered * 10**6,
            }
            for kind, process, begun, answered in rows
        ],
        schema=FINDINGS,
    )


def test_a_stored_run_tells_its_spans(tmp_path: Path) -> None:
    """Its leader was cut at 4.07 s and healed at 23.81 s; its clients stayed until then."""
    run = RunDir(shutil.copytree(STORED / "unclean-election-loses", tmp_path / "run"))
    judge_run(run)
    document = run.read_json(run.result)
    every, *clients = document["lost_spans"]
    assert every["client"] is None
    assert every["lost"] == document["counts"]["lost"] == 2019
    assert every["begun_s"] == pytest.approx([4.04, 24.22], abs=0.01)
    assert every["acknowledged_s"] == pytest.approx([7.90, 24.23], abs=0.01)
    assert [one["client"] for one in clients] == [1, 2, 3]
    assert sum(one["lost"] for one in clients) == 2019


def test_a_run_that_lost_nothing_has_none(tmp_path: Path) -> None:
    run = RunDir(shutil.copytree(STORED / "idempotent-producer-duplicates", tmp_path / "run"))
    judge_run(run)
    assert run.read_json(run.result)["lost_spans"] == []


def test_each_client_has_the_processes_that_are_dealt_to_it() -> None:
    found = findings(
        ("lost", 0, 100, 200), ("deleted", 2, 50, 900), ("lost", 3, 70, 80),
        ("not_yet_visible", 1, 1, 5000), ("duplicate", 0, 1, 5000),
    )  # fmt: skip
    assert lost_spans(found, clients=2) == [
        LostSpan(client=None, lost=3, begun_s=(0.05, 0.1), acknowledged_s=(0.08, 0.9)),
        LostSpan(client=1, lost=2, begun_s=(0.05, 0.1), acknowledged_s=(0.2, 0.9)),
        LostSpan(client=2, lost=1, begun_s=(0.07, 0.07), acknowledged_s=(0.08, 0.08)),
    ]
    assert len(lost_spans(found, clients=1)) == 1


def test_what_has_no_time_or_no_process_belongs_to_no_client() -> None:
    assert lost_spans(findings(("lost", 0, None, 200), ("lost", 0, 1, None)), clients=2) == []
    every, *clients = lost_spans(findings(("lost", None, 1, 2)), clients=2)
    assert every.lost == 1
    assert [one.lost for one in clients] == [0, 0]


def test_instants_are_rounded_to_milliseconds() -> None:
    """After hours a second that were a nanosecond too long would show."""
    columns = {
        "invoke_ns": [3_600_000_499_999, 3_600_000_500_001],
        "complete_ns": [7_200_000_499_999, 7_200_000_500_001],
    }
    table = findings(*[("lost", 0, 0, 0)] * 2)
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(values, pa.int64()))
    (span,) = lost_spans(table, clients=1)
    assert span.begun_s == (3600.0, 3600.001)
    assert span.acknowledged_s == (7200.0, 7200.001)

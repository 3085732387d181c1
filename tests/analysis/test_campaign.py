"""Only a result.json of the run itself, as a check writes it, counts."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import orjson
import pytest

from analysis.campaign import campaign_document, run_rows
from harness.campaigns.journal import Journal
from reports.campaign import write_campaign
from tests.fixtures.campaign_folder import OFF, ON, add, build
from tests.fixtures.command_line import ackloss
from tests.fixtures.result_documents import FAILED, lossy, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("edited", "words"),
    [
        ({"run_id": "another"}, "is of another run, 'another'"),
        ({"eligible": "false"}, "eligible is 'false'"),
        ({"doubts": "starved"}, "doubts is 'starved'"),
        ({"counts": {"lost": "3", "deleted": 0, "acknowledged": 9}}, "counts.lost is "),
        ({"counts": {"lost": -3, "deleted": 0, "acknowledged": 9}}, "counts.lost is "),
    ],
)
def test_a_result_of_another_run_or_a_malformed_one_does_not_count(
    edited: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = build(tmp_path / "c", {ON: [run()] * 3})
    first = min(folder.runs.iterdir()) / "result.json"
    first.write_bytes(orjson.dumps({**orjson.loads(first.read_bytes()), **edited}))
    cell = next(cell for cell in campaign_document(folder).cells if cell.name == ON)
    assert (cell.verdicts["none"], cell.verdicts["unknown"]) == (2, 1)
    assert cell.lossy_share.worst_case.estimate == pytest.approx(1 / 3)
    (row, *_) = run_rows(folder)
    assert words in row["reason"]
    assert str(first) in row["reason"]
    if "run_id" not in edited:
        return  # the command says of all of them what this row says
    done = ackloss("report", folder.path)
    (sentence,) = done.stderr.splitlines()
    assert done.exit_code == 0
    assert sentence.startswith(f"the run {first.parent.name} counts as unknown: {first}: {words}")


def led(*met: bool | None) -> list[dict[str, Any]]:
    """What result.json says of who led a cell during faults which met these leaders, or not."""
    return [{"fault": f"f{n}", "leaders": ["b1"], "met": each} for n, each in enumerate(met)]


def test_results_whose_leader_no_fault_met_are_counted_and_stay_what_they_are(
    tmp_path: Path,
) -> None:
    runs = [
        {**run(), "leaders": led(True, False)},
        {**run(), "leaders": led(False, None)},
        {**lossy(), "leaders": led(False)},
        {**run(), "leaders": led(None)},
        {**run(), "leaders": []},
        {**run(), "leaders": led(True, False), "cautions": ["no cut met a leader"]},
        FAILED,
    ]
    folder = build(tmp_path / "c", {ON: runs, OFF: [run()]})
    rows = run_rows(folder)
    met = [row["leader_met"] for row in rows]
    assert met == [True, False, False, None, None, True, None, None]
    assert [row["cautions"] for row in rows] == [*[""] * 5, "no cut met a leader", "", ""]
    assert [row["conclusive"] for row in rows] == [True] * 6 + [False, True]
    on, off = campaign_document(folder).cells
    assert (on.leader_not_met, off.leader_not_met) == (3, 0)
    assert (on.conclusive, on.conclusive_lossy) == (6, 1)


def test_the_load_of_a_cell_is_what_its_conclusive_runs_attempted(tmp_path: Path) -> None:
    """The plan's load lasts 10 s. Earlier results do not count attempts."""
    runs = [
        {**each, "counts": {**each["counts"], "attempted": attempted}}
        for each, attempted in (
            (run(), 500),
            (lossy(), 480),
            (run(), 490),
            (run("unknown", doubts=("starved",)), 10),
        )
    ]
    folder = build(tmp_path / "c", {ON: [*runs, run(), FAILED], OFF: [run()]})
    on, off = campaign_document(folder).cells
    assert (on.attempted_per_s.median, on.attempted_per_s.max) == (49.0, 50.0)
    assert on.attempted_per_s.runs == 3
    assert (off.attempted_per_s.median, off.attempted_per_s.runs) == (None, 0)
    write_campaign(folder)
    with (folder.tables / "cells.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["attempted_per_s.median"] for row in rows] == ["49", ""]
    assert "attempted writes a second" in folder.report.read_text(encoding="utf-8")


def test_versions_are_mixed_where_runs_of_one_cell_differ_in_them(tmp_path: Path) -> None:
    """A campaign compares versions: that its cells differ in them is no reason to doubt it."""
    folder = build(tmp_path / "c", {ON: [run()] * 2}, versions={"target": "4.3.1"})
    journal = Journal(folder.journal)
    add(folder, journal, OFF, 0, run(), {"target": "0.8.2.2", "commit": "a"})
    before = campaign_document(folder)
    assert before.versions == {"commit": ["a"], "target": ["0.8.2.2", "4.3.1"]}
    assert before.mixed_versions == {}
    add(folder, journal, OFF, 1, run(), {"target": "0.8.2.2", "commit": "b"})
    journal.close()
    assert campaign_document(folder).mixed_versions == {"commit": ["a", "b"]}

"""A campaign of groups of consumers shows what they skipped, processed again and lost of their
commits: in its document, on its page, in its tables and in a lake."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.lake.delta import CELLS
from analysis.lake.stored import cells_of
from analysis.statistics.cells import cell_of
from harness.campaigns.folder import CampaignDir
from tests.fixtures.command_line import ackloss
from tests.fixtures.lakes import lake_of
from tests.reports.test_page import Parsed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> CampaignDir:
    path = tmp_path_factory.mktemp("groups")
    (path / "groups.toml").write_text(
        f"""
        schema = 1
        name = "groups"
        plan = "{ROOT / "plans/memory/group-commit-before.toml"}"
        repetitions = 2
        workers = 1
        [axes.commit]
        key = "workload.options.commit"
        values = ["before", "after"]
        [policy]
        fail_on = "never"
        """,
        encoding="utf-8",
    )
    done = ackloss("campaign", "run", str(path / "groups.toml"), "--out", str(path / "out"))
    assert done.exit_code == 0, done.output
    return CampaignDir(path / "out")


def test_the_document_and_the_tables_have_the_measures(folder: CampaignDir) -> None:
    cells = {c["key"]["commit"]: c for c in json.loads(folder.result.read_bytes())["cells"]}
    before, after = (cells[commit]["measures"] for commit in ("before", "after"))
    assert before["skipped"]["runs"] == before["skipped"]["of_runs"] == 2
    assert before["skipped"]["count"] > 0
    assert (after["skipped"]["runs"], after["skipped"]["count"]) == (0, 0)
    assert after["reprocessed"]["count"] > 0, "what a crash repeats"
    assert after["reprocessed_beyond"]["count"] == 0
    assert after["lost_commits"]["whole"] > 0
    table = pd.read_csv(folder.tables / "cells.csv").set_index("key.commit")
    rate = before["skipped"]["pooled"]["estimate"]
    assert rate > 0
    assert table.loc["before", "measures.skipped.pooled.estimate"] == pytest.approx(rate)
    runs = pd.read_csv(folder.tables / "runs.csv")
    skipped = runs[runs["cell"] == "commit=before"]
    assert skipped["measures.skipped.count"].sum() == before["skipped"]["count"]
    shares = skipped["measures.skipped.count"] / skipped["measures.skipped.whole"]
    assert list(skipped["measures.skipped.rate"]) == pytest.approx(list(shares))


def test_the_page_shows_them(folder: CampaignDir) -> None:
    words = Parsed(folder.report.read_text(encoding="utf-8")).words
    assert "Other counts" in words
    for head in (
        "skipped, of acknowledged",
        "processed again, of records processed",
        "commits lost, of commits acknowledged",
    ):
        assert head in words
    assert "in 2 of 2 runs" in words


def test_a_lake_keeps_what_they_are_made_of(folder: CampaignDir, tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", folder)
    rows = lake.read(CELLS)
    skipped = {
        cell: sum(r["skipped"] for r in own["counted"]) for cell, own in rows.groupby("cell")
    }
    assert skipped["commit=before"] > 0 == skipped["commit=after"]
    (name,) = set(rows["campaign"])
    cells = {c["name"]: c for c in json.loads(folder.result.read_bytes())["cells"]}
    for cell in cells_of(lake, name).values():
        seen = cell_of(cell.key, cell.outcomes).measures["skipped"]
        assert seen.count == cells[cell.name]["measures"]["skipped"]["count"]

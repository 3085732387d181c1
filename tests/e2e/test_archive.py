"""A campaign whose runs are copied to object storage, and judged there as here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.lake.delta import TABLES, open_lake
from harness.campaigns.folder import CampaignDir
from harness.history.run_folder import RunDir
from harness.storage import Folder
from tests.fixtures import command_line
from tests.fixtures.lakes import in_order
from tests.fixtures.s3 import s3_bucket
from tests.fixtures.spark_cluster import ackloss

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
CAMPAIGN = f"""
schema = 1
name = "memory"
plan = "{ROOT / "plans/memory/duplicate-on-retry.toml"}"
repetitions = 2
workers = 1
[axes.defect.choices]
on.set = {{}}
off.set = {{ "target.defects" = [] }}
"""


@pytest.mark.full
def test_its_runs_are_judged_at_the_url_as_here(tmp_path: Path) -> None:
    """And it goes into a lake as the folder does. Then one of its operations' files is cut off
    there: that run is refused, and no other."""
    (tmp_path / "memory.toml").write_text(CAMPAIGN)
    folder, url = CampaignDir(tmp_path / "campaign"), "s3://archive/campaign"
    with s3_bucket(tmp_path, "archive"):
        args = ["campaign", "run", str(tmp_path / "memory.toml"), "--out", str(folder.path)]
        done = ackloss(*args, "--archive", url, environment={})
        assert done.returncode == 1, done.stderr
        there, here = (
            lake_of(tmp_path / name, at) for name, at in (("a", url), ("b", folder.path))
        )
        checked = ackloss("check", url, "--json", environment={})
        assert checked.returncode == 1, checked.stderr
        assert Folder.at(url).has("report.html")
        cut, part = cut_off(Folder.at(url))
        again = ackloss("check", url, "--json", environment={})
    assert [name for name in TABLES if there[name].empty] == []
    for name in TABLES:
        assert in_order(there[name]) == in_order(here[name]), name
    assert again.returncode == 4, again.stderr
    (sentence,) = again.stderr.splitlines()
    assert sentence.startswith(f"ackloss: {url}/{part}: is cut off, or not Parquet")
    assert untimed(again.stdout) == [
        each for each in untimed(checked.stdout) if each["run_id"] != cut
    ]
    runs = folder.runs_with_history()
    judged = json.loads(checked.stdout)["results"]
    assert [each["run_id"] for each in judged] == [run.run_id for run in runs]
    assert [each["verdict"] for each in judged] == [verdict(run) for run in runs]
    assert {each["verdict"] for each in judged} == {"valid", "invalid"}
    assert [each["counts"] for each in judged] == [
        run.read_json(run.result)["counts"] for run in runs
    ]


def lake_of(lake: Path, campaign: str | Path) -> dict[str, pd.DataFrame]:
    """The tables of a lake that is built of a campaign."""
    done = command_line.ackloss("lake", "build", campaign, "--ops", "--to", lake)
    assert done.exit_code == 0, done.stderr
    return {name: open_lake(lake).read(table) for name, table in TABLES.items()}


def cut_off(archive: Folder) -> tuple[str, str]:
    """Halve a file of operations; its run, and its name."""
    part = next(name for name in archive.files() if "/history/" in name)
    content = archive.read(part)
    archive.write(part, content[: len(content) // 2])
    return part.split("/")[1], part


def untimed(stdout: str) -> list[dict[str, Any]]:
    """The results without what differs from one check to the next."""
    results = json.loads(stdout)["results"]
    return [{**each, "timings": {**each["timings"], "check_s": None}} for each in results]


def verdict(run: RunDir) -> str:
    return str(run.read_json(run.result)["verdict"])


def test_a_url_that_takes_nothing_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    (tmp_path / "memory.toml").write_text(CAMPAIGN)
    args = ["campaign", "run", str(tmp_path / "memory.toml"), "--out", str(tmp_path / "campaign")]
    for archive, code, words in (
        ("archive", 2, "not a URL such as s3://bucket/folder"),
        ("gopher://archive/x", 4, "nothing here reads the scheme 'gopher'"),
        ("file:///proc/none", 5, "/proc/none/campaign.toml: cannot be used: "),
    ):
        done = command_line.ackloss(*args, "--archive", archive)
        assert done.exit_code == code, done.output
        assert words in " ".join(done.stderr.split())
        assert not list((tmp_path / "campaign").glob("runs/*"))

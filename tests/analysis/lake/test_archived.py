"""Campaigns in a lake from their archives in S3 (a server on loopback): only what is new is read,
and what is not there completely is left out, or refused in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from analysis.lake.delta import RUNS, TABLES, open_lake
from analysis.lake.sources import _needed
from harness.campaigns.folder import CampaignDir
from harness.history.run_folder import RunDir
from harness.storage import Folder
from tests.fixtures.campaign_folder import OFF, ON
from tests.fixtures.command_line import ackloss, ackloss_json
from tests.fixtures.lakes import add_run, campaign, files_of, in_order, lake_of
from tests.fixtures.result_documents import FAILED, lossy, run
from tests.fixtures.s3 import S3

pytestmark = pytest.mark.slow


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the campaign of a test is archived."""
    return f"s3://bucket/{tmp_path.name}/night 1"


@pytest.fixture
def night(s3: S3, url: str, tmp_path: Path) -> CampaignDir:
    """An archived campaign."""
    folder = campaign(tmp_path / "night 1", {ON: [lossy(3), FAILED], OFF: [run()]})
    for each in folder.runs.iterdir():
        complete(RunDir(each))
    put(folder, url)
    return folder


def complete(run: RunDir) -> None:
    run.manifest.write_text("{}")


def put(folder: CampaignDir, url: str) -> None:
    files = (path for path in folder.path.rglob("*") if path.is_file())
    Folder.at(url).send({path.relative_to(folder.path).as_posix(): path for path in files})


def built(url: str, lake: Path, *words: str) -> dict[str, int]:
    """What a build says of the campaign."""
    (one,) = ackloss_json("lake", "build", url, "--to", lake, *words)["campaigns"]
    return {name: one[name] for name in ("runs", "added", "replaced", "absent")}


def test_an_archive_makes_the_rows_that_its_folder_makes(
    night: CampaignDir, url: str, tmp_path: Path
) -> None:
    assert built(url, tmp_path / "there") == {"runs": 3, "added": 3, "replaced": 0, "absent": 0}
    there, here = open_lake(tmp_path / "there"), lake_of(tmp_path / "here", night)
    assert there.campaigns[0].identity == here.campaigns[0].identity
    for table in TABLES.values():
        assert in_order(there.read(table)) == in_order(here.read(table)), table.name
    assert built(str(night.path), tmp_path / "there")["added"] == 0, "they are the same runs"
    assert built(night.path.as_uri(), tmp_path / "there")["added"] == 0


def test_only_what_is_new_is_read(night: CampaignDir, url: str, s3: S3, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    built(url, lake)
    files = files_of(lake)
    read = re.compile(r"GET /bucket/.*/(\S+/run\.json)")
    before = len(s3.requested(read))
    assert before
    again = next(each for each in map(RunDir, night.runs.iterdir()) if each.result.is_file())
    assert built(url, lake) == {"runs": 3, "added": 0, "replaced": 0, "absent": 0}
    assert len(s3.requested(read)) == before
    assert files_of(lake) == files
    new = night.run(add_run(night, OFF, 1, lossy(7)))
    again.result.write_bytes(orjson.dumps({**lossy(8), "run_id": again.run_id}))
    complete(new)
    put(night, url)
    assert built(url, lake) == {"runs": 4, "added": 1, "replaced": 1, "absent": 0}
    assert {name.split("/")[0] for name in s3.requested(read)[before:]} == {
        new.run_id,
        again.run_id,
    }


def test_a_run_whose_copy_is_not_complete_is_left_out_until_it_is(
    night: CampaignDir, url: str, tmp_path: Path
) -> None:
    """Its result may be there before what the rest of its rows are made of."""
    new = night.run(add_run(night, OFF, 1, lossy(7)))
    put(night, url)
    done = ackloss("lake", "build", url, "--to", tmp_path / "lake")
    assert done.exit_code == 0
    assert "night 1: 3 added of 3 runs" in done.stdout
    assert "night 1: 1 more are not in its archive yet" in done.stdout
    complete(new)
    put(night, url)
    assert built(url, tmp_path / "lake") == {"runs": 4, "added": 1, "replaced": 0, "absent": 0}


def test_a_damaged_result_is_a_failed_run_that_names_the_url(
    night: CampaignDir, url: str, tmp_path: Path
) -> None:
    name = next(name for name in Folder.at(url).files() if name.endswith("/result.json"))
    Folder.at(url).write(name, b"{")
    built(url, tmp_path / "lake")
    runs = open_lake(tmp_path / "lake").read(RUNS)
    (reason,) = runs[runs["run_id"] == name.split("/")[1]]["reason"]
    assert reason.startswith(f"{url}/{name}: ")


def test_what_is_no_archive_is_one_sentence_and_the_others_are_added(
    night: CampaignDir, url: str, tmp_path: Path
) -> None:
    there, lake = Folder.at(f"s3://bucket/{tmp_path.name}"), tmp_path / "lake"
    for name in ("campaign.toml", "base.json"):
        there.write(f"under way/{name}", Folder.at(url).read(name))
    there.write("broken/campaign.toml", b"schema = ")
    for name in ("base.json", "journal.jsonl"):
        there.write(f"broken/{name}", Folder.at(url).read(name))
    names = ("none", "under way", "broken", "")
    given = (f"s3://bucket/{tmp_path.name}/{name}".rstrip("/") for name in names)
    done = ackloss("lake", "build", *given, url, "--to", lake)
    assert done.exit_code == 4
    assert "night 1: 3 added of 3 runs" in done.stdout
    none, under_way, broken, above = done.stderr.splitlines()
    place = f"ackloss: s3://bucket/{tmp_path.name}"
    assert none == f"{place}/none: there is nothing here"
    assert under_way.startswith(f"{place}/under way/journal.jsonl: is not archived: ")
    assert broken.startswith(f"{place}/broken/campaign.toml: ")
    assert above.startswith(f"{place}: this is not an archived campaign: it has no campaign.toml")
    assert open_lake(lake).campaign("night 1") is not None


def test_nothing_is_copied_that_leads_elsewhere_or_is_not_read() -> None:
    of_run = ("run.json", "result.json", "findings/loss.parquet", "observations/part-0.parquet")
    rest = ("manifest.json", "reads/part-0.parquet", "nodes/n/x.log", "report.html", "x/run.json")
    inner = [f"runs/a/cells/x/{name}" for name in (*of_run, *rest)]
    history = "runs/a/cells/x/history/part-0.parquet"
    names = [*inner, history, "runs/a/manifest.json", "runs/b/run.json", "runs/../run.json"]
    names += ["runs/a/../../x/run.json", "runs/../manifest.json", "campaign.toml"]
    needed = [f"runs/a/cells/x/{name}" for name in of_run]
    assert list(_needed(names, ops=False)) == needed
    assert sorted(_needed(names, ops=True)) == sorted([*needed, history])

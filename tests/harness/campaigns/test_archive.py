"""Copies of judged runs at a URL: complete and manifest last, or reported and tried again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.campaigns.archive import Archive
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Journal, Progress, RunBegun, RunDone, RunFailed, read_progress
from harness.errors import EnvironmentFailure
from harness.history.run_folder import cell_id
from harness.storage import Folder
from tests.fixtures.s3 import S3

pytestmark = pytest.mark.slow


@pytest.fixture
def campaign(tmp_path: Path) -> CampaignDir:
    """Runs `done` and `failed`, one of two cells of which one is under way, and one `begun`."""
    folder = CampaignDir(tmp_path / "campaign")
    folder.runs.mkdir(parents=True)
    folder.file.write_text("schema = 1")
    folder.base.write_text("{}")
    journal = Journal(folder.journal)
    for number, run_id in enumerate(["done", "failed", "begun", "s.x", "s.y"]):
        shared = "s" if "." in run_id else None
        journal.write(RunBegun(cell="c", repetition=number, run_id=run_id, worker=1, shared=shared))
        write(folder, run_id)
    write(folder, "s")
    journal.write(RunDone(run_id="done", verdict="valid", seconds=1.0))
    journal.write(RunFailed(run_id="failed", error="no"))
    journal.write(RunDone(run_id="s.x", verdict="valid", seconds=1.0))
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder.at(f"file://{tmp_path}/there")


def write(folder: CampaignDir, run_id: str) -> None:
    """A run's folder, with files that are not to be copied."""
    path = folder.run(run_id).path
    (path / "history").mkdir(parents=True)
    for name in ("manifest.json", "run.json", "history/part-00000.parquet", ".partial"):
        (path / name).write_text(f"{run_id}/{name}")
    (path / "link").symlink_to("/etc/hostname")


def copied(place: Folder) -> set[str]:
    """The files of runs at the URL."""
    return {name for name in place.files() if name.startswith("runs/")}


def files_of(*runs: str) -> set[str]:
    return {
        f"runs/{run}/{name}"
        for run in runs
        for name in ("manifest.json", "run.json", "history/part-00000.parquet")
    }


def progress(campaign: CampaignDir) -> Progress:
    return read_progress(campaign.journal)


def test_judged_runs_are_copied_and_the_copy_is_a_campaign(
    campaign: CampaignDir, place: Folder
) -> None:
    said = list[str]()
    archive = Archive(campaign, place, said.append)
    archive.begin(progress(campaign))
    assert archive.finish(progress(campaign)) == []  # the other cell of s is under way
    assert copied(place) == files_of("done")
    assert {"campaign.toml", "base.json", "journal.jsonl"} <= set(place.files())
    assert said == []


@pytest.mark.parametrize("change", ["file", "base", "run"])
def test_a_url_of_another_campaign_is_refused_and_left_as_it_is(
    campaign: CampaignDir, place: Folder, change: str
) -> None:
    """Two campaigns of the same file differ in their runs alone."""
    copy_to(place, campaign)
    before = place.files()
    if change == "run":
        campaign.journal.unlink()
        Journal(campaign.journal).write(RunBegun(cell="c", repetition=1, run_id="new", worker=1))
    else:
        getattr(campaign, change).write_text("schema = 1 # another")
    with pytest.raises(EnvironmentFailure, match="another campaign is there") as refused:
        Archive(campaign, place, pytest.fail).begin(progress(campaign))
    assert refused.value.file == place.place()
    assert place.files() == before


def test_a_shared_run_that_a_crash_left_half_judged_is_copied_at_the_end(
    campaign: CampaignDir, place: Folder
) -> None:
    archive = Archive(campaign, place, pytest.fail)
    archive.begin(progress(campaign))
    Journal(campaign.journal).write(RunFailed(run_id=cell_id("s", "y"), error="no"))
    assert archive.finish(progress(campaign)) == []
    assert copied(place) == files_of("done", "s", "s/cells/x", "s/cells/y")


def test_the_manifest_is_the_last_file_of_a_copy(campaign: CampaignDir, s3: S3) -> None:
    Journal(campaign.journal).write(RunDone(run_id="s.y", verdict="valid", seconds=1.0))
    copy_to(Folder.at("s3://bucket/last"), campaign)
    put = s3.requested(re.compile(r'"(?:PUT|POST) /bucket/last/runs/(s/[^? ]+)'))
    names = list(dict.fromkeys(put))
    assert names[-1] == "s/manifest.json"
    assert {*names[-3:-1]} == {"s/cells/x/manifest.json", "s/cells/y/manifest.json"}
    assert len(names) == 9


def test_a_storage_that_goes_away_costs_no_run_and_is_reported(
    campaign: CampaignDir, tmp_path: Path
) -> None:
    said, there = list[str](), tmp_path / "there"
    archive = Archive(campaign, Folder.of(there), said.append)
    archive.begin(Progress())
    shutil.rmtree(there)
    there.touch()
    archive.add("done")
    assert archive.finish(progress(campaign)) == ["done"]
    (sentence,) = said
    assert sentence.startswith(f"judged runs that were not copied to {there}: 1 ({there}/")
    assert sentence.endswith("`ackloss campaign resume --archive` copies what is missing")
    assert campaign.run("done").manifest.is_file()


def test_a_url_that_takes_nothing_is_refused_before_anything_begins(
    campaign: CampaignDir, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    archive = Archive(campaign, Folder.at(f"file://{tmp_path}/file/below"), pytest.fail)
    with pytest.raises(EnvironmentFailure):
        archive.begin(progress(campaign))


def test_what_has_been_copied_is_not_copied_again(campaign: CampaignDir, place: Folder) -> None:
    for content in ("first", "second"):
        campaign.run("done").run.write_text(content)
        copy_to(place, campaign)
    assert place.read("runs/done/run.json") == b"first"
    assert json.loads(place.read("base.json")) == {}


def test_a_run_that_was_judged_again_is_copied_again(campaign: CampaignDir, s3: S3) -> None:
    """What the run itself wrote is not."""
    place = Folder.at("s3://bucket/again")
    Journal(campaign.journal).write(RunDone(run_id="s.y", verdict="valid", seconds=1.0))
    judged(campaign, "valid", loss="first", set="first")
    copy_to(place, campaign)
    judged(campaign, "unknown", loss="second")
    for run in ("done", "s"):
        campaign.run(run).run.write_text("changed")
    copy_to(place, campaign)
    for run in ("done", "s", "s/cells/x", "s/cells/y"):
        folder = place.below(f"runs/{run}")
        assert folder.read("result.json") == b"unknown"
        assert folder.read("findings/loss.parquet") == b"second"
        assert not folder.has("findings/set.parquet")
    assert place.read("runs/done/run.json") == b"done/run.json"
    assert place.read("runs/s/run.json") == b"s/run.json"
    assert copied(place) >= files_of("done", "s", "s/cells/x", "s/cells/y")


def test_a_run_that_was_judged_again_at_its_url_keeps_that_verdict(
    campaign: CampaignDir, place: Folder
) -> None:
    judged(campaign, "valid")
    copy_to(place, campaign)
    place.write("runs/done/result.json", b"judged at the URL")
    copy_to(place, campaign)
    assert place.read("runs/done/result.json") == b"judged at the URL"


def test_a_copy_of_a_new_verdict_that_broke_off_is_made_by_the_next_resume(
    campaign: CampaignDir, place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is copied last."""
    judged(campaign, "valid")
    copy_to(place, campaign)
    judged(campaign, "invalid", loss="second")
    archive, send = Archive(campaign, place, lambda _: None), Folder.send

    def failing(self: Folder, files: Mapping[str, Path]) -> None:
        if any("findings" in name for name in files):
            raise EnvironmentFailure("gone")
        send(self, files)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "send", failing)
        archive.begin(progress(campaign))
        assert archive.finish(progress(campaign)) == ["done"]
    assert place.read("runs/done/result.json") == b"valid"
    copy_to(place, campaign)
    assert place.read("runs/done/result.json") == b"invalid"
    assert place.read("runs/done/findings/loss.parquet") == b"second"


def judged(campaign: CampaignDir, verdict: str, **found: str) -> None:
    """Write what a check writes into the folders of all runs and cells."""
    for run in ("done", "s", "s.x", "s.y"):
        folder = campaign.run(run)
        shutil.rmtree(folder.findings, ignore_errors=True)
        folder.findings.mkdir()
        for check, content in found.items():
            folder.findings_of(check).write_text(content)
        folder.result.write_text(verdict)


def copy_to(place: Folder, campaign: CampaignDir) -> None:
    archive = Archive(campaign, place, pytest.fail)
    archive.begin(progress(campaign))
    assert archive.finish(progress(campaign)) == []

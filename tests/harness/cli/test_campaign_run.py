"""What `campaign run` and `resume` print about the campaign, once its session is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.campaigns.folder import CampaignDir
from harness.cli import main
from tests.fixtures.campaign_folder import build
from tests.fixtures.lakes import ROOT, memory_campaign
from tests.fixtures.result_documents import run

AXES = """
[axes.defect.choices]
on.set = {}
off.set = { "target.defects" = [] }
"""

MEMORY = """
plan = "log"
repetitions = 1
[axes.faults.choices]
none.set = { faults = [] }
"""


@pytest.fixture
def finished(tmp_path: Path) -> CampaignDir:
    """A campaign of the reference system of which no run is left."""
    simulated = {**run(), "simulated": True}
    return build(
        tmp_path / "c",
        {"defect=on": [simulated], "defect=off": [simulated]},
        axes=AXES,
        base=(ROOT / "plans/memory/duplicate-on-retry.toml").read_text(),
        head="repetitions = 1\nworkers = 1",
    )


def resume(folder: CampaignDir, *words: str) -> Result:
    return CliRunner().invoke(main, ["campaign", "resume", str(folder.path), *words])


def test_a_campaign_whose_session_is_over_is_not_running(finished: CampaignDir) -> None:
    done = resume(finished)
    assert done.exit_code == 0, done.output
    assert "0 runs are left; the campaign is not running" in done.stdout
    assert json.loads(resume(finished, "--json").stdout)["alive"] is False


@pytest.mark.parametrize("way", ["", "inside", "..", "../link/inside", "runs/x"])
def test_an_archive_that_overlaps_the_campaign_is_refused(
    finished: CampaignDir, tmp_path: Path, way: str
) -> None:
    """It would copy itself into itself."""
    (tmp_path / "link").symlink_to(finished.path)
    before = sorted(tmp_path.rglob("*"))
    place = f"{finished.path.as_uri()}/{way}"
    done = resume(finished, "--archive", place)
    assert done.exit_code == 2
    assert f"--archive is, holds, or is inside the campaign's own folder {finished.path}" in _words(
        done
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_an_archive_in_the_folder_of_a_new_campaign_is_refused(tmp_path: Path) -> None:
    file, new = memory_campaign(tmp_path, "file", MEMORY), tmp_path / "new"
    words = ["campaign", "run", str(file), "--out", str(new), "--archive", f"{new.as_uri()}/x"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "--archive is, holds, or is inside" in done.output
    assert not new.exists()


@pytest.mark.parametrize("below", ["", "/x/y"])
def test_an_archive_that_is_a_file_is_refused_before_a_campaign_is_made(
    tmp_path: Path, below: str
) -> None:
    """The corrected command would find its folder."""
    file, new = memory_campaign(tmp_path, "file", MEMORY), tmp_path / "new"
    place = tmp_path / "a file"
    place.touch()
    words = ["campaign", "run", str(file), "--out", str(new), "--archive", place.as_uri() + below]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 5
    assert done.stderr == (
        f"ackloss: {place}: is a file, and --archive names a folder; name another one\n"
    )
    assert not new.exists()


def test_an_archive_beside_the_campaign_is_none_of_it(
    finished: CampaignDir, tmp_path: Path
) -> None:
    place = f"{finished.path.as_uri()}-archive"
    assert "--archive is" not in _words(resume(finished, "--archive", place))
    assert (tmp_path / "c-archive" / "campaign.toml").is_file()


def _words(done: Result) -> str:
    """What was printed, without the frame and its line breaks."""
    return " ".join(done.output.replace("│", " ").split())

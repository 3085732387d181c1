"""What `campaign run` and `resume` print about the campaign, once its session is over."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console

from ackloss.cli.campaign_status import Watched
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Entry, Journal, Progress, RunBegun, RunDone, RunFailed
from harness.campaigns.loading import load_campaign
from harness.campaigns.scheduler import estimate, left_s
from tests.fixtures.campaign_folder import build
from tests.fixtures.command_line import ackloss
from tests.fixtures.lakes import ROOT, memory_campaign
from tests.fixtures.result_documents import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

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
    return ackloss("campaign", "resume", folder.path, *words)


def test_a_campaign_whose_session_is_over_is_not_running(finished: CampaignDir) -> None:
    done = resume(finished)
    assert done.exit_code == 0, done.output
    assert "0 runs are left; the campaign is not running" in done.stdout
    assert json.loads(resume(finished, "--json").stdout)["alive"] is False


def test_a_campaign_shows_its_cells_the_runs_under_way_and_the_time_left(tmp_path: Path) -> None:
    lossy = {**run("invalid", lost=1), "simulated": True}
    folder = build(
        tmp_path / "c",
        {"defect=on": [lossy], "defect=off": [{**run(), "simulated": True}]},
        axes=AXES,
        base=(ROOT / "plans/memory/duplicate-on-retry.toml").read_text(),
        head='repetitions = 2\nshare = "always"',
        ended=None,
        shared=True,
    )
    journal = Journal(folder.journal)
    for cell in ("defect=on", "defect=off"):
        begun = {"cell": cell, "repetition": 1, "worker": 3, "shared": "second"}
        journal.write(RunBegun(run_id=f"second.{cell[7:]}", **begun))
    journal.close()
    watched = Watched(folder.campaign(), folder.progress(), 1)
    assert watched.ended("shared-0") == "worker 1  (2 cells)  1 invalid, 1 valid in 12 s"
    assert [line.partition("  ")[0] for line in watched.under_way()] == ["worker 3"]
    assert watched.under_way()[0].startswith("worker 3  (2 cells), no. 2")
    assert watched.so_far().startswith("1 of 2 runs; about ")
    console = Console(width=80, height=30, file=io.StringIO())
    console.print(watched.table(console))
    shown = console.file.getvalue()
    assert "defect=on   ✕▸" in shown
    assert "defect=off  ✓▸" in shown
    with folder.locked():
        done = ackloss("campaign", "status", folder.path)
    assert "worker 3  (2 cells), no. 2" in done.stdout
    assert "1 of 2 runs; about " in done.stdout


def test_a_run_that_failed_shows_how_long_it_took() -> None:
    campaign, progress = load_campaign(ROOT / "campaigns/aphyr-2013.toml"), Progress()
    cell, at = campaign.possible[0].name, "2026-11-27T10:00:{}+00:00".format
    progress.add(RunBegun(cell=cell, repetition=0, worker=2, run_id="r", at=at("00")))
    progress.add(RunFailed(run_id="r", error="it took longer than its limit", at=at("40")))
    words = f"worker 2  {cell}  failed: it took longer than its limit in 40 s"
    assert Watched(campaign, progress, 1).ended("r") == words


def test_the_time_left_is_that_of_the_runs_so_far() -> None:
    """Two of four are left, one of them under way for 10 of 30 s, on one worker."""
    campaign = load_campaign(ROOT / "campaigns/aphyr-2013.toml", repetitions=1)
    entries: list[Entry] = []
    for number, (cell, begin, end) in enumerate(
        zip(campaign.possible, (0, 30, 60), (30, 60, None), strict=False)
    ):
        at = {"run_id": f"r{number}"}
        stamp = "2026-11-27T10:{:02}:{:02}+00:00"
        begun = stamp.format(begin // 60, begin % 60)
        entries.append(RunBegun(cell=cell.name, repetition=0, worker=1, at=begun, **at))
        if end is not None:
            entries.append(RunDone(verdict="valid", at=stamp.format(end // 60, end % 60), **at))
    progress = Progress()
    for entry in entries:
        progress.add(entry)
    now = datetime(2026, 11, 27, 10, 1, 10, tzinfo=UTC)
    left = estimate(campaign, progress.finished(), 1).executions
    assert left_s(campaign, progress, 1, now) == pytest.approx(30 * left - 10)


def test_more_repetitions_are_run_and_the_journal_says_so(finished: CampaignDir) -> None:
    begun = set(finished.progress().runs)
    done = resume(finished, "--repetitions", "2")
    assert done.exit_code == 1, done.output
    progress = finished.progress()
    assert begun < set(progress.runs)
    assert progress.finished() == {(f"defect={on}", n) for on in ("on", "off") for n in (0, 1)}
    assert finished.journal.read_text().count('"repetitions":2') == 1
    document = json.loads(finished.result.read_bytes())
    assert document["planned"] == document["runs"] == 4
    assert document["repetitions_raised"] == 2
    assert "raised to 2 after results were seen" in finished.report.read_text()
    assert _words(done).count(document["closing"]) == 1
    assert "0 runs are left" in resume(finished).stdout, "it stays at two without the option"
    fewer = resume(finished, "--repetitions", "1")
    assert fewer.exit_code == 2
    assert "--repetitions is 1, but the campaign has 2 of each cell" in _words(fewer)


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
    done = ackloss("campaign", "run", file, "--out", new, "--archive", f"{new.as_uri()}/x")
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
    done = ackloss("campaign", "run", file, "--out", new, "--archive", place.as_uri() + below)
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

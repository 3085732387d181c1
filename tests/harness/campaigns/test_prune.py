"""Thinning the runs of a campaign: what goes, what stays, and what is never touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from click.testing import CliRunner

from analysis.campaign import campaign_document, run_rows
from harness.campaigns.folder import CampaignDir
from harness.campaigns.progress import Journal, read_progress
from harness.cli import main
from tests.fixtures.campaign_folder import OFF, ON, add, build
from tests.fixtures.result_documents import lossy, run

UNKNOWN = run("unknown", doubts=("incomplete",))
WRONG = run("invalid", counter_examples=("duplicates",))
RUNS = {
    ON: [lossy()] * 12 + [run()] * 4 + [WRONG, {"error": "no disk"}, run()],
    OFF: [run()] * 6 + [UNKNOWN] * 3,
}
KEPT = {"result.json", "run.json", "plan.json", "faults.jsonl", "findings"}
THINNED = {"history", "reads", "observations", "nodes", "report.html", "timeline.png"}


def prune(folder: CampaignDir, *words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["campaign", "prune", str(folder.path), "--json", *words])
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = orjson.loads(done.stdout)
    return told


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != ".lock"}


def thin(folder: CampaignDir) -> list[str]:
    return sorted(path.name for path in folder.runs.iterdir() if not (path / "history").exists())


def test_every_count_stays_exactly_what_it_was(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", RUNS)
    before, rows = campaign_document(folder), run_rows(folder)
    told = prune(folder, "--keep", "2")
    assert told["runs"] > 0
    assert campaign_document(folder) == before
    assert run_rows(folder) == rows


def test_failures_and_the_newest_of_each_cell_stay_whole(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", RUNS)
    told = prune(folder, "--keep", "2")
    # Of the first cell runs 12 to 15 go, of the second the first 7 of 9.
    assert thin(folder) == [f"{n:05}-r" for n in (*range(12, 16), *range(19, 26))]
    assert (told["runs"], told["kept"]) == (11, 17)
    names = {path.name for path in (folder.runs / "00012-r").iterdir()}
    assert names == KEPT
    assert {path.name for path in (folder.runs / "00000-r").iterdir()} == KEPT | THINNED


def test_what_is_said_to_be_freed_was_there_and_a_second_time_frees_nothing(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", RUNS)
    dry = prune(folder, "--keep", "0", "--dry-run")
    assert thin(folder) == []
    assert dry["freed_bytes"] >= 20_000 * dry["runs"]
    done = prune(folder, "--keep", "0")
    assert {**done, "dry_run": True} == dry
    again = prune(folder, "--keep", "0")
    assert (again["runs"], again["freed_bytes"]) == (0, 0)
    assert again["kept"] == done["kept"]


def test_nothing_outside_the_runs_of_its_journal_is_touched(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {})
    inner = build(tmp_path / "other", {ON: [run()] * 3})
    journal = Journal(folder.journal)
    mine = add(folder, journal, ON, 0, run())
    not_in_journal = folder.runs / "stranger" / "history"
    not_in_journal.mkdir(parents=True)
    (folder.runs / "link").symlink_to(inner.runs / "00000-r")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("p")
    (folder.runs / mine / "reads" / "ends.parquet").unlink()
    (folder.runs / mine / "reads").rmdir()
    (folder.runs / mine / "reads").symlink_to(elsewhere)
    (folder.runs / mine / "history" / "inner-link").symlink_to(elsewhere)
    for run_id in ("link", "../../other/runs/00001-r", str(inner.runs / "00002-r"), "..", ".", ""):
        journal.write("begun", cell=ON, repetition=1, run_id=run_id, worker=1)
        journal.write("done", run_id=run_id, verdict="valid", seconds=1)
        (folder.path / "nodes").mkdir(exist_ok=True)
        (folder.runs / "nodes").mkdir(exist_ok=True)
    before = everything(tmp_path)
    prune(folder, "--keep", "0")
    gone = before - everything(tmp_path)
    assert gone
    assert all(path.startswith(f"c/runs/{mine}/") for path in gone)
    assert (folder.runs / mine / "reads").is_symlink()
    assert (elsewhere / "precious").read_text() == "p"


def test_runs_that_are_a_link_are_refused(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()] * 3})
    folder.runs.rename(tmp_path / "moved")
    folder.runs.symlink_to(tmp_path / "moved")
    words = ["campaign", "prune", str(folder.path), "--keep", "0"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 5
    assert "symbolic link" in done.output
    assert (tmp_path / "moved" / "00000-r" / "history").is_dir()


def test_it_refuses_while_the_campaign_is_played(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()] * 3})
    with folder.locked():
        words = ["campaign", "prune", str(folder.path), "--keep", "0"]
        done = CliRunner().invoke(main, words)
    assert done.exit_code == 5
    assert "is being played" in done.output
    assert thin(folder) == []


def test_a_run_that_was_only_begun_is_left_for_resume(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()]})
    journal = Journal(folder.journal)
    run_id = add(folder, journal, ON, 1, run())
    whole = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(whole[:-1]))  # its `done` was never written
    assert read_progress(folder.journal).runs[run_id].state == "begun"
    prune(folder, "--keep", "0")
    assert thin(folder) == ["00000-r"]

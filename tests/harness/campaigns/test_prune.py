"""Pruning the runs of a campaign: what is deleted, what stays, and what is never touched."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson

from analysis.campaign import campaign_document, run_rows
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Journal, RunBegun, RunDone, read_progress
from tests.fixtures.campaign_folder import OFF, ON, add, build
from tests.fixtures.command_line import ackloss
from tests.fixtures.result_documents import lossy, run

UNKNOWN = run("unknown", doubts=("incomplete",))
WRONG = run("invalid", counter_examples=("duplicates",))
RUNS = {
    ON: [lossy()] * 12 + [run()] * 4 + [WRONG, {"error": "no disk"}, run()],
    OFF: [run()] * 6 + [UNKNOWN] * 3,
}
KEPT = {"result.json", "run.json", "plan.json", "faults.jsonl", "findings"}
BULK = {"history", "reads", "observations", "deliveries", "nodes", "clients"}
BULK |= {"report.html", "timeline.png"}


def prune(folder: CampaignDir, *words: str) -> dict[str, Any]:
    done = ackloss("campaign", "prune", folder.path, "--json", *words)
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = orjson.loads(done.stdout)
    return document


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != ".lock"}


def pruned(folder: CampaignDir) -> list[str]:
    return sorted(path.name for path in folder.runs.iterdir() if not (path / "history").exists())


def test_every_count_stays_exactly_what_it_was(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", RUNS)
    before, rows = campaign_document(folder), run_rows(folder)
    document = prune(folder, "--keep", "2")
    assert document["runs"] > 0
    assert campaign_document(folder) == before
    assert run_rows(folder) == rows


def test_of_several_campaigns_each_is_pruned_and_the_totals_are_reported(tmp_path: Path) -> None:
    first, second = build(tmp_path / "a", RUNS), build(tmp_path / "b", {ON: [run()] * 3})
    document = prune(first, str(second.path), "--keep", "2")
    assert pruned(first) == [f"{n:05}-a" for n in (*range(12, 16), *range(19, 26))]
    assert pruned(second) == ["00000-b"]
    assert (document["runs"], document["kept"]) == (11 + 1, 17 + 2)


def test_failures_and_the_newest_of_each_cell_stay_complete(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", RUNS)
    document = prune(folder, "--keep", "2")
    # Of the first cell runs 12 to 15 are pruned, of the second the first 7 of 9.
    assert pruned(folder) == [f"{n:05}-c" for n in (*range(12, 16), *range(19, 26))]
    assert (document["runs"], document["kept"]) == (11, 17)
    names = {path.name for path in (folder.runs / "00012-c").iterdir()}
    assert names == KEPT
    assert {path.name for path in (folder.runs / "00000-c").iterdir()} == KEPT | BULK


def test_the_freed_bytes_existed_and_a_second_time_frees_nothing(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", RUNS)
    dry = prune(folder, "--keep", "0", "--dry-run")
    assert pruned(folder) == []
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
    (folder.runs / "link").symlink_to(inner.runs / "00000-other")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("p")
    (folder.runs / mine / "reads" / "ends.parquet").unlink()
    (folder.runs / mine / "reads").rmdir()
    (folder.runs / mine / "reads").symlink_to(elsewhere)
    (folder.runs / mine / "history" / "inner-link").symlink_to(elsewhere)
    for run_id in ("link", "stranger.x", "link.x"):
        journal.write(RunBegun(cell=ON, repetition=1, run_id=run_id, worker=1))
        journal.write(RunDone(run_id=run_id, verdict="valid", seconds=1))
        (folder.path / "nodes").mkdir(exist_ok=True)
        (folder.runs / "nodes").mkdir(exist_ok=True)
    before = everything(tmp_path)
    prune(folder, "--keep", "0")
    gone = before - everything(tmp_path)
    assert gone
    assert all(path.startswith(f"c/runs/{mine}/") for path in gone)
    assert (folder.runs / mine / "reads").is_symlink()
    assert (elsewhere / "precious").read_text() == "p"


def test_a_journal_whose_ids_lead_out_of_the_runs_is_refused(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()]})
    inner = build(tmp_path / "other", {ON: [run()] * 3})
    (folder.runs / "stranger" / "history").mkdir(parents=True)
    content = folder.journal.read_bytes()
    cells = ("stranger.", "stranger..", "stranger...", "stranger.../other")
    paths = ("../../other/runs/00001-other", str(inner.runs / "00002-other"), "..", ".", "")
    before = everything(tmp_path)
    for run_id in (*paths, *cells):
        folder.journal.write_bytes(content)
        journal = Journal(folder.journal)
        journal.write(RunBegun.model_construct(cell=ON, repetition=1, run_id=run_id, worker=1))
        journal.close()
        done = ackloss("campaign", "prune", folder.path, "--keep", "0")
        assert done.exit_code == 4, run_id
        assert ": not the id of a run, such as" in done.output
    assert everything(tmp_path) == before


def test_a_link_in_place_of_the_runs_is_refused(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()] * 3})
    folder.runs.rename(tmp_path / "moved")
    folder.runs.symlink_to(tmp_path / "moved")
    done = ackloss("campaign", "prune", folder.path, "--keep", "0")
    assert done.exit_code == 5
    assert "symbolic link" in done.output
    assert (tmp_path / "moved" / "00000-c" / "history").is_dir()


def test_the_cells_of_a_plan_are_pruned_with_their_run(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()] * 2})
    for each in folder.runs.iterdir():
        shutil.copytree(each, tmp_path / "cell")
        for name in ("a", "b"):
            shutil.copytree(tmp_path / "cell", each / "cells" / name)
        shutil.rmtree(tmp_path / "cell")
        (each / "cells" / "link").symlink_to(each / "cells" / "a")
    document = prune(folder, "--keep", "1")
    old, new = sorted(folder.runs.iterdir())
    for name in ("a", "b"):
        assert {path.name for path in (old / "cells" / name).iterdir()} == KEPT
        assert {path.name for path in (new / "cells" / name).iterdir()} == KEPT | BULK
    assert document["freed_bytes"] >= 3 * 20_000
    assert (document["runs"], document["kept"]) == (1, 1)


def test_it_refuses_while_the_campaign_is_running(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()] * 3})
    with folder.locked():
        done = ackloss("campaign", "prune", folder.path, "--keep", "0")
    assert done.exit_code == 5
    assert "another process is running this campaign" in done.output
    assert pruned(folder) == []


def test_a_run_that_only_began_is_left_to_resume(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()]})
    journal = Journal(folder.journal)
    run_id = add(folder, journal, ON, 1, run())
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:-1]))  # its `done` was never written
    assert read_progress(folder.journal).runs[run_id].state == "begun"
    prune(folder, "--keep", "0")
    assert pruned(folder) == ["00000-c"]

"""A campaign's journal: what it tells after any end."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.campaigns.progress import Journal, read_progress
from harness.errors import EnvironmentFailure


def begin(journal: Journal, run_id: str, repetition: int = 0) -> None:
    journal.write("begun", cell="a=1", repetition=repetition, run_id=run_id, worker=1)


def test_finished_runs_are_told_from_those_that_broke_off(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    journal.write("session", workers=2)
    for number, run_id in enumerate(["done", "failed", "broken", "begun"]):
        begin(journal, run_id, number)
    journal.write("done", run_id="done", verdict="invalid", seconds=12.5)
    journal.write("failed", run_id="failed", error="no")
    journal.write("broken", run_id="broken", why="interrupted")
    progress = read_progress(file)
    assert progress.finished() == {("a=1", 0), ("a=1", 1)}
    assert [run.run_id for run in progress.in_state("begun")] == ["begun"]
    assert progress.runs["done"].verdict == "invalid"
    assert progress.runs["failed"].error == "no"
    assert progress.sessions == 1
    assert progress.ended is None


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_a_crash_has_cut_is_left_out(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    begin(journal, "first")
    journal.write("done", run_id="first", verdict="valid", seconds=1.0)
    whole = file.read_bytes()
    begin(journal, "second", 1)
    file.write_bytes(file.read_bytes()[: len(whole) + cut])
    assert read_progress(file).finished() == {("a=1", 0)}
    assert list(read_progress(file).runs) == ["first"]
    later = Journal(file)
    begin(later, "third", 2)
    assert list(read_progress(file).runs) == ["first", "third"]


def test_a_journal_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert read_progress(tmp_path / "none").runs == {}


def test_a_full_disk_is_told_and_leaves_no_half_line(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    begin(journal, "first")
    whole = file.read_bytes()
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, limits[1]))
        with pytest.raises(EnvironmentFailure, match="cannot write the campaign's journal"):
            begin(journal, "second", 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert file.read_bytes() == whole


def test_the_cells_that_lost_are_named_once(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    for number, verdict in enumerate(["valid", "invalid", "unknown", "invalid"]):
        begin(journal, str(number), number)
        journal.write("done", run_id=str(number), verdict=verdict, seconds=1)
    journal.write("begun", cell="a=2", repetition=0, run_id="other", worker=1)
    journal.write("done", run_id="other", verdict="unknown", seconds=1)
    assert read_progress(file).lossy_cells() == ("a=1",)

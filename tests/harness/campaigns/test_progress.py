"""A campaign's journal: what it records, however the campaign ended."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from harness.campaigns.journal import (
    Journal,
    Remark,
    RunBegun,
    RunBroken,
    RunDone,
    RunFailed,
    SessionBegun,
    SessionEnded,
    read_journal,
    read_progress,
)
from harness.errors import EnvironmentFailure, HistoryError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@pytest.fixture
def journal(file: Path) -> Journal:
    return Journal(file)


def begin(journal: Journal, run_id: str, repetition: int = 0, cell: str = "a=1") -> None:
    journal.write(RunBegun(cell=cell, repetition=repetition, run_id=run_id, worker=1))


def test_finished_runs_are_distinguished_from_those_that_broke_off(
    file: Path, journal: Journal
) -> None:
    journal.write(SessionBegun(workers=2))
    for number, run_id in enumerate(["done", "failed", "broken", "begun"]):
        begin(journal, run_id, number)
    journal.write(RunDone(run_id="done", verdict="invalid", seconds=12.5))
    journal.write(RunFailed(run_id="failed", error="no"))
    journal.write(RunBroken(run_id="broken", why="interrupted"))
    progress = read_progress(file)
    assert progress.finished() == {("a=1", 0), ("a=1", 1)}
    assert [run.run_id for run in progress.in_state("begun")] == ["begun"]
    assert progress.runs["done"].verdict == "invalid"
    assert progress.runs["failed"].error == "no"
    assert progress.sessions == 1
    assert progress.ended is None


@pytest.mark.parametrize("cut", [1, 30, 57])
def test_a_line_that_a_crash_has_cut_is_ignored(file: Path, journal: Journal, cut: int) -> None:
    begin(journal, "first")
    journal.write(RunDone(run_id="first", verdict="valid", seconds=1.0))
    content = file.read_bytes()
    begin(journal, "second", 1)
    file.write_bytes(file.read_bytes()[: len(content) + cut])
    assert read_progress(file).finished() == {("a=1", 0)}
    assert list(read_progress(file).runs) == ["first"]
    later = Journal(file)
    begin(later, "third", 2)
    assert list(read_progress(file).runs) == ["first", "third"]


def test_a_last_line_that_lacks_only_its_newline_counts_and_stays(
    file: Path, journal: Journal
) -> None:
    begin(journal, "first")
    journal.write(RunDone(run_id="first", verdict="invalid", seconds=1.0))
    journal.close()
    whole = file.read_bytes()
    file.write_bytes(whole.removesuffix(b"\n"))
    assert read_progress(file).runs["first"].verdict == "invalid"
    later = Journal(file)
    assert file.read_bytes() == whole
    begin(later, "second", 1)
    assert {run.run_id: run.state for run in read_progress(file).runs.values()} == {
        "first": "done",
        "second": "begun",
    }


@pytest.mark.parametrize(
    ("number", "damage"),
    [(1, b"not JSON"), (3, b"\0" * 40), (3, b"[]"), (4, b'{"at":""}')],
)
def test_a_damaged_line_is_refused_by_its_number(
    file: Path, journal: Journal, number: int, damage: bytes
) -> None:
    """The run that it is about would be missing in every count, and nothing would show it."""
    begin(journal, "first")
    journal.write(RunDone(run_id="first", verdict="invalid", seconds=1.0))
    begin(journal, "second", 1)
    journal.write(RunDone(run_id="second", verdict="valid", seconds=1.0))
    lines = file.read_bytes().split(b"\n")
    lines[number - 1] = damage
    file.write_bytes(b"\n".join(lines))
    with pytest.raises(HistoryError, match="is not an entry of a journal") as raised:
        read_progress(file)
    assert raised.value.file == f"{file}:{number}"
    assert raised.value.exit_code == 4


def test_a_missing_journal_records_nothing(tmp_path: Path) -> None:
    assert read_progress(tmp_path / "none").runs == {}


def test_a_full_disk_is_reported_and_leaves_no_half_line(file: Path, journal: Journal) -> None:
    begin(journal, "first")
    content = file.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 10, limits[1]))
        with pytest.raises(EnvironmentFailure, match="cannot write the campaign's journal"):
            begin(journal, "second", 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert file.read_bytes() == content


def test_the_cells_that_lost_are_named_once(file: Path, journal: Journal) -> None:
    for number, verdict in enumerate(["valid", "invalid", "unknown", "invalid"]):
        begin(journal, str(number), number)
        journal.write(RunDone(run_id=str(number), verdict=verdict, seconds=1))
    begin(journal, "other", cell="a=2")
    journal.write(RunDone(run_id="other", verdict="unknown", seconds=1))
    assert read_progress(file).lossy_cells() == ("a=1",)


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = [
        SessionBegun(workers=3),
        RunBegun(cell="a=1", repetition=0, run_id="r", worker=2),
        Remark(what="the disk was slow"),
        RunDone(run_id="r", verdict="valid", seconds=1.5),
        RunFailed(run_id="r", error="no"),
        RunBroken(run_id="r", why="interrupted"),
        SessionEnded(why="finished"),
    ]
    journal = Journal(tmp_path / "journal.jsonl")
    for entry in written:
        journal.write(entry)
    assert list(read_journal(tmp_path / "journal.jsonl")) == written


def test_journals_of_later_versions_are_read(file: Path) -> None:
    file.write_text(
        '{"type":"session","workers":4,"at":"2026-11-21T22:00:00+00:00"}\n'
        '{"type":"begun","cell":"a=1","repetition":0,"run_id":"r","worker":3,"at":""}\n'
        '{"type":"invented later","what":"?"}\n'
        '{"type":"done","run_id":"r","verdict":"valid","seconds":1,"cost":9,"at":""}\n'
    )
    progress = read_progress(file)
    assert (progress.workers, progress.started) == (4, "2026-11-21T22:00:00+00:00")
    assert (progress.runs["r"].worker, progress.runs["r"].verdict) == (3, "valid")


BEGUN = '{"type":"begun","cell":"a=1","repetition":0,"run_id":"r","worker":1}\n'
NO_RUN = "not the id of a run, such as 20260102-030405-a3f901"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"type":{"a":1}}', "is not an entry of a journal"),
        (BEGUN.replace('"a=1"', '["a=1"]'), "cell is ['a=1']: expected text"),
        (BEGUN.replace("0", '"0"'), "repetition is '0': expected an integer"),
        (BEGUN.replace('"r"', "7"), "run_id is 7: expected text"),
        (BEGUN.replace('"r"', '"../../x"'), f"run_id is '../../x': {NO_RUN}"),
        (BEGUN.replace('"r"', '"/etc"'), f"run_id is '/etc': {NO_RUN}"),
        (BEGUN.replace('"r"', '".."'), f"run_id is '..': {NO_RUN}"),
        (BEGUN.replace('"r"', '"r.."'), f"run_id is 'r..': {NO_RUN}"),
        (BEGUN.replace('"r"', '""'), f"run_id is '': {NO_RUN}"),
        (BEGUN.replace('"r"', '"r.x/../y"'), f"run_id is 'r.x/../y': {NO_RUN}"),
        (BEGUN.replace("1}", '1,"shared":"../s"}'), f"shared is '../s': {NO_RUN}"),
        ('{"type":"done","run_id":"r","seconds":"x"}', "seconds is 'x': expected a number"),
        ('{"type":"done","run_id":"r","verdict":1}', "verdict is 1: expected text"),
    ],
)
def test_an_entry_of_which_a_field_cannot_be_used_is_refused(
    file: Path, line: str, words: str
) -> None:
    file.write_text(f"{BEGUN}{line.strip()}\n")
    with pytest.raises(HistoryError) as raised:
        read_progress(file)
    assert words in raised.value.what
    assert (raised.value.file, raised.value.exit_code) == (f"{file}:2", 4)


def test_an_entry_that_lacks_a_field_is_reported_with_its_file(file: Path) -> None:
    file.write_text('{"type":"begun","cell":"a=1","run_id":"r"}\n')
    with pytest.raises(HistoryError, match="an entry 'begun' lacks a field") as raised:
        read_progress(file)
    assert raised.value.file == f"{file}:1"


@pytest.mark.parametrize(
    "end",
    [
        RunDone(run_id="second", verdict="invalid", seconds=1.0),
        RunFailed(run_id="second", error="no"),
    ],
    ids=lambda end: end.type,
)
def test_the_end_of_a_run_whose_begin_is_not_there_is_refused(
    file: Path, journal: Journal, end: RunDone | RunFailed
) -> None:
    """Its cell is not known: it would be missing from every count, and nothing would show it."""
    begin(journal, "first")
    journal.write(RunDone(run_id="first", verdict="valid", seconds=1.0))
    journal.write(end)
    with pytest.raises(HistoryError) as refused:
        read_progress(file)
    assert refused.value.file == f"{file}:3"
    assert refused.value.what == "ends the run second, and no line before says that it began"
    assert "copy" in str(refused.value.hint)


def test_a_run_that_broke_off_before_its_begin_was_on_disk_counts_nowhere(tmp_path: Path) -> None:
    """The disk was full, and had space again when the user stopped the campaign."""
    journal = Journal(tmp_path / "journal.jsonl")
    begin(journal, "first")
    journal.write(RunBroken(run_id="second", why="interrupted"))
    progress = read_progress(tmp_path / "journal.jsonl")
    assert list(progress.runs) == ["first"]
    assert progress.ended_runs == 0

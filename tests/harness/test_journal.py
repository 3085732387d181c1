"""The journal: what is announced is on disk first, and windows tell what was proven."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from harness.journal import Journal, open_acts, windows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "faults.jsonl"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    ticks = count(0, 1_000_000_000)
    opened = Journal(path, lambda: next(ticks))
    yield opened
    opened.close()


def _play(journal: Journal, *, proofs: tuple[bool, ...] = (True, True), heal: bool = True) -> int:
    journal.write("step", fault="cut", nemesis="partition", nodes=["b1"], met=None, why="")
    n = journal.intent(fault="cut", lever="net", token={"node": "b1"})
    journal.write("done", n=n)
    journal.write("on", fault="cut")
    for proven in proofs:
        journal.write("proof", fault="cut", phase="applied", proven=proven, evidence=["seen"])
    if heal:
        journal.write("undone", n=n)
        journal.write("healed", fault="cut")
    return n


def test_a_window_has_its_times_and_its_proof(journal: Journal, path: Path) -> None:
    _play(journal)
    (window,) = windows(path)
    assert (window.id, window.nemesis, window.nodes) == ("cut", "partition", ["b1"])
    assert (window.from_s, window.to_s, window.proven) == (3.0, 7.0, True)
    assert window.evidence == ["seen", "seen"]


def test_one_false_proof_makes_it_unproven(journal: Journal, path: Path) -> None:
    _play(journal, proofs=(True, False))
    assert windows(path)[0].proven is False


def test_no_proof_at_all_is_unproven(journal: Journal, path: Path) -> None:
    _play(journal, proofs=())
    assert windows(path)[0].proven is False


@pytest.mark.parametrize(
    ("met", "proven", "touched"),
    [
        ((0, 7, None), True, 7),
        ((7, 7, None), True, 7),
        ((0, 0, None), False, 0),
        ((None, None, None), True, None),
        ((0,), False, 0),
        ((3,), True, 3),
    ],
    ids=["met later", "met at once", "never met", "not counted", "broke off unmet", "broke off"],
)
def test_a_fault_is_proven_when_it_met_something(
    journal: Journal,
    path: Path,
    met: tuple[int | None, ...],
    proven: bool,
    touched: int | None,
) -> None:
    """Whatever the probes say of the mechanism; null: the levers do not count it."""
    journal.write("step", fault="cut", nemesis="partition", nodes=["b1"], met=None, why="")
    for phase, each in zip(("applied", "held", "undone"), met, strict=False):
        journal.write("proof", fault="cut", phase=phase, proven=True, evidence=[], met=each)
    (window,) = windows(path)
    assert (window.proven, window.touched) == (proven, touched)


def test_a_journal_of_before_is_read_as_before(journal: Journal, path: Path) -> None:
    """Its proofs have no `met`."""
    _play(journal)
    assert (windows(path)[0].proven, windows(path)[0].touched) == (True, None)


def test_what_was_not_undone_is_open(journal: Journal, path: Path) -> None:
    n = _play(journal, heal=False)
    assert [act["n"] for act in open_acts(path)] == [n]
    assert windows(path)[0].to_s is None
    journal.write("undone", n=n)
    assert open_acts(path) == []


def test_a_skipped_step_is_told_and_unproven(journal: Journal, path: Path) -> None:
    journal.write("skip", fault="isolate", nemesis="partition", met=False, why="never came")
    (window,) = windows(path)
    assert (window.from_s, window.met, window.proven) == (None, False, False)


def test_a_last_line_that_a_crash_cut_off_is_left_out(journal: Journal, path: Path) -> None:
    _play(journal)
    with path.open("ab") as stream:
        stream.write(b'{"type": "healed", "fau')
    assert windows(path)[0].proven is True

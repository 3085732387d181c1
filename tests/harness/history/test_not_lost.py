"""Writes that were found without an acknowledgement, or more than once: how they ended, and under
which faults."""

from __future__ import annotations

from pathlib import Path

from checkers.judging.one_run import judge_run
from harness.history.documents import NotLost
from harness.history.explanations import outcome_of
from tests.fixtures.hand_made import CUT, Made, R, W


def run(tmp_path: Path, *writes: W, found: tuple[int, ...]) -> list[NotLost]:
    made = Made(writes=writes, reads=[R(value) for value in found], journal=CUT)
    rundir = made.build(tmp_path, "20260101-000000-000009")
    return [NotLost(**each) for each in judge_run(rundir)["not_lost"]]


def test_an_unacknowledged_write_that_was_found_names_its_end_and_the_faults_it_met(
    tmp_path: Path,
) -> None:
    """One ends while the fault is in force, one begins when it is over, one is not found."""
    writes = (
        W(1, "o"),
        W(2, "i", at_ms=5, after_ms=3),
        W(3, "i", at_ms=20),
        W(4, "i", at_ms=5),
    )
    met, later = run(tmp_path, *writes, found=(1, 2, 3))
    assert (met.kind, met.writes, met.type, met.error) == ("unacknowledged", 1, "info", later.error)
    assert (met.faults, later.faults, met.across_epochs) == (("cut",), (), None)
    assert "1 found, without an outcome (_MSG_TIMED_OUT)" in later.in_words
    assert "under no fault" in later.in_words


def test_exactly_the_faults_are_named_that_were_in_force_between_begin_and_end(
    tmp_path: Path,
) -> None:
    """One from 5 to 9 ms and another from 8 to 12 ms."""
    times = {"on": 8_000_000, "healed": 12_000_000}
    another = [
        {**each, "fault": "late"}
        | ({"n": 2} if "n" in each else {})
        | ({"time_ns": times[str(each["type"])]} if "time_ns" in each else {})
        for each in CUT
    ]
    spans = [(2, 1), (6, 1), (8.5, 0.2), (10, 1), (4, 10), (13, 1)]
    writes = [W(n, "i", at_ms=at, after_ms=after) for n, (at, after) in enumerate(spans)]
    made = Made(writes=writes, reads=[R(n) for n in range(6)], journal=(*CUT, *another))
    found = judge_run(made.build(tmp_path, "20260101-000000-000009"))["not_lost"]
    met = {each["faults"]: each["writes"] for each in found}
    assert met == {(): 2, ("cut",): 1, ("cut", "late"): 2, ("late",): 1}


def test_a_duplicate_says_how_its_write_ended_and_that_one_leader_wrote_both(
    tmp_path: Path,
) -> None:
    (again,) = run(tmp_path, W(1, "o"), W(2, "o", at_ms=5), found=(1, 2, 2))
    assert (again.kind, again.writes, again.type) == ("duplicate", 1, "ok")
    assert (again.faults, again.across_epochs) == (("cut",), False)


def test_where_all_is_as_the_client_knows_nothing_is_stated(tmp_path: Path) -> None:
    assert not run(tmp_path, W(1, "o"), W(2, "f"), W(3, "i"), found=(1,))


def test_the_outcome_of_one_write_that_is_not_lost(tmp_path: Path) -> None:
    rundir = Made(writes=[W(1, "o"), W(2, "i")], reads=[R(1), R(1, offset=7)]).build(
        tmp_path, "20260101-000000-000010"
    )
    assert "ok at 0.001 s; found at partition 0, offset 0, epoch 0, partition 0, offset 7" in str(
        outcome_of(rundir, 1)
    )
    assert str(outcome_of(rundir, 2)).endswith("info at 0.001 s (_MSG_TIMED_OUT); not found")
    assert outcome_of(rundir, 3) is None


def test_without_a_final_read_nothing_is_stated_of_what_was_found(tmp_path: Path) -> None:
    rundir = Made(writes=[W(1, "o")], ends=()).build(tmp_path, "20260101-000000-000011")
    assert str(outcome_of(rundir, 1)).endswith("lost ones: ok at 0.001 s")

"""Real runs, judged again: what was found in them once must be found by every later checker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checkers.judging.one_run import judge_run
from harness.history.explanations import chains_of
from harness.history.run_folder import RunDir

STORED = Path(__file__).parents[1] / "histories" / "runs"


def test_real_runs_are_judged_as_they_were(tmp_path: Path) -> None:
    shutil.copytree(STORED, tmp_path, dirs_exist_ok=True)
    names = (
        "unclean-election-loses",
        "idempotent-producer-duplicates",
        "idempotent-java-duplicates",
        "transactions-torn",
        "fenced-java-consumer",
    )
    lossy, duplicated, java, torn, fenced = (judge_run(RunDir(tmp_path / name)) for name in names)

    assert lossy["verdict"] == "invalid"
    assert (lossy["counts"]["acknowledged"], lossy["counts"]["lost"]) == (3400, 2019)
    assert lossy["counts"]["survivors"] == 1381
    assert lossy["rates"]["loss"] == pytest.approx(2019 / 3400)
    # Their journals do not count what met the cuts: all may have been the probe's own packets.
    assert [fault["proven"] for fault in lossy["faults"]] == [False, False]
    assert (lossy["doubts"], lossy["eligible"]) == (["unproven"], False)

    # It dates from a time when only missing values were read by a second library.
    assert (duplicated["verdict"], duplicated["doubts"]) == (
        "unknown",
        ["readers", "unproven", "starved"],
    )
    assert duplicated["counts"]["lost"] == 0
    assert duplicated["counts"]["duplicates"] == 642
    assert "642 duplicates were read by one reader: no second library" in duplicated["reason"]

    assert (java["verdict"], java["doubts"], java["eligible"]) == ("invalid", [], True)
    assert java["reason"] == "10 duplicates of writes of an idempotent producer"
    assert (java["counts"]["duplicates_unknown"], java["counts"]["lost"]) == (10, 0)

    assert (torn["verdict"], torn["doubts"], torn["eligible"]) == ("invalid", [], True)
    found = {
        "lost-write": 2,
        "unseen": 2,
        "torn-transaction": 2,
        "phantom": 3,
        "inconsistent-offsets": 2,
        "int-poll-skip": 9,
    }
    assert {name: torn["counts"][name] for name in torn["counter_examples"]} == found
    assert (torn["counts"]["polled_uncommitted"], torn["counts"]["dirty-read"]) == (5034, 504)

    assert (fenced["verdict"], fenced["doubts"], fenced["eligible"]) == ("invalid", [], True)
    found = {name: fenced["counts"][name] for name in fenced["counter_examples"]}
    assert found == {"commits_back": 4, "zombie_commits": 1}
    assert (fenced["counts"]["reprocessed"], fenced["counts"]["skipped"]) == (190, 0)
    causes = {each["cause"]: each["writes"] for each in fenced["not_lost"]}
    assert causes == {"commit-set-back": 189, "revoked-reader": 1}
    (back,) = (c for c in chains_of(RunDir(tmp_path / names[-1])) if c.cause == "commit-set-back")
    commits = [fact.text for fact in back.facts if fact.kind == "commit"]
    assert ["committed 478" in commits[0], "committed 289" in commits[1]] == [True, True]
    assert "consumer-2 (life 1, generation 7)" in commits[1]


def test_a_commit_that_was_lost_names_the_election_of_the_next_coordinator(tmp_path: Path) -> None:
    """Of __consumer_offsets-0, by its controller's metadata log."""
    run = RunDir(tmp_path / "coordinator-unclean")
    shutil.copytree(STORED / run.run_id, run.path)
    judge_run(run)
    causes = {
        "range": {"commit-lost-elected": 225, "not-committed": 57},
        "server": {"commit-lost-elected": 232, "commit-unknown": 34, "not-committed": 4},
    }
    for cell in run.cells():
        found = cell.read_json(cell.result)["not_lost"]
        assert {each["cause"]: each["writes"] for each in found} == causes[cell.path.name]
        chain = next(each for each in chains_of(cell) if each.cause == "commit-lost-elected")
        said = [fact.text for fact in chain.facts if fact.kind == "elected"]
        assert said == [
            "b3 was elected uncleanly in epoch 1; the ISR was {b2}, of __consumer_offsets-0"
        ]


@pytest.mark.parametrize("removed", ["history/part-0000[1-5]*", "reads/part-*", "reads/ends*"])
def test_nothing_is_valid_or_lost_for_want_of_files(tmp_path: Path, removed: str) -> None:
    """Once judged "all 1,380 acknowledged writes were found", and 100 % lost."""
    run = RunDir(tmp_path / "unclean-election-loses")
    shutil.copytree(STORED / run.run_id, run.path)
    for path in run.path.glob(removed):
        path.unlink()
    document = judge_run(run)
    assert not document["complete"]
    assert document["gaps"]
    assert "incomplete" in document["doubts"]
    if removed.startswith("reads"):
        assert (document["verdict"], document["counts"]["lost"]) == ("unknown", 0)
    else:
        assert document["verdict"] != "valid"
        assert "history/part-00001.parquet" in document["reason"]

"""The quorum checker on a real run: valid as it was, each violation found where one is edited into
it, and unknown where evidence is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from checkers.judging.one_run import judge_run
from checkers.quorum import Quorum
from harness.errors import HistoryError
from harness.history.quorum import quorum_of
from harness.history.run_folder import RunDir
from harness.protocols import DOUBTS, CheckResult
from tests.fixtures.operation_rows import FACTS, Row, checked

STORED = Path(__file__).parents[1] / "histories" / "runs" / "quorum-one-leader"
NODES = ("b1", "c1", "c2", "c3")
Documents = dict[str, dict[str, Any]]


def judged(tmp_path: Path, edit: Callable[[Documents], None] = lambda _: None) -> CheckResult:
    """What the checker says of the stored run, with an edit; its operations do not matter."""
    run = RunDir(tmp_path / STORED.name)
    shutil.copytree(STORED / "observations", run.observations)
    shutil.copy(STORED / run.run.name, run.run)
    documents = {
        name: orjson.loads((RunDir(STORED).node(name) / "quorum.json").read_bytes())
        for name in NODES
    }
    edit(documents)
    for name, document in documents.items():
        run.node(name).mkdir(parents=True)
        (run.node(name) / "quorum.json").write_bytes(orjson.dumps(document))
    rows = [Row(f="append", value=1), Row(f="append", value=1, type="ok")]
    return checked(Quorum(), rows, facts=replace(FACTS, folder=run.path))


def leaders(documents: Documents) -> list[tuple[int, int, int]]:
    """Epoch, offset and leader of each change of leader, of a log that has them all."""
    log = documents["c1"]["log"]
    return [(each["epoch"], each["first"], each["leader"]) for each in log if "leader" in each]


def another(documents: Documents, number: int) -> int:
    return next(each for name in NODES[1:] if (each := documents[name]["number"]) != number)


def test_a_real_run_is_valid_and_something_was_judged(tmp_path: Path) -> None:
    run = RunDir(tmp_path / STORED.name)
    shutil.copytree(STORED, run.path)
    document = judge_run(run)
    assert (document["verdict"], document["doubts"]) == ("valid", [])
    counts = document["counts"]
    assert counts["members"] == 4
    assert counts["leaders"] >= 3
    assert counts["cuts"] >= 1
    assert min(counts["votes"], counts["watermarks"], counts["batches"]) >= 6
    wrong = ("two_leaders", "voted_twice", "unfit_leader", "epoch_back", "diverged")
    assert not any(counts[name] for name in (*wrong, "committed_cut", "committed_early"))


def another_leader_in_a_log(documents: Documents) -> None:
    """Another node's log has the same bytes for another leader."""
    batch = [each for each in documents["c2"]["log"] if "leader" in each][-1]
    batch["leader"] = another(documents, batch["leader"])


def another_leader_stated(documents: Documents) -> None:
    epoch, _, leader = leaders(documents)[-1]
    stated = {"name": "Follower", "epoch": epoch, "leader": another(documents, leader)}
    documents["c3"]["logged"].append(stated)


def a_second_vote_after_a_restart(documents: Documents) -> None:
    logged = documents["c1"]["logged"]
    vote = [each for each in logged if "voted" in each][-1]
    second = {**vote, "name": "Voted", "voted": another(documents, vote["voted"])}
    logged.insert(logged.index(vote) + 1, second)


def a_second_vote_stored(documents: Documents) -> None:
    last = documents["c2"]["logged"][-1]["epoch"]
    documents["c2"]["logged"].append({"name": "Voted", "epoch": last, "voted": 101})
    documents["c2"]["stored"] = {"name": "stored", "epoch": last, "voted": 103}


def a_leader_that_lacked_what_was_committed(documents: Documents) -> None:
    epoch, offset, _ = leaders(documents)[1]
    stated = {"name": "Follower", "epoch": epoch - 1, "committed": offset + 1}
    documents["b1"]["logged"].insert(0, stated)


def a_voter_that_forgot_its_epoch(documents: Documents) -> None:
    begun = {"name": "Unattached", "epoch": 0, "voter": True}
    documents["c1"]["logged"].append(begun)


def a_log_whose_epochs_go_back(documents: Documents) -> None:
    documents["c3"]["log"][-1]["epoch"] = 1


def other_bytes_of_one_leader(documents: Documents) -> None:
    documents["c2"]["log"][5]["checksum"] ^= 1


def another_epochs_record_that_both_call_committed(documents: Documents) -> None:
    documents["c1"]["log"][2]["epoch"] = 0
    documents["c1"]["log"][1]["epoch"] = 0
    documents["c1"]["log"][0]["epoch"] = 0


def a_cut_below_the_own_high_watermark(documents: Documents) -> None:
    logged = documents["c1"]["logged"]
    stated = max(each.get("committed", 0) for each in logged)
    logged.append({"name": "Follower", "epoch": logged[-1]["epoch"], "cut": stated - 1})


def a_cut_of_what_the_old_leader_had_committed(documents: Documents) -> None:
    """Which another node states: the old leader acknowledged its tail."""
    node, place, cut = next(
        (name, n, each["cut"])
        for name in NODES[1:]
        for n, each in enumerate(documents[name]["logged"])
        if "cut" in each
    )
    before = [each for each in documents[node]["logged"][:place] if each["name"] == "Leader"]
    stated = {"name": "Follower", "epoch": before[-1]["epoch"], "committed": cut + 1}
    documents["b1"]["logged"].append(stated)


def a_high_watermark_before_the_own_record(documents: Documents) -> None:
    logged = next(
        documents[name]["logged"]
        for name in NODES[1:]
        if any("start" in each for each in documents[name]["logged"])
    )
    leading = next(each for each in logged if "start" in each and "committed" in each)
    leading["committed"] = leading["start"]


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (another_leader_in_a_log, "two_leaders"),
        (another_leader_stated, "two_leaders"),
        (a_second_vote_after_a_restart, "voted_twice"),
        (a_second_vote_stored, "voted_twice"),
        (a_leader_that_lacked_what_was_committed, "unfit_leader"),
        (a_voter_that_forgot_its_epoch, "epoch_back"),
        (a_log_whose_epochs_go_back, "epoch_back"),
        (other_bytes_of_one_leader, "diverged"),
        (another_epochs_record_that_both_call_committed, "diverged"),
        (a_cut_below_the_own_high_watermark, "committed_cut"),
        (a_cut_of_what_the_old_leader_had_committed, "committed_cut"),
        (a_high_watermark_before_the_own_record, "committed_early"),
    ],
)
def test_each_violation_is_found(
    tmp_path: Path, edit: Callable[[Documents], None], kind: str
) -> None:
    result = judged(tmp_path, edit)
    assert kind in [each.name for each in result.counter_examples]
    assert result.findings is not None
    kinds = result.findings["kind"].to_pylist()
    assert kinds.count(kind) == result.counts[kind]


def without_a_voter(documents: Documents) -> None:
    del documents["c2"]


def without_a_vote_file(documents: Documents) -> None:
    documents["c2"] |= {"stored": None, "missing": ["no quorum-state"]}


def with_a_short_log(documents: Documents) -> None:
    del documents["c3"]["log"][10:]


def with_an_old_tail(documents: Documents) -> None:
    """Of an epoch that ended, above what its node called committed."""
    log = documents["c3"]["log"]
    log[-1] |= {"epoch": log[-2]["epoch"], "checksum": 1}
    for each in documents["c2"]["log"], documents["c1"]["log"], documents["b1"]["log"]:
        for batch in each:
            if batch["first"] == log[-1]["first"]:
                batch["epoch"] += 1
    for each in documents.values():
        for state in each["logged"]:
            if state.get("committed", 0) >= 20:
                del state["committed"]


def with_a_log_that_lost_its_end(documents: Documents) -> None:
    """As after a power loss: the next life begins with what was stored."""
    logged = documents["c1"]["logged"]
    first = next(n for n, each in enumerate(logged) if each["epoch"] == 2)
    logged[first:] = [{**logged[-1], "restored": True}]


def with_an_epoch_that_only_the_file_shows(documents: Documents) -> None:
    documents["c1"]["stored"] = {**documents["c1"]["stored"], "epoch": 9}


def without_anything(documents: Documents) -> None:
    documents.clear()


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (without_a_voter, "c2 left no evidence of the quorum"),
        (without_a_vote_file, "c2: no quorum-state"),
        (with_a_short_log, "the log of c3 ends at"),
        (with_an_old_tail, "a tail that was not truncated"),
        (with_a_log_that_lost_its_end, "the log of c1 ends in epoch 1, and it stored 3"),
        (with_an_epoch_that_only_the_file_shows, "the log of c1 ends in epoch 3, and it stored 9"),
        (without_anything, "c1 left no evidence of the quorum, and 2 more like it"),
    ],
)
def test_what_is_missing_makes_it_unknown(
    tmp_path: Path, edit: Callable[[Documents], None], words: str
) -> None:
    result = judged(tmp_path, edit)
    assert result.counter_examples == ()
    assert any(words in each.sentence for each in result.doubts if each.name == DOUBTS.incomplete)


def test_what_was_not_seen_is_said(tmp_path: Path) -> None:
    doubts = judged(tmp_path, without_anything).doubts
    assert [each.sentence for each in doubts if each.name == DOUBTS.vacuous] == [
        "no epoch with a leader was seen",
        "no vote was seen",
        "no high watermark was stated",
        "no two logs have an offset in common",
    ]


def test_a_damaged_document_is_a_doubt(tmp_path: Path) -> None:
    judged(tmp_path)
    run = RunDir(tmp_path / STORED.name)
    (run.node("c1") / "quorum.json").write_bytes(b'{"node": "c1"')
    with pytest.raises(HistoryError, match="quorum"):
        quorum_of(run)
    result = checked(Quorum(), [], facts=replace(FACTS, folder=run.path))
    assert next(each.name for each in result.doubts) == DOUBTS.incomplete


def test_a_replica_that_begins_as_no_voter_has_promised_nothing(tmp_path: Path) -> None:
    """A disk that was formatted again, where voters are known by their directories."""

    def formatted(documents: Documents) -> None:
        logged = documents["c1"]["logged"]
        logged.append({"name": "Unattached", "epoch": 0, "voter": False})
        logged.append({"name": "Follower", "epoch": logged[-2]["epoch"]})

    result = judged(tmp_path, formatted)
    assert (result.counter_examples, result.doubts) == ((), ())


def test_a_run_without_a_quorum_is_unknown(tmp_path: Path) -> None:
    judged(tmp_path, dict.clear)
    run = RunDir(tmp_path / STORED.name)
    document = orjson.loads(run.run.read_bytes())
    document["nodes"] = [each for each in document["nodes"] if each["name"] == "b1"]
    run.run.write_bytes(orjson.dumps(document))
    result = checked(Quorum(), [], facts=replace(FACTS, folder=run.path))
    (doubt,) = result.doubts
    assert doubt == (DOUBTS.vacuous, "no node of this run is a voter of a quorum")


def test_a_history_from_outside_is_unknown() -> None:
    (first, *_) = checked(Quorum(), []).doubts
    assert first == (DOUBTS.incomplete, "a history from outside has no evidence of a quorum")

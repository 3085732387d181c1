"""Why writes were lost, of stored real runs: the lines of their nodes' logs about the topic, and a
sample of their lost writes (`losses/`)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.history import ENDS, MEMBERS, OBSERVATIONS, READS
from harness.history.autopsy import fault_facts
from harness.history.explanations import lost_rows
from harness.protocols import UNEXPLAINED, Explanation, FaultWindow
from targets.kafka import Kafka
from targets.kafka.explain import CAUSES, explain
from tests.checkers.delivery.hand_made import Made, Record, Write, whole_group
from tests.checkers.delivery.test_delivery import judged
from tests.fixtures.hand_made import write_rows

ENDS_HERE = ("partition", "log_start_offset", "position", "complete")
LOSSES = Path(__file__).parent / "losses"

CASES = {
    "unclean-4.4": {"unclean-election": 50, "unclean-election-deposed": 31},
    "zookeeper-2.8": {"unclean-election": 21, "unclean-election-deposed": 12},
    "zookeeper-3.9": {"unclean-election": 26, "unclean-election-deposed": 9},
    "controller-killed-3.9": {"unclean-election": 29},
    "transactions-2.8": {"unclean-election": 16, "unclean-election-deposed": 44},
    "moved-3.9": {"before-replication": 16},
    "eligible-leader-4.4": {"eligible-leader": 23, "eligible-leader-deposed": 22},
    "acks1-4.4": {"before-replication": 17, "before-replication-deposed": 19},
    "wiped-4.4": {"disk-wiped": 52},
    "power-4.4": {"disk-power": 32},
    "power-disks-4.4": {"disk-power": 32},
    "never-stored-4.4": {"never-stored": 19},
    "longer-log-4.4": {"unclean-election": 546, "unclean-election-deposed": 262},
    "three-leaders-4.3": {"unclean-election": 34},
    "late-leader-4.3": {"unclean-election": 6, "unclean-election-deposed": 31},
    "kip-101-0.10": {"own-high-watermark": 23},
    "zookeeper-0.8": {"unclean-election": 18, "unclean-election-deposed": 14},
    "kafka-2114-0.8": {"unclean-election": 7, "below-min-insync": 24},
    "zookeeper-0.10": {"unclean-election": 20, "unclean-election-deposed": 15},
    "zookeeper-1.1": {"unclean-election": 20, "unclean-election-deposed": 13},
    "power-1.1": {"disk-power": 19},
    "restarted-leader-1.1": {"disk-power": 25},
    "wiped-0.10": {"disk-wiped": 23},
    "moved-0.10": {"before-replication": 20},
    "moved-0.8": {"before-replication": 24},
    "retention-4.4": {"deleted": 30},
    "uncommitted-3.8": {"before-replication": 8, "before-replication-deposed": 23},
}


def folder_of(case: dict[str, Any], folder: Path) -> Path:
    """The run folder of a case, as far as its losses are explained from it."""
    (folder / "plan.json").write_text(json.dumps({"schema": 1, **case["plan"]}))
    run = {"schema": 1, "wall_time": case["wall_time"], "settings": {}}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "faults.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in case["faults"])
    )
    for name, lines in case["logs"].items():
        log = folder / "nodes" / name
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(line + "\n" for line in lines))
    _write(folder / "reads/ends.parquet", ENDS, ENDS_HERE, case["final"])
    _write(
        folder / "reads/part-00000.parquet", READS, ("partition", "offset", "value"), case["read"]
    )
    seen = ("time_ns", "answered_by", "partition", "leader", "leader_epoch", MEMBERS)
    _write(folder / "observations/part-00000.parquet", OBSERVATIONS, seen, case["observed"])
    return folder


def _write(path: Path, schema: pa.Schema, names: Sequence[str], rows: list[list[Any]]) -> None:
    """These columns of a file of a run folder."""
    path.parent.mkdir(exist_ok=True)
    fields = pa.schema([schema.field(name) for name in names])
    write_rows(path, fields, [dict(zip(names, row, strict=True)) for row in rows])


def case_of(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((LOSSES / f"{name}.json").read_text())
    return case


def explained(case: dict[str, Any], folder: Path) -> list[Explanation]:
    return explain(folder_of(case, folder), pa.table(case["lost"]))


def counted(explanations: list[Explanation]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in explanations:
        counts[each.cause] += len(each.values)
    return counts


@pytest.mark.parametrize("name", CASES)
def test_each_lost_write_of_a_real_run_has_its_cause(name: str, tmp_path: Path) -> None:
    case = case_of(name)
    found = explained(case, tmp_path)
    assert counted(found) == CASES[name]
    assert sorted(v for each in found for v in each.values) == sorted(case["lost"]["value"])
    assert set(CASES[name]) <= set(CAUSES)


def test_what_was_delivered_has_the_causes_of_what_was_acknowledged_then(tmp_path: Path) -> None:
    case = case_of("unclean-4.4")
    case["lost"]["invoke_ns"] = case["lost"]["complete_ns"]
    case["lost"]["state"] = ["delivered"] * len(case["lost"]["value"])
    found = counted(explained(case, tmp_path))
    assert found.keys() == CASES["unclean-4.4"].keys()
    assert found.total() == sum(CASES["unclean-4.4"].values())


def test_when_a_transaction_acknowledged_a_write_is_known_to_its_begin_and_end(
    tmp_path: Path,
) -> None:
    """So the ISR is known where it did not change between; of the others nothing is prevented."""
    found = explained(case_of("transactions-2.8"), tmp_path)
    isrs = [fact.text for each in found for fact in each.facts if fact.kind == "acknowledged"]
    assert any("the ISR was {b1} for 4, and is not known for 6" in text for text in isrs)
    minimum = [p.writes for each in found for p in each.preventions if "min.insync" in p.key]
    assert sorted(minimum) == [4, 5, 19, 25]


LOGS = {
    "unclean-4.4": """b1 before 0-388 of 0, b1 before 388-2395 of 0 removed,
        b1, b2, b3 at the end 0-388 of 0, b1, b2, b3 at the end 388-1399 of 1""",
    "zookeeper-0.8": """b1 before 0-80 of None, b1 before 80-507 of None removed,
        b1, b2, b3 at the end 0-80 of None, b1, b2, b3 at the end 80-116 of 1""",
    "moved-0.10": """b1 before 0-11716 of None, b1 before 11716-11754 of None removed,
        b1, b2, b3 at the end 0-11717 of None, b1, b2, b3 at the end 11717-15964 of None""",
    "retention-4.4": """the log at the end 0-1490 of 0 removed,
        the log at the end 1490-2400 of 0""",
    "never-stored-4.4": "the log at the end 0-3 of 0",
}


@pytest.mark.parametrize("name", LOGS)
def test_what_each_log_had_is_known_by_offset_and_epoch(name: str, tmp_path: Path) -> None:
    """Epochs that nobody logs are none; what is cut at its end has lost nothing."""
    found = explained(case_of(name), tmp_path)[0].logs
    words = (f"{s.of} {s.first}-{s.behind} of {s.epoch}{' removed' * s.removed}" for s in found)
    assert ", ".join(words) == " ".join(LOGS[name].split())


def test_a_log_that_is_cut_where_it_ends_has_lost_nothing(tmp_path: Path) -> None:
    found = explained(case_of("uncommitted-3.8"), tmp_path)
    assert {s.of for each in found for s in each.logs} == {"b2 before", "b1, b2, b3 at the end"}


@pytest.mark.parametrize("name", ["unclean-4.4", "zookeeper-2.8", "acks1-4.4"])
def test_what_a_group_did_not_get_has_the_same_causes(name: str, tmp_path: Path) -> None:
    """Of a real run, had a group read its log: lost is what nobody processed."""
    case = case_of(name)
    columns = ("value", "partition", "offset", "complete_ns", "invoke_ns")
    rows = [*zip(*(case["lost"][name] for name in columns), strict=True)]
    writes = [Write(value, p, offset=o, time_ns=t, begun_ns=b) for value, p, o, t, b in rows]
    made = Made(partitions=1 + max(p for _, p, *_ in rows), writes_=writes, did=whole_group())
    lost = lost_rows([judged(made)])
    assert lost is not None
    assert counted(explain(folder_of(case, tmp_path), lost)) == CASES[name]

    made.log = [Record(p, o, value) for value, p, o, *_ in rows]
    assert lost_rows([judged(made)]).num_rows == 0


def test_each_fact_of_a_log_names_the_line_that_states_it(tmp_path: Path) -> None:
    for each in explained(case_of("unclean-4.4"), tmp_path):
        for fact in each.facts:
            if fact.source.startswith("log of"):
                name, _, number = fact.place.rpartition(":")
                line = (tmp_path / name).read_text().splitlines()[int(number) - 1]
                assert "ackloss-0" in line
                assert f"nodes/{fact.node}/" in fact.place


def test_what_the_semantics_guarantee_is_stated_and_nothing_else(tmp_path: Path) -> None:
    found = explained(case_of("unclean-4.4"), tmp_path)
    for each in found:
        assert [prevention.sentence(len(each.values)) for prevention in each.preventions] == [
            f"With min.insync.replicas=2, none of these {len(each.values)} would have been "
            "acknowledged: the ISR was {b1} when they were",
            "With unclean.leader.election.enable=false, only b1 could have led: the ISR was {b1}",
        ]


def test_with_acks_1_all_would_have_waited_for_who_was_elected(tmp_path: Path) -> None:
    for each in explained(case_of("acks1-4.4"), tmp_path):
        (prevention,) = each.preventions
        assert prevention.change == "workload.producer.acks=all"
        assert prevention.writes == len(each.values)


def test_what_is_flushed_before_it_is_acknowledged_survives_a_loss_of_power(
    tmp_path: Path,
) -> None:
    """Where the disk's files are cut instead, more than that is lost, and it is not stated."""
    (each,) = explained(case_of("power-disks-4.4"), tmp_path)
    (stated,) = [p for p in each.preventions if "flush" in p.key]
    assert stated.change == 'topic.settings."flush.messages"=1'
    assert re.match(
        "With flush.messages=1, each would have been on the disk of (b.) when it was "
        r"acknowledged: \1 was in the ISR, and only its power was cut$",
        stated.sentence(len(each.values)),
    )
    (cut,) = explained(case_of("power-4.4"), tmp_path)
    assert not [p for p in cut.preventions if "flush" in p.key]


def test_a_stale_tail_of_a_deposed_leader_is_no_copy(tmp_path: Path) -> None:
    """Its log is longer than that of who was elected, and holds none of the lost writes."""
    found = explained(case_of("three-leaders-4.3"), tmp_path)
    assert all(each.survivors == 0 for each in found)
    assert {(each.epoch, each.dropped_by) for each in found} == {(0, 1), (4, 5)}


def test_what_a_replica_had_that_was_not_elected_is_counted(tmp_path: Path) -> None:
    first, _ = explained(case_of("longer-log-4.4"), tmp_path)
    assert (first.survivors, first.held_by) == (2, {"b3": 2})


def test_an_uncommitted_change_of_a_controller_without_a_quorum_does_not_count(
    tmp_path: Path,
) -> None:
    """b1 shrank the ISR to itself and b2 as a controller that had lost its quorum."""
    (each, *_) = explained(case_of("uncommitted-3.8"), tmp_path)
    (election,) = [fact for fact in each.facts if "was elected" in fact.text]
    assert "b3 was elected cleanly in epoch 2; the ISR was {b2, b3}" in election.text


def test_what_kafka_promises_never_to_lose_is_a_defect(tmp_path: Path) -> None:
    """The same run, had its writes been sent with acks=all: who was elected was in the ISR."""
    case = case_of("acks1-4.4")
    case["plan"]["workload"]["producer"]["acks"] = "all"
    assert counted(explained(case, tmp_path)) == {"in-sync-without-it": 36}
    assert Kafka.defects == {"in-sync-without-it", "below-min-insync"}


def test_an_acknowledgement_below_the_minimum_is_a_defect(tmp_path: Path) -> None:
    """These runs, had two in-sync replicas been required as in that of KAFKA-2114: of writes that
    began before ZooKeeper was seen to have the small ISR, and of a leader whose ISR a controller
    may have shrunk, nothing is claimed. That more required ones prevent it is not stated."""
    for each in explained(case_of("kafka-2114-0.8"), tmp_path):
        assert not [p for p in each.preventions if "insync" in p.key]
    for name, wanted in {
        "zookeeper-2.8": {"unclean-election": 7, "below-min-insync": 26},
        "unclean-4.4": CASES["unclean-4.4"],
    }.items():
        case = case_of(name)
        case["plan"]["topic"]["settings"]["min.insync.replicas"] = 2
        (folder := tmp_path / name).mkdir()
        assert counted(explained(case, folder)) == wanted


def test_a_last_known_leader_without_an_isr_has_its_cause(tmp_path: Path) -> None:
    """This run, had its ISR been empty when b2 was elected as the last known leader (KIP-966)."""
    case = case_of("unclean-4.4")

    def later(found: re.Match[str]) -> str:
        return f"partitionEpoch: {int(found[1]) + 1} -> {int(found[2]) + 1}"

    for name in ("c1/server.log", "c2/server.log", "c3/server.log"):
        lines = case["logs"][name]
        at = next(place for place, line in enumerate(lines) if "UNCLEAN" in line)
        emptied = lines[at].replace("UNCLEAN ", "").partition("isr: ")[0]
        emptied += "isr: [1] -> [], lastKnownElr: [] -> [2], partitionEpoch: 1 -> 2 (org.apache)"
        rest = [re.sub(r"partitionEpoch: (\d+) -> (\d+)", later, line) for line in lines[at:]]
        case["logs"][name] = [*lines[:at], emptied, *rest]
    found = explained(case, tmp_path)
    assert counted(found) == {"last-known-leader": 50, "last-known-leader-deposed": 31}
    assert "b2 was elected uncleanly in epoch 1; the ISR was empty" in {
        fact.text for fact in found[0].facts
    }


def test_without_logs_nothing_is_guessed(tmp_path: Path) -> None:
    case = case_of("unclean-4.4")
    case["logs"] = {}
    assert counted(explained(case, tmp_path)) == {UNEXPLAINED: 81}


@pytest.mark.parametrize("lacking", ["c1/server.log", "c2/server.log", "c3/server.log"])
def test_one_controllers_log_suffices(lacking: str, tmp_path: Path) -> None:
    case = case_of("unclean-4.4")
    kept = {"c1/server.log", "c2/server.log", "c3/server.log"} - {lacking}
    del case["logs"][lacking], case["logs"][min(kept)]
    assert counted(explained(case, tmp_path)) == CASES["unclean-4.4"]


def test_a_write_without_a_position_is_unexplained(tmp_path: Path) -> None:
    case = case_of("power-4.4")
    case["lost"]["offset"][0] = None
    assert counted(explained(case, tmp_path)) == {"disk-power": 31, UNEXPLAINED: 1}


def test_what_deleted_writes_is_said_in_words_with_its_reason(tmp_path: Path) -> None:
    (each,) = explained(case_of("retention-4.4"), tmp_path)
    said = {fact.text for fact in each.facts}
    assert "b3 moved its log's start to 833, due to leader offset increment" in said
    assert "b2 deleted a segment, due to log start offset 833 breach" in said


def test_a_fault_has_its_proof(tmp_path: Path) -> None:
    of: dict[str, Any] = {"id": "cut", "nemesis": "partition", "nodes": ["b1"], "why": ""}
    seen = ["b1 heard nothing", "2 packets were dropped"]
    window = FaultWindow(**of, from_s=5.0, to_s=9.0, met=None, proven=True, evidence=seen)
    (fact,) = fault_facts([window], 6.0, 7.0)
    assert fact.record == "b1 heard nothing; 2 packets were dropped"
    assert not list(fault_facts([window], 60.0, 70.0))


def test_what_is_below_the_log_start_was_deleted(tmp_path: Path) -> None:
    case = case_of("power-4.4")
    case["final"] = [[0, 1_000_000, 1_000_000, True]]
    assert counted(explained(case, tmp_path)) == {"deleted": 32}


@pytest.mark.parametrize("name", ["zookeeper-0.8", "zookeeper-0.10", "zookeeper-1.1"])
def test_between_two_looks_the_isr_is_not_known(name: str, tmp_path: Path) -> None:
    """Where it was only seen: a shrink is seen after the leader has acknowledged alone. A broker
    that has an old one is not believed."""
    case = case_of(name)
    case["observed"] += [
        [time_ns + 1, "b1", 0, "b1", 0, ["b1", "b2", "b3"]] for time_ns, *_ in case["observed"]
    ]
    for each in explained(case, tmp_path):
        (acknowledged,) = [f.text for f in each.facts if f.kind == "acknowledged"]
        assert "the ISR was {b1}" in acknowledged, "as ZooKeeper has it"
        assert "b2" not in acknowledged.partition("the ISR was ")[2]

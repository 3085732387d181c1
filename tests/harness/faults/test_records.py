"""Undo records: what a journal holds is read back exactly, or refused in one sentence.

`journals/before-typed-records.jsonl` was written before records had types: lines of real runs, one
for each lever and form, renumbered; its first act was undone. Levers that came later have theirs at
the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.faults.journal import entries, open_acts
from harness.faults.records import (
    RECORD_TYPES,
    ClockRecord,
    NetRecord,
    PauseRecord,
    Peer,
    from_document,
    to_document,
)
from harness.levers import all_levers
from harness.levers.client import ClientLever, ConsumerLever
from harness.levers.manual import ManualLever
from harness.levers.process import ProgramLever
from harness.levers.protocol import ProtocolLever
from harness.protocols import PartitionView, UndoRecord
from targets.kafka.levers import FeaturesLever, LeadershipLever
from targets.kafka.migration import StageLever
from targets.kafka.proxy import requests
from targets.zookeeper.configuration import ZooKeeperPlan
from targets.zookeeper.levers import MembersLever
from tests.fixtures.dry_run import DryRunClients, DryRunNode, SaidOperator

JOURNAL = Path(__file__).parent / "journals" / "before-typed-records.jsonl"
NAMES = ("b1", "b2", "b3", "c1")
INTENT = {
    "type": "intent",
    "n": 1,
    "fault": "still",
    "lever": "pause",
    "token": {"node": "b1", "pid": 7, "fault": "still", "seed": 3, "stopped": False},
}


def as_journalled(record: UndoRecord) -> Any:
    return orjson.loads(orjson.dumps(to_document(record)))


def stored() -> list[dict[str, Any]]:
    return [entry for entry in entries(JOURNAL) if entry["type"] == "intent"]


@pytest.mark.parametrize("entry", stored(), ids=lambda entry: entry["fault"])
def test_what_an_older_version_journalled_is_read(
    entry: dict[str, Any],
) -> None:
    record = from_document(RECORD_TYPES[entry["lever"]], entry["token"])
    assert as_journalled(record).items() >= entry["token"].items()


def test_every_lever_names_its_record_type_and_all_are_stored() -> None:
    own = {
        "client": ClientLever,
        "features": FeaturesLever,
        "program": ProgramLever,
        "consumer": ConsumerLever,
        "leadership": LeadershipLever,
        "manual": ManualLever,
        "members": MembersLever,
        "protocol": ProtocolLever,
        "stage": StageLever,
    }
    levers = {**all_levers({}), **own}
    assert {name: lever.record_type for name, lever in levers.items()} == RECORD_TYPES
    added_since = {ConsumerLever.name, FeaturesLever.name, ProgramLever.name, StageLever.name}
    assert {entry["lever"] for entry in stored()} == set(RECORD_TYPES) - added_since


@dataclass
class Placed:
    """Leaders as the stored act has left them; what is requested is noted."""

    requests: list[object] = field(default_factory=list)

    def placements(self) -> Mapping[int, PartitionView]:
        moved = ("b3", "b1", "b2")
        view = PartitionView(
            partition=0, leader="b3", leader_epoch=1, members=moved, replicas=moved
        )
        return {0: view}

    def reorder(self, wanted: Mapping[int, object]) -> None:
        self.requests.append(wanted)

    def elect(self, partitions: object) -> Mapping[int, str]:
        self.requests.append(partitions)
        return {}


def test_a_run_of_an_older_version_is_undone_from_its_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every act but the one that was undone, and nothing else."""
    nodes = {name: DryRunNode(name, frozenset({"broker"}), "198.18.0.11") for name in NAMES}
    placed, asked, said = Placed(), list[str](), list[str]()
    members = MembersLever({}, ZooKeeperPlan.model_construct())
    monkeypatch.setattr(MembersLever, "_request", lambda _, __, ___, what: asked.append(what))
    levers = {
        **all_levers(nodes),
        "client": ClientLever(DryRunClients()),
        "leadership": LeadershipLever(placed),
        "manual": ManualLever(SaidOperator(said.append)),
        "members": members,
        "protocol": ProtocolLever(nodes, requests()),
    }
    left = open_acts(JOURNAL)
    assert left.unreadable == []
    assert [act.n for act in left.acts] == list(range(2, 27))
    for act in left.acts:
        levers[act.lever].undo(act.record)
    commands = [line for node in nodes.values() for line in node.commands]
    for undone in (
        "b3# sh /var/lib/ackloss/clock/clock.sh drop clock-2",
        "b1# rm -f -- /var/lib/ackloss/ackloss-disk/disk-5.json",
        "b2# rm -f -- /var/lib/ackloss/data/ackloss-full.full-6",
        "b2# iptables-save -c -t filter",
        "b1# rm -f -- /var/lib/ackloss/proxy/rules/cut",
        "b2# find /var/lib/ackloss/data -type d ! -perm -u+w -exec chmod u+w {} +",
        "b2# rm -f /run/ackloss.shaped.shaping-15",
        "b3# ps -e -ww -o pid=,args=",
        "b1: start the target's process",
    ):
        assert undone in commands
    assert asked == ["add z3"]
    assert said == ["operator: start it (b1: 198.18.0.11)"]
    assert placed.requests == [{0: ("b2", "b3", "b1")}, [0]]


@pytest.mark.parametrize(
    ("record", "document"),
    [
        (
            NetRecord(node="b1", fault="x", peers=(Peer(name="clients"),)),
            {
                "node": "b1",
                "fault": "x",
                "seed": 0,
                "peers": [{"name": "clients", "address": None}],
                "ports": [],
                "direction": "both",
            },
        ),
        (
            ClockRecord(node="b1", fault="x", form="jump", offset_s=-2.5),
            {"node": "b1", "fault": "x", "seed": 0, "form": "jump", "offset_s": -2.5},
        ),
        (
            PauseRecord(node="b1", fault="x", pid=None, stopped=False),
            {"node": "b1", "fault": "x", "seed": 0, "pid": None, "stopped": False},
        ),
    ],
)
def test_what_does_not_apply_is_left_out_and_what_is_unknown_is_null(
    record: UndoRecord, document: dict[str, Any]
) -> None:
    assert as_journalled(record) == document
    assert from_document(type(record), document) == record


def token(**changes: Any) -> dict[str, Any]:
    return {**INTENT, "token": {**INTENT["token"], **changes}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (token(pid="7"), "is not an undo record as this version writes it: pid"),
        (token(pid=-1), "is not an undo record as this version writes it: pid: expected more "),
        (token(pid=0), "pid: expected more than 0"),
        (token(pid=7.0), "pid: expected an integer"),
        (token(fault="../../etc"), "fault: expected text that matches ^"),
        (token(node="b1; reboot"), "node: expected text that matches ^"),
        (token(fault="other"), "is of fault 'still', but its record is of 'other'"),
        (token(also=1), "also: is unknown"),
        ({**INTENT, "token": {"node": "b1", "pid": 7}}, "fault: is missing"),
        ({**INTENT, "token": {"fault": "still", "pid": 7}}, "node: is missing"),
        ({**INTENT, "token": None}, "the record: expected an object"),
        ({**INTENT, "token": ["b1"]}, "the record: expected an object"),
        ({**INTENT, "lever": "warp"}, "names the lever 'warp', which neither this version nor"),
        ({**INTENT, "lever": None}, "is not an intent as ackloss writes it"),
        ({**INTENT, "n": "1"}, "is not an intent as ackloss writes it"),
        ({"type": "intent"}, "is not an intent as ackloss writes it"),
    ],
)
def test_a_line_that_cannot_be_read_is_one_sentence_and_nothing_is_guessed(
    tmp_path: Path, line: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "faults.jsonl"
    good = json.dumps({**INTENT, "n": 2})
    path.write_text(f"{json.dumps(line)}\n{good}\n")
    left = open_acts(path)
    assert [act.n for act in left.acts] == [2]
    (reported,) = left.unreadable
    assert reported.startswith(f"{path}:1: ")
    assert sentence in reported


def test_a_line_that_is_cut_in_the_middle_of_a_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "faults.jsonl"
    path.write_text(f'{{"type": "intent", "n": 1, "fau\n{json.dumps({**INTENT, "n": 2})}\n')
    assert open_acts(path).unreadable == [f"{path}:1: is damaged"]
    assert [act.n for act in open_acts(path).acts] == [2]


def test_two_acts_of_one_number_are_both_open(tmp_path: Path) -> None:
    path = tmp_path / "faults.jsonl"
    path.write_text(f"{json.dumps(INTENT)}\n" * 2)
    assert len(open_acts(path).acts) == 2

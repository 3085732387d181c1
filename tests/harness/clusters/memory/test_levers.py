"""Levers of simulated nodes: in force, met, undone, and nothing left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.clusters.memory import MemoryCluster
from harness.clusters.memory.node import MemoryNode, Process
from harness.errors import EnvironmentFailure
from harness.faults.records import (
    RECORD_TYPES,
    DiskRecord,
    NetRecord,
    PauseRecord,
    Peer,
    PowerRecord,
    ProcessRecord,
)
from harness.protocols import Cluster, Lever, Node, UndoRecord

MS = 1_000_000
NAMES = ("a", "b", "c")


class Chatter:
    """Sends every other node a word each millisecond, and keeps what it hears on its disk."""

    def __init__(self, node: MemoryNode) -> None:
        self.node = node
        self.heard = node.disk.open("data/log-0/records").records

    def start(self) -> None:
        self.node.host.after(MS, self.tick)

    def tick(self) -> None:
        for name in NAMES:
            if name != self.node.name:
                self.node.send(name, "word")
        if self.node.host.now_ns() % (20 * MS) == 0:
            self.node.disk.open("data/log-0/records").sync()
        self.node.host.after(MS, self.tick)

    def receive(self, source: str, message: Any) -> None:
        self.heard.append((self.node.host.now_ns(), source))


def chatter(node: MemoryNode) -> Process:
    return Chatter(node)


@pytest.fixture
def cluster() -> MemoryCluster:
    made = MemoryCluster(1)
    made.create(dict.fromkeys(NAMES, frozenset({"replica"})))
    made.start_programs(dict.fromkeys(NAMES, chatter))
    made.simulation.run_until(10 * MS)
    return made


def later(cluster: MemoryCluster, ms: float) -> None:
    cluster.simulation.run_until(cluster.simulation.now_ns + int(ms * MS))


def heard(cluster: MemoryCluster, name: str, since_ns: int, source: str | None = None) -> int:
    entries = cluster.nodes[name].disk.open("data/log-0/records").records
    return sum(at > since_ns and source in (None, who) for at, who in entries)


def net(name: str, *peers: str, fault: str = "f", **how: Any) -> NetRecord:
    named = tuple(Peer(name=peer, address="198.18.0.9") for peer in peers)
    return NetRecord(node=name, fault=fault, peers=named, **how)


def disk(cluster: MemoryCluster, form: Any, **how: Any) -> DiskRecord:
    options = {"folders": ("data/[!_]*-[0-9]*",), "pid": cluster.nodes["a"].pid(), **how}
    return DiskRecord(node="a", fault="f", seed=1, form=form, signal="KILL", **options)


def pause(cluster: MemoryCluster, fault: str = "f") -> PauseRecord:
    return PauseRecord(node="a", fault=fault, pid=cluster.nodes["a"].pid())


def process(cluster: MemoryCluster, signal: Any = "KILL") -> ProcessRecord:
    return ProcessRecord(node="a", fault="f", signal=signal, pid=cluster.nodes["a"].pid())


def record_of(cluster: MemoryCluster, lever: str) -> UndoRecord:
    return {
        "net": net("a", "b"),
        "pause": pause(cluster),
        "process": process(cluster),
        "disk": disk(cluster, "unsynced"),
        "power": PowerRecord(node="a", fault="f", signal="KILL", pid=cluster.nodes["a"].pid()),
    }[lever]


@pytest.mark.parametrize("name", ["net", "pause", "process", "disk", "power"])
def test_every_lever_proves_undoes_and_leaves_nothing(cluster: MemoryCluster, name: str) -> None:
    lever, record = cluster.levers[name], record_of(cluster, name)
    node = cluster.nodes["a"]
    assert isinstance(lever, Lever)
    assert isinstance(node, Node)
    assert isinstance(cluster, Cluster)
    assert lever.record_type is RECORD_TYPES[name]
    assert lever.unavailable(node, record) is None
    assert lever.leftover_state(node) == []
    lever.undo(record)  # not in force: nothing happens
    lever.apply(record)
    lever.apply(record)  # twice is once
    later(cluster, 5)
    held = lever.probe(record, applied=True)
    assert held.proven, held
    assert lever.leftover_state(node) or name in ("disk", "power")
    assert not lever.probe(record, applied=False).proven
    lever.undo(record)
    lever.undo(record)
    later(cluster, 5)
    assert lever.probe(record, applied=False).proven
    assert lever.leftover_state(node) == []
    since_ns = cluster.simulation.now_ns
    later(cluster, 5)
    assert heard(cluster, "a", since_ns) >= 8


def test_what_was_never_applied_is_not_proven(cluster: MemoryCluster) -> None:
    for name, lever in cluster.levers.items():
        proof = lever.probe(record_of(cluster, name), applied=True)
        assert not proof.proven, proof


@pytest.mark.parametrize(("direction", "hears"), [("in", "b"), ("out", "a"), ("both", None)])
def test_a_cut_has_a_direction(cluster: MemoryCluster, direction: str, hears: str | None) -> None:
    cluster.levers["net"].apply(net("a", "b", direction=direction))
    later(cluster, 1)
    since_ns = cluster.simulation.now_ns
    later(cluster, 10)
    assert (heard(cluster, "a", since_ns, "b") > 0) == (hears == "a")
    assert (heard(cluster, "b", since_ns, "a") > 0) == (hears == "b")
    assert heard(cluster, "a", since_ns, "c") > 5


def test_only_messages_of_the_system_are_met(cluster: MemoryCluster) -> None:
    lever, record = cluster.levers["net"], net("a", "b")
    lever.apply(record)
    assert [lever.probe(record, applied=True).met for _ in range(5)] == [0] * 5
    later(cluster, 5)
    assert 8 <= (lever.probe(record, applied=True).met or 0) <= 12


def test_a_cut_through_which_nobody_speaks_meets_nothing(cluster: MemoryCluster) -> None:
    lever, record = cluster.levers["net"], net("a", "clients")
    lever.apply(record)
    later(cluster, 50)
    proof = lever.probe(record, applied=True)
    assert proof.proven
    assert proof.met == 0
    assert not cluster.nodes["a"].answers()
    lever.undo(record)
    assert cluster.nodes["a"].answers()


def test_rules_for_ports_where_nobody_listens_meet_nothing(cluster: MemoryCluster) -> None:
    lever, record = cluster.levers["net"], net("a", "b", ports=(9092,))
    lever.apply(record)
    later(cluster, 5)
    assert not lever.probe(record, applied=True).proven


def test_a_share_is_dropped_and_proven_as_asked(cluster: MemoryCluster) -> None:
    lever, record = cluster.levers["net"], net("a", "b", "c", share=0.3, direction="in")
    lever.apply(record)
    later(cluster, 300)
    proof = lever.probe(record, applied=True)
    assert proof.proven, proof
    assert 140 <= (proof.met or 0) <= 220
    assert not lever.probe(replace(record, share=0.6), applied=True).proven


def test_overlapping_faults_count_and_heal_apart(cluster: MemoryCluster) -> None:
    lever, first, second = cluster.levers["net"], net("a", "b"), net("a", "b", "c", fault="g")
    lever.apply(first)
    lever.apply(second)
    later(cluster, 5)
    assert lever.probe(second, applied=True).proven
    lever.undo(first)
    assert "still cut by g" in lever.probe(first, applied=False).evidence[0]
    lever.undo(second)
    assert cluster.network.rules == {}


def test_pauses_of_two_faults_end_with_the_last(cluster: MemoryCluster) -> None:
    lever, node = cluster.levers["pause"], cluster.nodes["a"]
    first, second = pause(cluster), pause(cluster, "g")
    assert lever.capture_prior_state(first).stopped is False
    lever.apply(first)
    lever.apply(second)
    since_ns = cluster.simulation.now_ns
    later(cluster, 20)
    assert heard(cluster, "a", since_ns) == 0
    lever.undo(first)
    assert node.host.paused
    assert lever.probe(first, applied=False).proven
    lever.undo(second)
    later(cluster, 1)
    assert heard(cluster, "a", since_ns) >= 36  # what had waited for it came then


def test_a_killed_process_forgets_what_was_on_its_way(cluster: MemoryCluster) -> None:
    lever, node = cluster.levers["process"], cluster.nodes["a"]
    record = process(cluster, "TERM")
    cluster.levers["pause"].apply(pause(cluster, "p"))
    later(cluster, 10)
    lever.apply(record)
    assert node.process().exit_code == 143
    since_ns = cluster.simulation.now_ns
    lever.undo(record)
    assert node.pid() == 2
    later(cluster, 0.1)
    assert heard(cluster, "a", since_ns) == 0
    late = PauseRecord(node="a", fault="q", pid=1)
    cluster.levers["pause"].apply(late)
    assert not cluster.levers["pause"].probe(late, applied=True).proven
    assert not node.host.paused


def written(cluster: MemoryCluster) -> tuple[int, int]:
    """How many records a has written after a while, and how many of them it has fsynced."""
    later(cluster, 25.5)
    file = cluster.nodes["a"].disk.open("data/log-0/records")
    assert 0 < file.synced < len(file.records)
    return len(file.records), file.synced


@pytest.mark.parametrize(
    ("form", "options", "left"),
    [
        ("unsynced", {"keep_share": 0.0}, lambda was, synced: synced),
        ("unsynced", {"keep_share": 0.5}, lambda was, synced: synced + (was - synced) // 2),
        ("wipe", {}, lambda was, synced: 0),
        ("truncate", {"cut_bytes": 33}, lambda was, synced: was - 2),
    ],
)
def test_disks_lose_what_they_should(
    cluster: MemoryCluster, form: str, options: dict[str, object], left: Any
) -> None:
    was, synced = written(cluster)
    lever, record = cluster.levers["disk"], disk(cluster, form, **options)
    lever.apply(record)
    now = cluster.nodes["a"].disk.open("data/log-0/records")
    assert len(now.records) == left(was, synced)
    assert lever.probe(record, applied=True).proven
    lever.undo(record)
    assert cluster.nodes["a"].pid() == 2


def test_without_power_only_what_was_fsynced_is_left(cluster: MemoryCluster) -> None:
    _, synced = written(cluster)
    cluster.levers["power"].apply(record_of(cluster, "power"))
    assert len(cluster.nodes["a"].disk.open("data/log-0/records").records) == synced
    later(cluster, 5)  # dead: it writes nothing more
    assert len(cluster.nodes["a"].disk.open("data/log-0/records").records) == synced


def test_folders_that_no_pattern_fits_are_left_alone(cluster: MemoryCluster) -> None:
    lever, record = cluster.levers["disk"], disk(cluster, "wipe", folders=("data/_*",))
    lever.apply(record)
    assert not lever.probe(record, applied=True).proven
    assert cluster.nodes["a"].disk.exists("data/log-0/records")


def test_undo_after_the_cluster_is_gone_is_harmless(cluster: MemoryCluster) -> None:
    records = {name: record_of(cluster, name) for name in cluster.levers}
    assert cluster.down() == list(NAMES)
    for name, lever in cluster.levers.items():
        lever.undo(records[name])


def test_what_cannot_be_done_here_is_said(cluster: MemoryCluster) -> None:
    node = cluster.nodes["a"]
    why = cluster.levers["disk"].unavailable
    assert "only the forms unsynced, wipe" in (why(node, disk(cluster, "flip")) or "")
    assert "only the forms" in (why(node, disk(cluster, "wipe", alive=True)) or "")
    node.kill()
    for name in ("pause", "process", "disk", "power"):
        said = cluster.levers[name].unavailable(node, record_of(cluster, name))
        assert said == "a: its process does not run"
    with pytest.raises(EnvironmentFailure, match="simulated and runs no commands: iptables -S"):
        node.admin(["iptables", "-S"])

"""The levers that touch processes, on real pods: how they overlap, and what they leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from harness.clusters.docker.cluster import DockerCluster
from harness.errors import HarnessFailure
from harness.faults.records import PauseRecord, ProcessRecord, ReadOnlyRecord, StressRecord
from harness.history.run_folder import new_run_id
from harness.images.building import infra_image
from harness.images.daemon import connect
from harness.levers.commands import poll_until
from harness.machine import state as known_runs
from harness.protocols import STORED, Completed, Lever, Node, NodeSpec
from tests.conformance.conftest import Pods

pytestmark = pytest.mark.docker


@pytest.fixture
def node(pods: Pods) -> Iterator[Node]:
    """A node that is as it was before: its process runs, and nothing of ours is there."""
    node = pods.nodes["b1"]
    before = processes(node)
    yield node
    levers = pods.levers.values()
    assert [reported for lever in levers for reported in lever.leftover_state(node)] == []
    names = node.admin(["ls", "/run", "/tmp"]).output.split()
    assert not [name for name in names if name.startswith("ackloss.")]
    assert poll_until(lambda: processes(node) == before, within_s=5), processes(node)


def processes(node: Node) -> list[str]:
    """What runs on a node, zombies too, but for the command that looks and the shells of ours that
    run commands."""
    reported = node.admin(["ps", "-e", "-o", "stat=,args="]).output.splitlines()
    return sorted(line for line in reported if " ps -e" not in line and line.split()[1:] != ["sh"])


def lever(pods: Pods, name: str) -> Lever[Any]:
    """A lever that remembers nothing."""
    return pods.levers[name]


def pause(node: Node, fault: str) -> PauseRecord:
    return PauseRecord(node=node.name, fault=fault, pid=node.pid())


def kill(
    node: Node, signal: Literal["KILL", "TERM"] = "KILL", *, fault: str = "kill"
) -> ProcessRecord:
    return ProcessRecord(node=node.name, fault=fault, signal=signal, pid=node.pid())


def stress(
    node: Node,
    fault: str,
    *,
    busy_count: int = 0,
    memory_mb: int = 0,
    at_most_s: float = 600.0,
) -> StressRecord:
    return StressRecord(
        node=node.name,
        fault=fault,
        busy_count=busy_count,
        memory_mb=memory_mb,
        at_most_s=at_most_s,
    )


def state(node: Node, pid: int | None) -> str:
    return node.admin(["ps", "-o", "state=", "-p", str(pid)]).output.strip()


def test_a_pause_healed_leaves_the_other_pause_in_force(pods: Pods, node: Node) -> None:
    first, second = pause(node, "first"), pause(node, "second")
    for record in (first, second, first):
        lever(pods, "pause").apply(record)
    lever(pods, "pause").undo(first)
    undone = lever(pods, "pause").probe(first, applied=False)
    assert undone.proven
    assert "also paused by second" in undone.evidence[0]
    assert lever(pods, "pause").probe(second, applied=True).proven
    for _ in range(2):
        lever(pods, "pause").undo(second)
        assert lever(pods, "pause").probe(second, applied=False).proven


def test_a_process_that_somebody_else_has_stopped_is_left_alone(pods: Pods, node: Node) -> None:
    pid = node.pid()
    node.admin(["kill", "-STOP", str(pid)])
    assert poll_until(lambda: state(node, pid) == "T", within_s=10)
    lever(pods, "pause").undo(pause(node, "never"))
    assert state(node, pid) == "T"
    assert lever(pods, "pause").leftover_state(node)
    node.admin(["kill", "-CONT", str(pid)])


def test_a_paused_process_that_is_killed_is_started_again_and_not_paused(
    pods: Pods, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, killed = pause(node, "still"), kill(node)
    lever(pods, "pause").apply(paused)
    lever(pods, "process").apply(killed)
    monkeypatch.setattr("harness.levers.process._SEEN_S", 0.2)  # what never comes
    assert lever(pods, "process").probe(killed, applied=True).proven
    assert not lever(pods, "pause").probe(paused, applied=True).proven, "it is no longer stopped"
    lever(pods, "process").undo(killed)
    assert lever(pods, "process").probe(killed, applied=False).proven
    lever(pods, "pause").undo(paused)
    assert state(node, node.pid()) == "S"
    assert not lever(pods, "pause").probe(paused, applied=False).proven, "it never went on"


def test_a_process_that_cannot_stop_by_itself_is_killed_and_the_clean_stop_is_not_proven(
    pods: Pods, node: Node
) -> None:
    paused, stopped = pause(node, "still"), replace(kill(node, "TERM"), grace_s=0.5)
    lever(pods, "pause").apply(paused)
    assert lever(pods, "pause").probe(paused, applied=True).proven
    lever(pods, "process").apply(stopped)
    proof = lever(pods, "process").probe(stopped, applied=True)
    assert not proof.proven
    assert "exit code 137" in proof.evidence[0]
    lever(pods, "process").undo(stopped)
    assert lever(pods, "process").probe(stopped, applied=False).proven
    lever(pods, "pause").undo(paused)


def test_a_second_kill_of_a_dead_process_is_not_proven_and_starts_nothing(
    pods: Pods, node: Node
) -> None:
    first = kill(node)
    lever(pods, "process").apply(first)
    second = kill(node, fault="second")
    lever(pods, "process").apply(second)
    assert not lever(pods, "process").probe(second, applied=True).proven
    lever(pods, "process").undo(second)
    assert lever(pods, "process").probe(first, applied=True).proven
    lever(pods, "process").undo(first)
    assert lever(pods, "process").probe(first, applied=False).proven


def test_a_process_that_ran_between_two_kills_is_proven_dead_for_the_second_alone(
    pods: Pods, node: Node
) -> None:
    first = kill(node)
    lever(pods, "process").apply(first)
    node.start()
    assert poll_until(lambda: node.pid() is not None, within_s=5)
    second = kill(node, fault="second")
    lever(pods, "process").apply(second)
    assert not lever(pods, "process").probe(first, applied=True).proven
    assert lever(pods, "process").probe(second, applied=True).proven
    lever(pods, "process").undo(first)
    proof = lever(pods, "process").probe(first, applied=False)
    assert proof.proven
    assert "kept dead by second" in proof.evidence[0]
    lever(pods, "process").undo(second)
    assert lever(pods, "process").probe(second, applied=False).proven


def test_a_process_stays_dead_when_its_data_can_be_written_again(pods: Pods, node: Node) -> None:
    unwritable = ReadOnlyRecord(node=node.name, fault="ro", folder=STORED, pid=node.pid())
    lever(pods, "read-only").apply(unwritable)
    killed = kill(node)
    lever(pods, "process").apply(killed)
    lever(pods, "read-only").undo(unwritable)
    assert lever(pods, "read-only").probe(unwritable, applied=False).proven
    assert lever(pods, "process").probe(killed, applied=True).proven
    lever(pods, "process").undo(killed)
    assert lever(pods, "process").probe(killed, applied=False).proven


def test_load_is_started_once_and_ended_for_one_fault_alone(
    pods: Pods, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, other = stress(node, "busy", busy_count=2), stress(node, "busy2", busy_count=1)
    for record in (busy, other, busy):
        lever(pods, "stress").apply(record)
    assert len(lever(pods, "stress").leftover_state(node)) == 3
    proof = lever(pods, "stress").probe(busy, applied=True)
    assert proof.proven, proof.evidence
    lever(pods, "stress").undo(busy)
    assert lever(pods, "stress").probe(busy, applied=False).proven
    assert lever(pods, "stress").probe(other, applied=True).proven
    with monkeypatch.context() as patched:
        patched.setattr("harness.levers.stress._SEEN_S", 0.2)  # what never comes
        assert not lever(pods, "stress").probe(busy, applied=True).proven
    lever(pods, "stress").undo(other)


def test_load_ends_by_itself(pods: Pods, node: Node) -> None:
    record = stress(node, "short", busy_count=1, memory_mb=5, at_most_s=3.0)
    lever(pods, "stress").apply(record)
    assert lever(pods, "stress").leftover_state(node)
    assert poll_until(lambda: lever(pods, "stress").leftover_state(node) == [], within_s=30)


def test_busy_loops_that_stand_still_are_no_load(
    pods: Pods, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = stress(node, "idle", busy_count=1)
    lever(pods, "stress").apply(record)
    pid = lever(pods, "stress").leftover_state(node)[0].split()[2]
    node.admin(["kill", "-STOP", pid])
    assert poll_until(lambda: state(node, int(pid)) == "T", within_s=10)
    monkeypatch.setattr("harness.levers.stress._SEEN_S", 0.2)
    proof = lever(pods, "stress").probe(record, applied=True)
    assert not proof.proven
    assert "0 of 1 busy loops took 0.00 s" in proof.evidence[0]
    monkeypatch.undo()
    lever(pods, "stress").undo(record)


def test_memory_beyond_the_nodes_limit_ends_ours_and_not_the_target(
    docker_pods: DockerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts have no limit of ours."""
    node, stressing = docker_pods.nodes["b1"], lever(docker_pods, "stress")
    pid, record = node.pid(), stress(node, "much", memory_mb=900)
    stressing.apply(record)
    assert poll_until(lambda: stressing.leftover_state(node) == [], within_s=30)
    monkeypatch.setattr("harness.levers.stress._SEEN_S", 0.2)
    assert not stressing.probe(record, applied=True).proven
    assert node.process().running
    assert node.pid() == pid


def test_load_that_cannot_be_looked_for_is_not_taken_for_gone(
    pods: Pods, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = stress(node, "busy", busy_count=1)
    lever(pods, "stress").apply(record)
    with monkeypatch.context() as blind:
        blind.setattr(type(node), "admin", lambda *_, **__: Completed(124, "no answer"))
        with pytest.raises(HarnessFailure, match="no answer"):
            lever(pods, "stress").undo(record)
    assert lever(pods, "stress").leftover_state(node)
    lever(pods, "stress").undo(record)


def test_load_beside_a_dead_process_is_refused(pods: Pods, node: Node) -> None:
    killed = kill(node)
    lever(pods, "process").apply(killed)
    with pytest.raises(HarnessFailure, match="not running"):
        lever(pods, "stress").apply(stress(node, "late", busy_count=1))
    lever(pods, "process").undo(killed)
    assert lever(pods, "process").probe(killed, applied=False).proven


def test_a_paused_process_does_not_keep_its_cluster_from_being_taken_down(tmp_path: Path) -> None:
    run_id, image = new_run_id(), infra_image()
    cluster = DockerCluster(run_id, connect(), image.id)
    with known_runs.registered(run_id, tmp_path):
        try:
            spec = NodeSpec(name="b1", roles=frozenset({"broker"}), argv=["sleep", "600"])
            cluster.start_pods([spec], image.id, cluster.create_network(["b1"]))
            node = cluster.nodes["b1"]
            assert poll_until(lambda: node.pid() is not None, within_s=5)
            record = pause(node, "still")
            lever(cluster, "pause").apply(record)
            lever(cluster, "stress").apply(stress(node, "busy", busy_count=1))
            assert lever(cluster, "pause").probe(record, applied=True).proven
        finally:
            removed = cluster.down()
            known_runs.forget(run_id)
    assert len(removed) == 4, "two containers, a volume and a network"
    assert not Path(f"/proc/{node.infra_pid}").exists()

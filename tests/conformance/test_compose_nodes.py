"""The levers over containers of somebody else, without a system in them: what they do, that they
prove it, and what is left. Docker would start these again by itself: they have a restart policy."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.clusters.compose.node import ComposeNode, attach, attached, levers_over
from harness.clusters.docker.cluster import remove_run
from harness.faults.injection import announced
from harness.faults.records import (
    CLIENTS,
    NetRecord,
    PauseRecord,
    Peer,
    ProcessRecord,
    ShapingRecord,
    StressRecord,
)
from harness.history.run_folder import new_run_id
from harness.images.building import infra_image
from harness.images.daemon import connect
from harness.levers.commands import poll_until
from harness.levers.process import PauseLever
from harness.protocols import Act, Node, UndoRecord
from tests.fixtures.budget import full
from tests.fixtures.their_project import seen, talking_containers

pytestmark = pytest.mark.docker

Nodes = Mapping[str, ComposeNode]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Two containers of a project, and ours beside each."""
    client, run_id, project = connect(), new_run_id(), f"talk-{secrets.token_hex(3)}"
    with talking_containers(("b1", "b2"), project) as containers:
        before, made = seen(client, project), {}
        try:
            for name, each in containers.items():
                ours = attach(client, run_id, infra_image().id, name=name, container=each["Id"])
                network = f"{project}_default"
                made[name] = ComposeNode(
                    name, frozenset({"broker"}), each["Id"], ours, client, network=network
                )
            yield made
        finally:
            remove_run(client, run_id)
        assert seen(client, project) == before


@pytest.fixture
def calm(nodes: Nodes) -> Iterator[None]:
    """Nothing is in force afterwards."""
    yield
    levers = levers_over(nodes).values()
    left = [s for lever in levers for node in nodes.values() for s in lever.leftover_state(node)]
    assert left == []


def done(nodes: Nodes, act: Act, *, met: bool) -> None:
    """Apply an act, see that it is proven and has met the system, and undo it in another life."""
    lever = levers_over(nodes)[act.lever]
    record: UndoRecord = announced(lever, act, fault="fault", seed=1)
    assert lever.unavailable(nodes[record.node], record) is None
    lever.apply(record)
    assert lever.probe(record, applied=True).proven
    if met:
        assert poll_until(lambda: (lever.probe(record, applied=True).met or 0) > 0, within_s=20)
    with pytest.MonkeyPatch.context() as patch:  # what never comes is not waited for
        for limit in ("net._HEALED_S", "process._SEEN_S", "stress._SEEN_S"):
            patch.setattr(f"harness.levers.{limit}", 0.2)
        assert not lever.probe(record, applied=False).proven
    other: Any = levers_over(attached_again(nodes))[act.lever]
    other.undo(record)
    other.undo(record)
    proof = lever.probe(record, applied=False)
    assert proof.proven, proof


def attached_again(nodes: Nodes) -> dict[str, ComposeNode]:
    """The same nodes as another process finds them, by labels."""
    infra = next(iter(nodes.values())).infra
    client = connect()
    labels = client.api.inspect_container(infra)["Config"]["Labels"]
    return attached(client, labels["ackloss.run"])


def peer(nodes: Nodes) -> tuple[Peer, ...]:
    return (Peer(name="b2", address=nodes["b2"].address),)


def test_they_are_nodes(nodes: Nodes) -> None:
    assert all(isinstance(node, Node) for node in nodes.values())
    assert set(attached_again(nodes)) == set(nodes)


@pytest.mark.usefixtures("calm")
def test_each_lever_acts_is_proven_and_is_undone_by_another_process(nodes: Nodes) -> None:
    done(nodes, Act("net", NetRecord(node="b1", peers=peer(nodes))), met=True)
    share = NetRecord(node="b1", peers=peer(nodes), share=0.3)
    done(nodes, Act("net", share), met=True)
    shape = ShapingRecord(node="b1", kind="tbf", rate_kbit=800)
    done(nodes, Act("shaping", shape), met=True)
    done(nodes, Act("pause", PauseRecord(node="b1", pid=nodes["b1"].pid())), met=False)
    stress = StressRecord(node="b1", busy_count=4, memory_mb=0, at_most_s=60)
    done(nodes, Act("stress", stress), met=False)


@pytest.mark.usefixtures("calm")
def test_a_pause_is_found_by_its_mark_alone(nodes: Nodes) -> None:
    """By another process, and without a journal."""
    node = nodes["b1"]
    lever, record = PauseLever(nodes), PauseRecord(node="b1", fault="still", pid=node.pid())
    lever.apply(record)
    assert lever.probe(record, applied=True).proven
    again = attached_again(nodes)
    (found,) = PauseLever(again).marked(again["b1"])
    assert found == replace(record, stopped=False)
    PauseLever(again).undo(found)
    assert lever.probe(record, applied=False).proven
    assert PauseLever(again).marked(again["b1"]) == []


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("signal", ["KILL", *full("TERM")])
def test_what_is_killed_stays_down_and_is_started_again(nodes: Nodes, signal: Any) -> None:
    node = nodes["b1"]
    lever, pid = levers_over(nodes)["process"], node.pid()
    record = ProcessRecord(node="b1", fault="kill", signal=signal, pid=pid)
    lever.apply(record)
    assert lever.probe(record, applied=True).proven
    assert not poll_until(lambda: node.process().running, within_s=3), "Docker started it again"
    assert node.processes() == frozenset()
    assert lever.leftover_state(node)
    levers_over(attached_again(nodes))["process"].undo(record)
    proof = lever.probe(record, applied=False)
    assert proof.proven, proof


@pytest.mark.usefixtures("calm")
def test_a_cut_of_a_node_that_starts_again_ends_with_its_network(nodes: Nodes) -> None:
    node, levers = nodes["b1"], levers_over(nodes)
    cut = NetRecord(node="b1", fault="cut", peers=peer(nodes))
    levers["net"].apply(cut)
    kill = ProcessRecord(node="b1", fault="kill", signal="KILL", pid=node.pid())
    levers["process"].apply(kill)
    assert levers["net"].leftover_state(node)  # in the network that it had
    other = NetRecord(node="b2", fault="other", peers=(Peer(name="b1", address=node.address),))
    proof = levers["net"].probe(other, applied=False)
    assert proof.proven, proof  # nobody answers there, and no cut is the reason
    assert "still cut by the end of b1" in proof.evidence[0]
    levers["process"].undo(kill)
    assert levers["net"].leftover_state(node) == []
    assert not levers["net"].probe(cut, applied=True).proven
    levers["net"].undo(cut)
    assert levers["net"].probe(cut, applied=False).proven
    done(nodes, Act("net", NetRecord(node="b1", peers=peer(nodes))), met=True)


def test_loops_of_one_node_are_not_those_of_another(nodes: Nodes) -> None:
    levers = levers_over(nodes)
    records = {
        name: StressRecord(node=name, fault="same", busy_count=1, memory_mb=0, at_most_s=60)
        for name in nodes
    }
    for record in records.values():
        levers["stress"].apply(record)
    levers["stress"].undo(records["b1"])
    assert levers["stress"].leftover_state(nodes["b1"]) == []
    assert len(levers["stress"].leftover_state(nodes["b2"])) == 1
    levers["stress"].undo(records["b2"])
    defunct = [n.admin(["ps", "-e", "-o", "ppid=,stat="]).output for n in nodes.values()]
    for node, listed in zip(nodes.values(), defunct, strict=True):
        own = {str(pid) for pid in node.processes()}
        assert not [line for line in listed.splitlines() if line.split()[0] in own and "Z" in line]


def test_what_cannot_be_done_to_them_is_refused_with_the_reason(nodes: Nodes) -> None:
    levers, node = levers_over(nodes), nodes["b1"]
    clients = NetRecord(node="b1", peers=(Peer(name=CLIENTS),))
    assert "port forwarding" in (node.why_not(clients) or "")
    limited = ComposeNode(
        "b1",
        node.roles,
        node.container,
        node.infra,
        node.client,
        network=node.network,
        limits={"cut": "C", "shape": "S", "memory": "M", "kill": "K"},
    )
    cases = {
        "net": (NetRecord(node="b1", peers=()), "b1 C"),
        "shaping": (ShapingRecord(node="b1", kind="tbf", rate_kbit=800), "b1 S"),
        "process": (ProcessRecord(node="b1", signal="KILL", pid=None), "b1 K"),
        "stress": (StressRecord(node="b1", busy_count=0, memory_mb=9, at_most_s=1), "b1 M"),
    }
    for name, (record, why) in cases.items():
        assert limited.why_not(record) == why
        assert (node.why_not(record), levers[name].unavailable(node, record)) == (None, None)

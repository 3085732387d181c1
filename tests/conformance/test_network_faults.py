"""The network's faults on real pods: what they leave alone, and what their evidence is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness import registry
from harness.errors import HarnessFailure
from harness.faults.injection import unavailable
from harness.faults.records import NetRecord, Peer, ShapingRecord
from harness.levers.net import NetLever
from harness.levers.shaping import ShapingLever, refused
from harness.protocols import Completed, Node
from tests.conformance.conftest import Pods

pytestmark = pytest.mark.docker

SLOW = ShapingRecord(node="b1", fault="slow", kind="tbf", rate_kbit=800)


def link(pods: Pods, **how: Any) -> NetRecord:
    peer = Peer(name="b2", address=pods.nodes["b2"].address)
    return replace(NetRecord(node="b1", fault="x", peers=(peer,)), **how)


@pytest.fixture
def foreign(pods: Pods) -> Iterator[Node]:
    """A node where somebody else shapes and filters already."""
    node = pods.nodes["b1"]
    shape = ["dev", "eth0", "root", "handle", "1:", "tbf", "rate", "1gbit", "burst", "1mb"]
    rule = ["INPUT", "-p", "udp", "--dport", "7", "-j", "DROP"]
    assert node.admin(["tc", "qdisc", "add", *shape, "latency", "50ms"]).exit_code == 0
    assert node.admin(["iptables", "-w", "-A", *rule]).exit_code == 0
    yield node
    node.admin(["tc", "qdisc", "del", "dev", "eth0", "root"])
    node.admin(["iptables", "-w", "-D", *rule])


def test_what_is_not_ours_stays_as_it_is(pods: Pods, foreign: Node) -> None:
    def theirs() -> tuple[str, str]:
        rules = foreign.admin(["iptables", "-w", "-S"]).output
        return rules, foreign.admin(["tc", "qdisc", "show"]).output

    before = theirs()
    shaping, net = ShapingLever(pods.nodes), NetLever(pods.nodes)
    with pytest.raises(HarnessFailure, match=r"eth0 is shaped by another already \(tbf 1:\)"):
        shaping.apply(SLOW)
    assert not shaping.probe(SLOW, applied=True).proven
    shaping.undo(SLOW)
    net.apply(link(pods, share=0.5))
    net.undo(link(pods, share=0.5))
    assert theirs() == before


def test_done_twice_is_done_once_and_undone_by_anybody_with_the_record(pods: Pods) -> None:
    node = pods.nodes["b1"]
    for record in (link(pods, share=0.5), link(pods, action="reset")):
        NetLever(pods.nodes).apply(record)
        once = node.admin(["iptables", "-w", "-S"]).output
        NetLever(pods.nodes).apply(record)
        assert node.admin(["iptables", "-w", "-S"]).output == once
        for _ in range(2):
            NetLever(pods.nodes).undo(record)
            assert NetLever(pods.nodes).leftover_state(node) == []
    for _ in range(2):
        ShapingLever(pods.nodes).apply(SLOW)
    for _ in range(2):
        ShapingLever(pods.nodes).undo(SLOW)
        assert ShapingLever(pods.nodes).leftover_state(node) == []


def test_rules_of_an_older_version_are_undone_by_its_journal(pods: Pods) -> None:
    """They had one rule for all packets, and a share's probability comes back with more digits."""
    node, lever = pods.nodes["b1"], NetLever(pods.nodes)
    match = ["ACKLOSS-IN", "-s", f"{pods.nodes['b2'].address}/32", "-m", "comment", "--comment"]
    share = ["-m", "statistic", "--mode", "random", "--probability", "0.2", "-j", "DROP"]
    for argv in (
        ["-N", "ACKLOSS-IN"],
        ["-I", "INPUT", "-j", "ACKLOSS-IN"],
        ["-I", *match, "ackloss/x/b2", *share],
        ["-I", *match, "ackloss/x/b2/seen"],
        ["-I", *match, "ackloss/another/b2", "-j", "DROP"],
    ):
        assert node.admin(["iptables", "-w", *argv]).exit_code == 0
    lever.undo(link(pods, share=0.2, direction="in"))
    assert not any("ackloss/x/" in reported for reported in lever.leftover_state(node))
    assert any("ackloss/another/b2" in reported for reported in lever.leftover_state(node))
    lever.undo(link(pods, fault="another", direction="in"))
    assert lever.leftover_state(node) == []


def test_two_that_shape_one_node_the_second_fails_and_undoes_nothing(pods: Pods) -> None:
    lever, second = ShapingLever(pods.nodes), replace(SLOW, fault="slower")
    lever.apply(SLOW)
    try:
        with pytest.raises(HarnessFailure, match="shaped by another"):
            lever.apply(second)
        lever.undo(second)
        assert lever.probe(SLOW, applied=True).proven
    finally:
        lever.undo(SLOW)
    assert lever.probe(SLOW, applied=False).proven


@pytest.mark.parametrize("real", [0.1, 0.9])
def test_another_share_than_was_asked_is_no_proof(
    pods: Pods, monkeypatch: pytest.MonkeyPatch, real: float
) -> None:
    """The kernel drops another share than the lever asks for."""
    admin = type(pods.nodes["b1"]).admin

    def other(node: Any, argv: Sequence[str], **options: Any) -> Completed:
        asked = "--probability 0.4"
        return admin(
            node, [word.replace(asked, asked[:-3] + str(real)) for word in argv], **options
        )

    monkeypatch.setattr(type(pods.nodes["b1"]), "admin", other)
    lever, record = NetLever(pods.nodes), link(pods, share=0.4)
    lever.apply(record)
    try:
        proof = lever.probe(record, applied=True)
    finally:
        lever.undo(record)
    assert not proof.proven, proof.evidence
    assert "requested 40.0%" in proof.evidence[0]


def test_a_closed_port_is_no_reset_of_ours(pods: Pods) -> None:
    proof = NetLever(pods.nodes).probe(link(pods, action="reset", ports=(7,)), applied=True)
    assert not proof.proven
    assert "was refused" in proof.evidence[0]


def test_available_tells_whether_the_kernel_has_netem(pods: Pods) -> None:
    """Distinguished from what tc itself reports when it is asked for one, on another device."""
    node = pods.nodes["b2"]
    asked = node.admin(["tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "1ms"])
    if asked.exit_code == 0:
        node.admin(["tc", "qdisc", "del", "dev", "eth0", "root"])
    late = registry.make("nemeses", "lossy", {"delay_ms": 1}, key="n")
    reported = unavailable(late, pods.nodes, pods.levers)
    assert (reported is None) == (asked.exit_code == 0)
    assert reported is None or "this kernel has no netem" in reported
    assert refused(node, "tbf") is None
    lever = ShapingLever(pods.nodes)
    assert [reported for n in pods.nodes.values() for reported in lever.leftover_state(n)] == []

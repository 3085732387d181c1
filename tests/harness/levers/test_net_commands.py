"""The rules of the net lever: what counts apart, what a redirect changes, and blind probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from harness.errors import HarnessFailure
from harness.faults.records import NetRecord, Peer
from harness.levers.net import NetLever, rules
from harness.protocols import Completed
from tests.fixtures.dry_run import DryRunNode


@pytest.fixture
def nodes() -> dict[str, DryRunNode]:
    roles = frozenset({"broker"})
    return {f"b{n}": DryRunNode(f"b{n}", roles, f"198.18.0.{10 + n}") for n in (1, 2)}


RECORD = NetRecord(
    node="b1",
    fault="cut",
    peers=(Peer(name="b2", address="198.18.0.12"),),
    ports=(9092,),
    direction="in",
)


OURS = "61000:64999"
"""The source ports of the harness's own connections."""


def added(node: DryRunNode) -> list[str]:
    """The rules that a node was given, all by one command."""
    (batch,) = [command for command in node.commands if "iptables-restore" in command]
    return ["-I " + rule for rule in batch.split(" -I ")[1:]]


def test_without_ports_all_is_dropped_and_what_is_our_own_counts_apart(
    nodes: dict[str, DryRunNode],
) -> None:
    NetLever(nodes).apply(replace(RECORD, ports=(), direction="both"))
    own = "-m comment --comment ackloss/cut/b2/own -j DROP"
    assert added(nodes["b1"]) == [
        rule
        for end in ("ACKLOSS-IN -s 198.18.0.12/32", "ACKLOSS-OUT -d 198.18.0.12/32")
        for rule in (
            f"-I {end} -p tcp -m tcp ! --sport {OURS} ! --dport {OURS} "
            "-m comment --comment ackloss/cut/b2 -j DROP",
            f"-I {end} -p tcp -m tcp --sport {OURS} {own}",
            f"-I {end} -p tcp -m tcp ! --sport {OURS} --dport {OURS} {own}",
            f"-I {end} ! -p tcp {own}",
        )
    ]


@pytest.mark.parametrize("action", ["drop", "reset"])
def test_rules_that_cannot_be_seen_are_not_taken_for_gone(
    action: Literal["drop", "reset"],
) -> None:
    class Blind(DryRunNode):
        def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
            return Completed(1 if argv[0] == "iptables-save" else 0, "no such table")

    blind = {name: Blind(name, frozenset(), f"198.18.0.1{name[1]}") for name in ("b1", "b2")}
    with pytest.raises(HarnessFailure, match="iptables-save"):
        NetLever(blind).probe(replace(RECORD, action=action), applied=False)


def test_under_a_redirect_packets_are_known_by_the_port_that_was_meant() -> None:
    """The filter sees the proxy's port; our own connections are not redirected."""
    clients = replace(RECORD, peers=(Peer(name="clients", address="198.18.0.1"),), direction="both")
    into, out = "ACKLOSS-IN -s 198.18.0.1/32", "ACKLOSS-OUT -d 198.18.0.1/32"
    begun = "-m conntrack --ctorigdstport 9092 --ctdir"
    mark = "-m comment --comment ackloss/cut/clients"
    assert [" ".join([chain, *rule]) for chain, rule in rules(clients, {9092})] == [
        f"{into} -p tcp -m tcp ! --sport {OURS} {begun} ORIGINAL {mark} -j DROP",
        f"{into} -p tcp -m tcp --dport 9092 --sport {OURS} {mark}/own -j DROP",
        f"{out} -p tcp -m tcp ! --dport {OURS} {begun} REPLY {mark} -j DROP",
        f"{out} -p tcp -m tcp --sport 9092 --dport {OURS} {mark}/own -j DROP",
    ]
    assert list(rules(clients, {9093})) == list(rules(clients))


def test_what_a_node_sends_to_a_port_of_others_is_not_redirected_there() -> None:
    outwards = replace(RECORD, direction="out")
    assert list(rules(outwards, {9092})) == list(rules(outwards))

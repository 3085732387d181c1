"""The exact commands of the net lever, seen on a node that only writes them down."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.errors import HarnessFailure
from harness.levers.net import NetLever
from harness.levers.net_rules import refused
from harness.protocols import Completed
from harness.recording import RecordingNode


@pytest.fixture
def nodes() -> dict[str, RecordingNode]:
    roles = frozenset({"broker"})
    return {f"b{n}": RecordingNode(f"b{n}", roles, f"198.18.0.{10 + n}") for n in (1, 2)}


TOKEN = {
    "node": "b1",
    "fault": "cut",
    "peers": [{"name": "b2", "address": "198.18.0.12"}],
    "ports": [9092],
    "direction": "in",
}


def test_it_adds_rules_to_its_own_chain_only(nodes: dict[str, RecordingNode]) -> None:
    NetLever(nodes).apply(TOKEN)
    assert nodes["b1"].commands == [
        "b1# iptables -w -N ACKLOSS-IN",
        "b1# iptables -w -I INPUT -j ACKLOSS-IN",
        "b1# iptables -w -I ACKLOSS-IN -s 198.18.0.12/32 -p tcp -m tcp --dport 9092 "
        "-m comment --comment ackloss/cut/b2 -j DROP",
    ]
    assert nodes["b2"].commands == []


def test_both_ways_without_ports_is_one_rule_a_way(nodes: dict[str, RecordingNode]) -> None:
    NetLever(nodes).apply({**TOKEN, "ports": [], "direction": "both"})
    rules = [command for command in nodes["b1"].commands if " DROP" in command]
    assert rules == [
        "b1# iptables -w -I ACKLOSS-IN -s 198.18.0.12/32 "
        "-m comment --comment ackloss/cut/b2 -j DROP",
        "b1# iptables -w -I ACKLOSS-OUT -d 198.18.0.12/32 "
        "-m comment --comment ackloss/cut/b2 -j DROP",
    ]


def test_no_command_names_a_built_in_chain_but_to_hook_ours(
    nodes: dict[str, RecordingNode],
) -> None:
    lever = NetLever(nodes)
    lever.apply({**TOKEN, "direction": "both"})
    for command in nodes["b1"].commands:
        words = command.split()
        if "INPUT" in words or "OUTPUT" in words:
            assert words[-1].startswith("ACKLOSS-")


def test_a_share_is_dropped_at_random_and_a_rule_in_front_counts_all(
    nodes: dict[str, RecordingNode],
) -> None:
    NetLever(nodes).apply({**TOKEN, "share": 0.2})
    assert [command for command in nodes["b1"].commands if "comment" in command] == [
        "b1# iptables -w -I ACKLOSS-IN -s 198.18.0.12/32 -p tcp -m tcp --dport 9092 "
        "-m comment --comment ackloss/cut/b2 "
        "-m statistic --mode random --probability 0.2 -j DROP",
        "b1# iptables -w -I ACKLOSS-IN -s 198.18.0.12/32 -p tcp -m tcp --dport 9092 "
        "-m comment --comment ackloss/cut/b2/seen",
    ]


def test_a_reset_leaves_resets_and_all_but_tcp_alone(nodes: dict[str, RecordingNode]) -> None:
    NetLever(nodes).apply({**TOKEN, "ports": [], "direction": "out", "action": "reset"})
    assert nodes["b1"].commands[-1] == (
        "b1# iptables -w -I ACKLOSS-OUT -d 198.18.0.12/32 -p tcp -m tcp ! --tcp-flags RST RST "
        "-m comment --comment ackloss/cut/b2 -j REJECT --reject-with tcp-reset"
    )


def test_what_clients_get_comes_from_the_port(nodes: dict[str, RecordingNode]) -> None:
    clients = [{"name": "clients", "address": "198.18.0.1"}]
    NetLever(nodes).apply({**TOKEN, "peers": clients, "direction": "both"})
    assert [command for command in nodes["b1"].commands if "comment" in command] == [
        "b1# iptables -w -I ACKLOSS-IN -s 198.18.0.1/32 -p tcp -m tcp --dport 9092 "
        "-m comment --comment ackloss/cut/clients -j DROP",
        "b1# iptables -w -I ACKLOSS-OUT -d 198.18.0.1/32 -p tcp -m tcp --sport 9092 "
        "-m comment --comment ackloss/cut/clients -j DROP",
    ]


def test_a_trial_rule_is_tried_where_no_packet_comes_by(nodes: dict[str, RecordingNode]) -> None:
    assert refused(nodes["b1"], part=0.2) is None
    assert nodes["b1"].commands == [
        "b1# iptables -w -N ACKLOSS-TRIAL",
        "b1# iptables -w -A ACKLOSS-TRIAL -m statistic --mode random --probability 0.2 -j DROP",
        "b1# iptables -w -F ACKLOSS-TRIAL",
        "b1# iptables -w -X ACKLOSS-TRIAL",
    ]


@pytest.mark.parametrize("action", ["drop", "reset"])
def test_rules_that_cannot_be_seen_are_not_taken_for_gone(action: str) -> None:
    class Blind(RecordingNode):
        def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
            return Completed(1 if argv[0] == "iptables-save" else 0, "no such table")

    blind = {name: Blind(name, frozenset(), f"198.18.0.1{name[1]}") for name in ("b1", "b2")}
    with pytest.raises(HarnessFailure, match="iptables-save"):
        NetLever(blind).probe({**TOKEN, "action": action}, applied=False)

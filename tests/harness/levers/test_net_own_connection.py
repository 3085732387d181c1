"""The net lever on a host that the harness reaches through the very network that it cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from harness.errors import HarnessFailure
from harness.faults.records import CLIENTS, NetRecord, Peer, ShapingRecord
from harness.levers.net import NetLever
from harness.levers.shaping import ShapingLever
from harness.protocols import Completed, OwnConnection
from tests.fixtures.dry_run import DryRunNode

SSH = "-p tcp -m tcp --dport 2222 -m comment --comment ackloss:exempt -j RETURN"
RECORD = NetRecord(
    node="b1", fault="cut", peers=(Peer(name=CLIENTS, address="10.0.0.9"),), direction="in"
)


@dataclass
class Reached(DryRunNode):
    """A host; `answers` are what it prints, by how the command begins."""

    answers: dict[str, str] | None = None
    peer: str = "10.0.0.9"

    @property
    def own_connection(self) -> OwnConnection:
        return OwnConnection(peer=self.peer, port=2222)

    @property
    def clients_address(self) -> str | None:
        return self.peer

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        done = super().admin(argv, timeout_s=timeout_s)
        reported = [
            text for how, text in (self.answers or {}).items() if " ".join(argv).startswith(how)
        ]
        return Completed(0, reported[0]) if reported else done


@pytest.fixture
def node() -> Reached:
    return Reached("b1", frozenset({"broker"}), "10.0.0.11")


def test_our_own_connection_passes_before_any_packet_meets_a_rule(node: Reached) -> None:
    NetLever({"b1": node}).apply(RECORD)
    chain, exempt, hook, *_ = node.commands
    assert chain == "b1# iptables -w -N ACKLOSS-IN"
    assert exempt == f"b1# iptables -w -I ACKLOSS-IN -s 10.0.0.9/32 {SSH}"
    assert hook == "b1# iptables -w -I INPUT -j ACKLOSS-IN"
    (batch,) = [command for command in node.commands if "iptables-restore" in command]
    added = batch.split(" -I ")[1:]
    assert added
    assert all(rule.startswith("ACKLOSS-IN 2 ") for rule in added)


def test_answers_of_our_own_connection_pass_too(node: Reached) -> None:
    NetLever({"b1": node}).apply(replace(RECORD, direction="out"))
    way_out = SSH.replace("--dport", "--sport")
    assert f"b1# iptables -w -I ACKLOSS-OUT -d 10.0.0.9/32 {way_out}" in node.commands


def test_it_goes_last(node: Reached) -> None:
    exempt = f"-A ACKLOSS-IN -s 10.0.0.9/32 {SSH}"
    node.answers = {"iptables -w -S ACKLOSS-IN": f"-N ACKLOSS-IN\n{exempt}\n"}
    NetLever({"b1": node}).undo(RECORD)
    assert node.commands[-3:] == [
        "b1# iptables -w -D INPUT -j ACKLOSS-IN",
        "b1# iptables -w -F ACKLOSS-IN",
        "b1# iptables -w -X ACKLOSS-IN",
    ]


def test_it_stays_while_a_rule_of_another_fault_stands(node: Reached) -> None:
    other = '-A ACKLOSS-IN -s 10.0.0.12/32 -m comment --comment "ackloss/other/b2" -j DROP'
    exempt = f"-A ACKLOSS-IN -s 10.0.0.9/32 {SSH}"
    node.answers = {"iptables -w -S ACKLOSS-IN": f"-N ACKLOSS-IN\n{exempt}\n{other}\n"}
    NetLever({"b1": node}).undo(RECORD)
    assert not [c for c in node.commands if " -D " in c or " -F " in c or " -X " in c]


def test_what_the_host_itself_filters_is_no_leftover_of_ours(node: Reached) -> None:
    theirs = "-P INPUT DROP\n-N f2b-sshd\n-A INPUT -p tcp --dport 22 -j f2b-sshd\n"
    node.answers = {"iptables -w -S": theirs}
    lever = NetLever({"b1": node})
    assert lever.leftover_state(node) == []
    node.answers = {"iptables -w -S": f"{theirs}-N ACKLOSS-IN\n-A INPUT -j ACKLOSS-IN\n"}
    assert len(lever.leftover_state(node)) == 2


@pytest.mark.parametrize("lever", [NetLever, ShapingLever])
def test_nothing_is_done_to_the_network_of_a_node_through_which_another_is_reached(
    node: Reached, lever: type[NetLever] | type[ShapingLever]
) -> None:
    """b1 sees us come from b2: by what the host says, not by the inventory."""
    jump = Reached("b2", frozenset({"broker"}), "10.0.0.12", peer="10.0.0.1")
    node.peer = "10.0.0.12"
    record = {
        NetLever: replace(RECORD, node="b2"),
        ShapingLever: ShapingRecord(node="b2", fault="slow", kind="tbf", rate_kbit=64),
    }[lever]
    with pytest.raises(HarnessFailure, match="b1 can be reached only through b2"):
        lever({"b1": node, "b2": jump}).apply(record)  # type: ignore[arg-type]
    assert jump.commands == []


def test_a_node_behind_another_may_be_cut_from_it(node: Reached) -> None:
    """Its exemption is of the address from which it sees us."""
    node.peer = "10.0.0.12"
    jump = Reached("b2", frozenset({"broker"}), "10.0.0.12", peer="10.0.0.1")
    cut = replace(RECORD, peers=(Peer(name="b2", address="10.0.0.12"),))
    NetLever({"b1": node, "b2": jump}).apply(cut)
    assert f"b1# iptables -w -I ACKLOSS-IN -s 10.0.0.12/32 {SSH}" in node.commands

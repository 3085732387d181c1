"""What plans may ask of the network's faults, and who is met."""

from __future__ import annotations

from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.faults.records import NetRecord, Peer, ShapingRecord
from harness.levers.net import NetLever
from harness.protocols import Act
from tests.fixtures.chosen_acts import NODES, acts


def net(act: Act) -> NetRecord:
    assert isinstance(act.record, NetRecord)
    return act.record


def met(found: list[Act]) -> dict[str, list[str]]:
    return {r.node: [peer.name for peer in r.peers] for r in map(net, found)}


@pytest.mark.parametrize(
    ("nemesis", "options", "why"),
    [
        ("lossy", {"share": 0.2, "reset": True}, "one form at a time"),
        ("lossy", {"share": 1.0}, "share: 1.0 is not allowed here; use 0.99 or less"),
        ("lossy", {"rate_kbit": 1}, "use 64 or more"),
        ("lossy", {"rate_kbit": 500, "ports": [9092]}, "only share and reset have"),
        ("lossy", {"jitter_ms": 5}, "need delay_ms"),
        ("lossy", {"delay_ms": -1}, "delay_ms: -1 is not allowed here; use more than 0"),
        (
            "lossy",
            {"corrupt_share": 1e-9},
            "corrupt_share: 1e-09 .* use 0.01 or more",
        ),
        (
            "lossy",
            {"delay_ms": 5, "reorder_share": 1e-9},
            "reorder_share: 1e-09 .* use 0.01 or",
        ),
        ("lossy", {"ports": [0]}, "ports.0: 0 is not allowed here; use more than 0"),
        ("lossy", {"peers": "no body"}, "not a selector"),
        ("partition", {"groups": ["node:b1"]}, "name two or more"),
        ("partition", {"groups": ["node:b1", "node:b2"], "form": "ring"}, "leave out form"),
        ("partition", {"form": "ring", "peers": "role:broker"}, "leave out peers"),
        ("partition", {"form": "halves", "peers": "clients"}, "only by form isolate"),
        ("partition", {"form": "star"}, "isolate"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    nemesis: str, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(PlanError, match=why):
        registry.make("nemeses", nemesis, options, key="faults.0.nemesis")


@pytest.mark.parametrize(
    ("nemesis", "options", "found"),
    [
        ("lossy", {"peers": "role:broker"}, {"peers": "role:broker"}),
        ("lossy", {"peers": "clients"}, {}),
        ("partition", {"peers": "clients"}, {}),
        (
            "partition",
            {"groups": ["leader", "all - leader"]},
            {"peers": "all", "groups.0": "leader", "groups.1": "all - leader"},
        ),
    ],
)
def test_selectors_among_the_options_are_named_with_their_keys(
    nemesis: str, options: dict[str, Any], found: dict[str, str]
) -> None:
    made = registry.make("nemeses", nemesis, options, key="nemesis")
    assert made.selectors == found


def test_isolated_nodes_are_cut_from_all_but_themselves() -> None:
    found = acts("partition", "node:b1", peers="role:broker", direction="in", ports=[9092])
    assert met(found) == {"b1": ["b2", "b3"]}
    assert net(found[0]).direction == "in"
    assert net(found[0]).ports == (9092,)


def test_halves_keep_the_chosen_together() -> None:
    found = acts("partition", "node:b1 + node:c1", form="halves")
    assert met(found) == {"b1": ["b2", "b3"], "c1": ["b2", "b3"]}


def test_a_zone_is_cut_from_all_others_and_from_clients() -> None:
    """Nodes of the zone still see each other, and so do its clients."""
    zone = "node:b1 + node:c1 + node:k1"
    found = acts("partition", zone, form="halves", clients=True)
    others = ["b2", "b3", "clients", "k2"]
    assert met(found) == {"b1": others, "c1": others, "k1": others}
    found = acts("partition", "node:b1 + node:b2", peers="role:broker", clients=True)
    clients = ["clients", "k1", "k2"]
    assert met(found) == {"b1": ["b2", "b3", *clients], "b2": ["b1", "b3", *clients]}
    required = registry.make("nemeses", "partition", {"clients": True}, key="n").requires("b1")
    assert met(required) == {"b1": ["clients"]}, "whether their address is known is asked before"


def test_the_chosen_node_is_the_bridge() -> None:
    found = acts("partition", "node:b2", form="bridge")
    assert met(found) == {"b1": ["b3"], "c1": ["b3"]}


def test_a_ring_of_four_cuts_the_opposite() -> None:
    assert met(acts("partition", "all", form="ring")) == {"b1": ["b3"], "b2": ["c1"]}


def test_groups_are_named_by_selectors_among_the_chosen() -> None:
    groups = ["node:b1 + node:c1", "role:broker - node:b1"]
    assert met(acts("partition", "all", groups=groups)) == {"b1": ["b2", "b3"], "c1": ["b2", "b3"]}
    assert met(acts("partition", "role:broker", groups=groups)) == {"b1": ["b2", "b3"]}


@pytest.mark.parametrize("nemesis", ["partition", "lossy"])
def test_clients_are_where_the_default_route_goes_and_in_nodes(nemesis: str) -> None:
    (act,) = acts(nemesis, "node:b1", peers="clients", direction="in")
    lever = NetLever({node.name: node for node in NODES})
    assert lever.capture_prior_state(net(act)).peers == (
        Peer(name="clients", address="198.18.0.1"),
        Peer(name="k1", address="198.18.0.15"),
        Peer(name="k2", address="198.18.0.16"),
    )
    assert met(acts(nemesis, "node:k2", peers="clients")) == {"k2": ["clients", "k1"]}
    both = met(acts(nemesis, "node:k1 + node:k2", peers="clients"))
    assert both == {"k1": ["clients", "k2"], "k2": ["clients", "k1"]}


@pytest.mark.parametrize("nemesis", ["partition", "lossy"])
def test_who_is_cut_from_all_keeps_its_clients(nemesis: str) -> None:
    assert met(acts(nemesis, "node:b1")) == {"b1": ["b2", "b3", "c1"]}


@pytest.mark.parametrize("nemesis", ["partition", "lossy"])
def test_a_client_in_a_node_is_cut_by_name(nemesis: str) -> None:
    assert met(acts(nemesis, "node:k1", peers="node:b2")) == {"k1": ["b2"]}
    found = acts(nemesis, "node:b2", peers="role:client")
    assert met(found) == {"b2": ["k1", "k2"]}
    assert net(found[0]).peers[0].address == "198.18.0.15"


def test_a_form_becomes_the_levers_record() -> None:
    assert net(acts("lossy", "node:b1")[0]).share == 0.2
    assert net(acts("lossy", "node:b1", reset=True)[0]).action == "reset"
    assert acts("lossy", "node:b1", rate_kbit=500) == [
        Act("shaping", ShapingRecord(node="b1", kind="tbf", rate_kbit=500))
    ]
    assert acts("lossy", "node:b1", delay_ms=50, jitter_ms=5) == [
        Act("shaping", ShapingRecord(node="b1", kind="netem", delay_ms=50.0, jitter_ms=5.0))
    ]

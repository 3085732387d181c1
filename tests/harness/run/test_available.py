"""A run does not begin with a fault that its cluster cannot have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from harness import registry
from harness.clusters.docker import Docker
from harness.errors import EnvironmentFailure, PlanError
from harness.plan import parse_plan
from harness.protocols import Completed, Lever
from harness.protocols.faults import ClientNemesis
from harness.run.resolving import resolve
from harness.run.runner import refuse_unavailable
from tests.fixtures.dry_run import DryRunCluster, DryRunNode

PLAN = {
    "schema": 1,
    "name": "late packets",
    "target": {"version": "4.3.1"},
    "faults": [
        {"id": "lost", "at_s": 1, "nemesis": "lossy", "share": 0.1},
        {"id": "late", "at_s": 2, "nemesis": "lossy", "delay_ms": 20},
    ],
}


class OldKernel(DryRunNode):
    """A node whose kernel has no netem."""

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if "netem" in argv:
            return Completed(2, "Error: Specified qdisc kind is unknown.")
        return super().admin(argv, timeout_s=timeout_s)


class Bare(DryRunCluster):
    """A cluster that offers the lever of processes and no other."""

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        return {"process": super().levers["process"]}


def one(node: DryRunNode) -> DryRunCluster:
    return DryRunCluster({node.name: node})


def test_a_fault_that_cannot_be_made_is_named_with_the_reason() -> None:
    old = OldKernel("b1", frozenset({"broker"}), "198.18.0.11")
    with pytest.raises(EnvironmentFailure, match=r"the fault 'late' \(lossy\) cannot be made"):
        refuse_unavailable(resolve(parse_plan(PLAN)), one(old))


def test_what_can_be_made_is_not_refused() -> None:
    refuse_unavailable(
        resolve(parse_plan(PLAN)), one(DryRunNode("b1", frozenset({"broker"}), "198.18.0.11"))
    )


def test_a_lever_that_the_cluster_does_not_offer_is_named_with_those_it_does() -> None:
    node = DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")
    with pytest.raises(EnvironmentFailure, match="does not offer the lever 'net'; it offers proc"):
        refuse_unavailable(resolve(parse_plan(PLAN)), Bare({"b1": node}))


def test_a_plan_that_needs_such_a_lever_is_refused_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Docker, "levers", ("process", "net"))
    resolve(parse_plan({**PLAN, "faults": PLAN["faults"][:1]}))  # type: ignore[index]
    why = "lossy needs the lever 'shaping', which neither a cluster of kind 'docker' nor kafka"
    with pytest.raises(PlanError, match=why) as refused:
        resolve(parse_plan(PLAN))
    assert refused.value.key == "faults.late.nemesis"
    assert "process, net, features, leadership, members, protocol" in (refused.value.hint or "")


def test_nothing_is_run_on_a_node_to_learn_what_a_fault_needs() -> None:
    for name in registry.plugins("nemeses"):
        nemesis = registry.make("nemeses", name, {}, key="nemesis")
        if not isinstance(nemesis, ClientNemesis):
            acts = nemesis.requires("b1")
            assert acts
            assert {act.record.node for act in acts} == {"b1"}

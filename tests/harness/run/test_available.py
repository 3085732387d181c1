"""A run does not begin with a fault that its cluster cannot have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from harness.errors import EnvironmentFailure
from harness.plan import parse_plan
from harness.protocols import Completed, Node
from harness.run.dry_run import DryRunNode
from harness.run.resolving import resolve
from harness.run.runner import refuse_unavailable

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


@dataclass(frozen=True)
class One:
    """A cluster of one node."""

    node: Node

    @property
    def nodes(self) -> Mapping[str, Node]:
        return {"b1": self.node}


def test_a_fault_that_cannot_be_made_is_named_with_the_reason() -> None:
    old = OldKernel("b1", frozenset({"broker"}), "198.18.0.11")
    with pytest.raises(EnvironmentFailure, match=r"the fault 'late' \(lossy\) cannot be made"):
        refuse_unavailable(resolve(parse_plan(PLAN)), One(old))


def test_what_can_be_made_is_not_refused() -> None:
    refuse_unavailable(
        resolve(parse_plan(PLAN)), One(DryRunNode("b1", frozenset({"broker"}), "198.18.0.11"))
    )

"""What is allowed in a plan but probably not intended.

Imports nothing that only runs need: `ackloss plan validate` takes as long as its imports."""

from __future__ import annotations

from itertools import chain

from harness.plan import Plan
from harness.protocols import Warns
from harness.run.resolving import ResolvedPlan


def warnings(resolved: ResolvedPlan) -> list[str]:
    """What is allowed but probably not intended."""
    plan, notes = resolved.plan, [f"forced: {each}" for each in resolved.unsupported]
    load = plan.workload
    if isinstance(resolved.target, Warns):
        of_cells = [resolved.target.warnings(each.plan) for each in resolved.cells]
        notes += dict.fromkeys(chain.from_iterable(of_cells or [resolved.target.warnings(plan)]))
    longest_s = _longest_s(plan)
    if longest_s > load.duration_s:
        notes.append(
            f"workload.duration_s: the schedule may take {longest_s:g} s if every wait runs out, "
            f"the workload lasts {load.duration_s:g} s: later steps would be left out"
        )
    return notes


def _longest_s(plan: Plan) -> float:
    longest_s = 0.0
    for step in plan.faults:
        longest_s = max(longest_s, step.at_s or 0.0)
        longest_s += (step.within_s if step.when else 0.0) + step.after_s
    return longest_s

"""What is allowed in a plan but probably not intended.

Imports nothing that only runs need: `ackloss plan validate` takes as long as its imports."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from harness.plan import Plan
from harness.protocols import Nemesis, Warns
from harness.run.resolving import ResolvedPlan
from harness.run.resolving_faults import Here
from harness.wrong_values import dotted


def warnings(resolved: ResolvedPlan) -> list[str]:
    """What is allowed but probably not intended."""
    plan, notes = resolved.plan, [f"forced: {each}" for each in resolved.unsupported]
    load = plan.workload
    if isinstance(resolved.target, Warns):
        of_cells = [resolved.target.warnings(each.plan) for each in resolved.cells]
        notes += dict.fromkeys(chain.from_iterable(of_cells or [resolved.target.warnings(plan)]))
    notes += chain(_unhealed(resolved), _of_nemeses(resolved))
    longest_s = _longest_s(plan)
    if longest_s > load.duration_s:
        notes.append(
            f"workload.duration_s: the schedule may take {longest_s:g} s if every wait runs out, "
            f"the workload lasts {load.duration_s:g} s: later steps would be left out"
        )
    return notes


def _unhealed(resolved: ResolvedPlan) -> Iterator[str]:
    """Faults that nobody heals before the load ends."""
    duration_s, steps = resolved.plan.workload.duration_s, resolved.steps
    for place, each in enumerate(steps):
        step, nemesis = each.step, each.nemesis
        if nemesis is None or not nemesis.lasts or step.for_s is not None:
            continue
        limit = nemesis.limit if isinstance(nemesis, Nemesis) else None
        heals = (later.step.heal or [] for later in steps[place + 1 :])
        if (limit and limit[1] < duration_s) or any(h == "all" or step.id in h for h in heals):
            continue
        yield (
            f"{dotted(('faults', step.id))}: nothing heals it before the load ends, when ackloss "
            "heals all faults: add for_s, or a later step with heal"
        )


def _of_nemeses(resolved: ResolvedPlan) -> Iterator[str]:
    """What nemeses know of the nodes that they will meet."""
    plans = tuple(cell.plan for cell in resolved.cells) or (resolved.plan,)
    here = Here(resolved.plan, resolved.target, resolved.provider, plans)
    for each in resolved.steps if here.knows_nodes else ():
        if isinstance(each.nemesis, Nemesis):
            for sentence in here.trial.warnings(each.step.nodes, each.nemesis):
                yield f"{dotted(('faults', each.step.id))}: {sentence}"


def _longest_s(plan: Plan) -> float:
    longest_s = 0.0
    for step in plan.faults:
        longest_s = max(longest_s, step.at_s or 0.0)
        longest_s += (step.within_s if step.when else 0.0) + step.after_s
    return longest_s

"""A plan with its plug-ins found and their options validated: all that can be refused, refused."""

from __future__ import annotations

import random
from dataclasses import dataclass

from harness import registry
from harness.clusters.offers import OFFERED
from harness.errors import PlanError
from harness.faults import conditions, selectors
from harness.faults.availability import missing_levers
from harness.plan import Family, FaultStep, Plan
from harness.protocols import HasLevers, Limited, Nemesis, Target, Unsupported, Workload
from harness.protocols.crashes import ClientNemesis, KnowsCrashes, client_names
from harness.run.schedule import ResolvedStep


@dataclass(frozen=True, kw_only=True)
class ResolvedPlan:
    """A plan and what its names stand for. `unsupported`: what it asks for in vain, to be refused
    (`refuse_unsupported`) or forced by whoever plays it."""

    plan: Plan
    target: Target
    workload: Workload
    steps: tuple[ResolvedStep, ...]
    unsupported: tuple[Unsupported, ...] = ()


def resolve(plan: Plan, *, file: str = "plan") -> ResolvedPlan:
    """Find every plug-in that the plan names. Raises PlanError."""
    target: Target = registry.make(
        "targets", plan.target.system, {}, key="target.system", file=file
    )
    workload: Workload = registry.make(
        "workloads", plan.workload.name, plan.workload.options, key="workload.name", file=file
    )
    for place, name in enumerate(plan.checks):
        registry.make("checkers", name, {}, key=f"checks.{place}", file=file)
    try:
        target.check(plan)
        steps = tuple(
            _resolve_step(plan, place, step, target) for place, step in enumerate(plan.faults)
        )
        _check_same(plan)
    except PlanError as error:
        error.file = error.file or file
        raise
    in_vain = tuple(target.unsupported(plan)) if isinstance(target, Limited) else ()
    return ResolvedPlan(
        plan=plan, target=target, workload=workload, steps=steps, unsupported=in_vain
    )


def refuse_unsupported(bound: ResolvedPlan, *, file: str, force: bool = False) -> None:
    """Raise PlanError for what the plan asks of a version that does not honour it; with `force`
    only for what cannot be played at all."""
    refused = [each for each in bound.unsupported if not (force and each.forcible)]
    if not refused:
        return
    first, *others = refused
    hint = "change it"
    if all(each.forcible for each in refused):
        hint = "leave it out, or play it all the same with --force"
    if others:
        hint += f" (and {len(others)} more: {', '.join(each.key for each in others)})"
    raise PlanError(f"{first.what} ({first.source})", file=file, key=first.key, hint=hint)


def _resolve_step(plan: Plan, place: int, step: FaultStep, target: Target) -> ResolvedStep:
    where = f"faults.{place}"
    condition = None
    if step.when is not None:
        condition = conditions.parse(step.when, key=f"{where}.when")
    if step.nemesis is None:
        return ResolvedStep(step=step, condition=condition, nemesis=None)
    selectors.check(step.nodes, key=f"{where}.nodes")
    nemesis: Nemesis | ClientNemesis = registry.make(
        "nemeses", step.nemesis, step.options, key=f"{where}.nemesis"
    )
    if isinstance(nemesis, ClientNemesis):
        _check_clients(plan, step, nemesis, target, where)
    else:
        _check_levers(plan, step, nemesis, target, where)
    return ResolvedStep(step=step, condition=condition, nemesis=nemesis)


def _check_levers(
    plan: Plan, step: FaultStep, nemesis: Nemesis, target: Target, where: str
) -> None:
    """The cluster offers every lever that the fault needs, or else the target has it."""
    own = target.own_levers if isinstance(target, HasLevers) else frozenset()
    kind = plan.cluster.kind
    offered = [*OFFERED.get(kind, ()), *own]
    if missing := missing_levers(nemesis, offered):
        raise PlanError(
            f"{step.nemesis} needs the lever {missing[0]!r}, which neither a cluster of kind "
            f"{kind!r} nor {target.plugin} offers",
            key=f"{where}.nemesis",
            hint=f"the levers here are {', '.join(offered) or 'none'}",
        )


def _check_clients(
    plan: Plan, step: FaultStep, nemesis: ClientNemesis, target: Target, where: str
) -> None:
    """The clients are there and can crash, and no nodes are named that it would not meet."""
    if isinstance(target, KnowsCrashes) and (why := target.why_no_crashes(plan)):
        raise PlanError(why, key=f"{where}.nemesis", hint='nemesis = "kill", nodes = "role:client"')
    if step.nodes not in (part.model_fields["nodes"].default for part in (FaultStep, Family)):
        raise PlanError(
            f"{step.nemesis} meets clients, not nodes", key=f"{where}.nodes", hint="leave it out"
        )
    try:
        nemesis.client_acts(client_names(plan), random.Random(plan.seed))
    except ValueError as error:
        raise PlanError(str(error), key=where) from error


def _check_same(plan: Plan) -> None:
    """`same:STEP` names an earlier step that applies a nemesis."""
    earlier: set[str] = set()
    for place, step in enumerate(plan.faults):
        for name in selectors.earlier_steps(step.nodes):
            if name not in earlier:
                raise PlanError(f"no earlier fault is named {name!r}", key=f"faults.{place}.nodes")
        if step.nemesis is not None:
            earlier.add(step.id)

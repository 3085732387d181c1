"""A plan with its plug-ins found and their options validated: all that can be refused, refused."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness import registry
from harness.errors import PlanError
from harness.faults import conditions, selectors
from harness.faults.availability import missing_levers
from harness.models import MODELS
from harness.plan import Family, FaultStep, Plan
from harness.protocols import (
    Checker,
    HasLevers,
    HasSelectors,
    Limited,
    Needs,
    Nemesis,
    Order,
    Provider,
    Target,
    Unsupported,
    Workload,
    vocabulary_of,
)
from harness.protocols.crashes import ClientNemesis, KnowsCrashes, client_names
from harness.run.schedule import ResolvedStep


@dataclass(frozen=True, kw_only=True)
class ResolvedPlan:
    """A plan and what its names stand for. `unsupported`: what it asks for in vain, to be refused
    (`refuse_unsupported`) or forced by whoever plays it."""

    plan: Plan
    target: Target[Any]
    workload: Workload
    provider: Provider
    steps: tuple[ResolvedStep, ...]
    unsupported: tuple[Unsupported, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        """What the faults need of nodes from their start, by name."""
        return needs_of(step.nemesis for step in self.steps)

    @property
    def order(self) -> Order:
        """What a cluster is made for."""
        return Order(plan=self.plan, target=self.target, needs=self.needs)


def resolve(plan: Plan, *, file: str = "plan") -> ResolvedPlan:
    """Find every plug-in that the plan names. Raises PlanError."""
    target: Target[Any] = registry.make(
        "targets", plan.target.system, {}, key="target.system", file=file
    )
    registry.check_name("workloads", plan.workload.name, key="workload.name", file=file)
    workload: Workload = registry.make(
        "workloads",
        plan.workload.name,
        plan.workload.options,
        key="workload.options.name",
        file=file,
    )
    provider: Provider = registry.make(
        "clusters", plan.cluster.kind, plan.cluster.options, key="cluster.kind", file=file
    )
    try:
        _check_cluster(target, provider)
        _check_model(target, workload)
        _check_checks(plan, workload)
        target.check(plan)
        _check_mix(plan, target)
        steps = tuple(
            _resolve_step(plan, place, step, target, provider)
            for place, step in enumerate(plan.faults)
        )
        _check_same(plan)
    except PlanError as error:
        error.file = error.file or file
        raise
    in_vain = tuple(target.unsupported(plan)) if isinstance(target, Limited) else ()
    return ResolvedPlan(
        plan=plan,
        target=target,
        workload=workload,
        provider=provider,
        steps=steps,
        unsupported=in_vain,
    )


def needs_of(nemeses: Iterable[object]) -> frozenset[str]:
    """All that these nemeses need of nodes from their start, by name."""
    return frozenset().union(*(n.needs for n in nemeses if isinstance(n, Needs)))


def _check_cluster(target: Target[Any], provider: Provider) -> None:
    """Refuse a target that cannot run on this kind of cluster."""
    if provider.runs(type(target)):
        return
    kinds = [
        kind
        for kind in registry.usable("clusters")
        if registry.make("clusters", kind, {}, key="cluster.kind").runs(type(target))
    ]
    raise PlanError(
        f"{target.plugin} cannot run on a cluster of kind {provider.plugin!r}",
        key="cluster.kind",
        hint=f"it can on: {', '.join(kinds) or 'none'}",
    )


def _check_model(target: Target[Any], workload: Workload) -> None:
    """Refuse a workload whose operations the target does not serve."""
    if workload.model not in target.models:
        served = ", ".join(sorted(target.models))
        raise PlanError(
            f"{workload.plugin} makes operations of the model {workload.model!r}, which "
            f"{target.plugin} does not serve",
            key="workload.name",
            hint=f"{target.plugin} serves: {served}",
        )


def _check_checks(plan: Plan, workload: Workload) -> None:
    """Refuse a checker that is not known, named twice, or does not judge the workload's model."""
    seen: set[str] = set()
    for place, check in enumerate(plan.checks):
        name, options = (check, {}) if isinstance(check, str) else (check.name, check.options)
        key = f"checks.{place}"
        checker: Checker[Any, Any] = registry.make("checkers", name, options, key=key)
        if workload.model not in checker.models:
            raise PlanError(
                f"{name} does not judge operations of the model {workload.model!r}",
                key=key,
                hint=f"{MODELS[workload.model].check} does",
            )
        if name in seen:
            raise PlanError(f"{name!r} is named twice", key=key, hint="name it once")
        seen.add(name)


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


def _resolve_step(
    plan: Plan, place: int, step: FaultStep, target: Target[Any], provider: Provider
) -> ResolvedStep:
    where = f"faults.{place}"
    condition = None
    if step.when is not None:
        condition = conditions.parse(step.when, vocabulary_of(target), key=f"{where}.when")
    if step.nemesis is None:
        return ResolvedStep(step=step, condition=condition, nemesis=None)
    nemesis = _nemesis(step.nemesis, step.nodes, step.options, target, where)
    if isinstance(nemesis, ClientNemesis):
        _check_clients(plan, step, nemesis, target, where)
    else:
        _check_levers(step, nemesis, target, provider, where)
    return ResolvedStep(step=step, condition=condition, nemesis=nemesis)


def _nemesis(
    name: str, nodes: str, options: Mapping[str, Any], target: Target[Any], where: str
) -> Nemesis | ClientNemesis:
    """A nemesis with its options; all selectors are in the words of the target."""
    nemesis: Nemesis | ClientNemesis = registry.make(
        "nemeses", name, options, key=f"{where}.nemesis"
    )
    if isinstance(nemesis, ClientNemesis):
        return nemesis  # it meets clients, whatever the default of `nodes`
    words = vocabulary_of(target)
    selectors.check(nodes, words, key=f"{where}.nodes")
    if isinstance(nemesis, HasSelectors):
        for key, text in nemesis.selectors.items():
            selectors.check(text, words, key=f"{where}.{key}")
    return nemesis


def _check_mix(plan: Plan, target: Target[Any]) -> None:
    """Refuse a family of the mix that cannot be, also where this seed never draws it."""
    for place, family in enumerate(plan.mix.families if plan.mix else ()):
        _nemesis(family.nemesis, family.nodes, family.options, target, f"mix.families.{place}")


def _check_levers(
    step: FaultStep, nemesis: Nemesis, target: Target[Any], provider: Provider, where: str
) -> None:
    """The cluster offers every lever that the fault needs, or else the target has it."""
    own = target.own_levers if isinstance(target, HasLevers) else frozenset()
    offered = [*provider.levers, *own]
    if missing := missing_levers(nemesis, offered):
        raise PlanError(
            f"{step.nemesis} needs the lever {missing[0]!r}, which neither a cluster of kind "
            f"{provider.plugin!r} nor {target.plugin} offers",
            key=f"{where}.nemesis",
            hint=f"the levers here are {', '.join(offered) or 'none'}",
        )


def _check_clients(
    plan: Plan, step: FaultStep, nemesis: ClientNemesis, target: Target[Any], where: str
) -> None:
    """The clients are there and can crash, and no nodes are named that it would not meet."""
    if isinstance(target, KnowsCrashes) and (why := target.why_no_crashes(plan)):
        raise PlanError(why, key=f"{where}.nemesis", hint="choose another nemesis, such as kill")
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

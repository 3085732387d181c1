"""The faults of a plan with their nemeses found: selectors and conditions are in the words of the
target, the cluster offers their levers, and no step meets what is not there."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness import registry
from harness.errors import Mistakes, PlanError
from harness.faults import conditions, selectors
from harness.faults.acts import missing_levers, required
from harness.faults.records import NetRecord, ShapingRecord
from harness.levers.manual import ManualLever
from harness.models import GROUP
from harness.plan import Family, FaultStep, Plan
from harness.protocols import (
    HasLevers,
    Nemesis,
    Order,
    Provider,
    TakesClusterFile,
    TakesInventory,
    Target,
    vocabulary_of,
)
from harness.protocols.crashes import CONSUMERS, ClientNemesis, KnowsCrashes, names_met
from harness.run.cells import CellPlan
from harness.run.schedule import ResolvedStep
from harness.run.vacuous import Trial
from harness.wrong_values import dotted


def resolved_steps(
    plan: Plan, target: Target[Any], provider: Provider, cells: Sequence[CellPlan] = ()
) -> tuple[ResolvedStep, ...]:
    """The scripted faults of a plan; those of its mix are checked too. Raises PlanError, with the
    key of what is wrong."""
    here = Here(plan, target, provider, tuple(cell.plan for cell in cells) or (plan,))
    mistakes, steps = Mistakes(), []
    _check_mix(here, mistakes)
    for step in plan.faults:
        with mistakes.noted():
            steps.append(_resolve_step(here, dotted(("faults", step.id)), step))
    mistakes.refuse()
    _check_same(steps)
    return tuple(steps)


@dataclass(frozen=True)
class Here:
    """What the steps of a plan are checked against."""

    plan: Plan
    target: Target[Any]
    provider: Provider
    plans: tuple[Plan, ...]

    @cached_property
    def trial(self) -> Trial:
        """The nodes that would start, on which faults are tried."""
        outline = self.provider.outline(Order(plan=self.plan, target=self.target))
        return Trial(outline, self.plans, vocabulary_of(self.target))

    @property
    def roles(self) -> selectors.Roles:
        """The nodes that would start."""
        return {node.name: node.roles for node in self.trial.outline}

    @property
    def knows_nodes(self) -> bool:
        """Whether the nodes are known before the cluster is queried."""
        return not isinstance(self.provider, TakesClusterFile) and (
            not isinstance(self.provider, TakesInventory) or self.provider.inventory is not None
        )

    def check_selector(self, text: str, *, key: str) -> None:
        """Refuse words that the target does not have, and names that the cluster does not have, as
        far as its nodes are known."""
        selectors.check(text, vocabulary_of(self.target), key=key)
        if self.knows_nodes:
            selectors.check_names(text, lambda: self.roles, key=key)


def _resolve_step(here: Here, where: str, step: FaultStep) -> ResolvedStep:
    condition, words = None, vocabulary_of(here.target)
    if step.when is not None:
        condition = conditions.parse(step.when, words, key=f"{where}.when")
        _check_condition(condition, here, where)
    if step.nemesis is None:
        return ResolvedStep(step=step, condition=condition, nemesis=None)
    nemesis = _nemesis(step.nemesis, step.nodes, step.options, here, where)
    if isinstance(nemesis, ClientNemesis):
        _check_clients(here.plan, step, nemesis, here.target, where)
    _check_limit(step, nemesis, where)
    return ResolvedStep(step=step, condition=condition, nemesis=nemesis)


def _nemesis(
    name: str, nodes: str, options: Mapping[str, Any], here: Here, where: str
) -> Nemesis | ClientNemesis:
    """A nemesis with its options; all selectors are in the words of the target, and name what the
    cluster has."""
    nemesis: Nemesis | ClientNemesis = registry.make(
        "nemeses", name, options, key=f"{where}.nemesis"
    )
    if isinstance(nemesis, ClientNemesis):
        return nemesis  # it meets clients, whatever the default of `nodes`
    _check_levers(name, nemesis, here, where)
    here.check_selector(nodes, key=f"{where}.nodes")
    for key, text in nemesis.selectors.items():
        here.check_selector(text, key=f"{where}.{key}")
    _check_gateways(nodes, nemesis, here, where)
    if here.knows_nodes:
        here.trial.check(nodes, nemesis, where=where)
    return nemesis


def _check_condition(condition: conditions.Condition, here: Here, where: str) -> None:
    """It can hold, in a cell at least."""
    partitions = max(plan.partitions for plan in here.plans)
    replicas = max(plan.replicas for plan in here.plans)
    if why := condition.why_never(partitions, replicas):
        raise PlanError(f"{condition.text!r} never holds: {why}", key=f"{where}.when")


def _check_limit(step: FaultStep, nemesis: Nemesis | ClientNemesis, where: str) -> None:
    """A fault that ends by itself is in force until it is healed, or is not proven."""
    limit = nemesis.limit if isinstance(nemesis, Nemesis) else None
    if limit is None or step.for_s is None or limit[1] > step.for_s:
        return
    raise PlanError(
        f"{step.nemesis} ends by itself after {limit[1]:g} s, before it is healed: for_s is "
        f"{step.for_s:g}",
        key=f"{where}.{limit[0]}",
        hint="use a longer one, or a shorter for_s",
    )


def _check_mix(here: Here, mistakes: Mistakes) -> None:
    """Refuse a family of the mix that cannot be, also where this seed never draws it."""
    mix = here.plan.mix
    for place, family in enumerate(mix.families if mix else ()):
        with mistakes.noted():
            _nemesis(family.nemesis, family.nodes, family.options, here, f"mix.families.{place}")


def _check_levers(name: str, nemesis: Nemesis, here: Here, where: str) -> None:
    """The cluster offers every lever that the fault needs, or else the target has it."""
    target, provider = here.target, here.provider
    own = target.own_levers if isinstance(target, HasLevers) else frozenset()
    offered = [*provider.levers, *sorted(own)]
    if not provider.simulated:
        offered.append(ManualLever.name)
    if missing := missing_levers(nemesis, offered):
        if isinstance(provider, TakesClusterFile):
            raise PlanError(
                f"{name} cannot be made: {provider.why_no_lever(missing[0])}",
                key=f"{where}.nemesis",
                hint='have an operator cause it, nemesis = "manual", or leave it out',
            )
        raise PlanError(
            f"{name} needs the lever {missing[0]!r}, which neither a cluster of kind "
            f"{provider.plugin!r} nor {target.plugin} offers",
            key=f"{where}.nemesis",
            hint=f"the levers here are {', '.join(offered) or 'none'}",
        )


def _check_gateways(nodes: str, nemesis: Nemesis, here: Here, where: str) -> None:
    """No fault of the network may meet a node through whose host another one is reached."""
    kinds = {type(act.record) for act in required(nemesis, "any")}
    if not kinds & {NetRecord, ShapingRecord} or not isinstance(here.provider, TakesInventory):
        return
    gateways = here.provider.gateways(Order(plan=here.plan, target=here.target))
    met_by = {"nodes": nodes}
    if NetRecord in kinds:
        met_by |= nemesis.selectors  # a form of a cut may put its rules at either end
    for key, text in met_by.items() if gateways else ():
        if met := sorted(gateways & selectors.possible(text, here.roles)):
            raise PlanError(
                f"{text!r} may be {met[0]}, whose host is the jump host of others: a fault of its "
                f"network would cut us off from them",
                key=f"{where}.{key}",
                hint=f"name other nodes, or another jump host in {here.provider.inventory}",
            )


def _check_clients(
    plan: Plan, step: FaultStep, nemesis: ClientNemesis, target: Target[Any], where: str
) -> None:
    """What it affects exists, and no nodes are named that it would not affect."""
    if nemesis.meets == CONSUMERS:
        _check_consumers(plan, step, where)
    elif plan.cells:
        raise PlanError(
            "no cell's clients can crash by themselves: a fault meets all cells alike",
            key=f"{where}.nemesis",
            hint="choose another nemesis, or leave out cells",
        )
    elif isinstance(target, KnowsCrashes) and (why := target.why_no_crashes(plan)):
        raise PlanError(why, key=f"{where}.nemesis", hint="choose another nemesis, such as kill")
    if step.nodes not in (part.model_fields["nodes"].default for part in (FaultStep, Family)):
        raise PlanError(
            f"{step.nemesis} meets {nemesis.meets}, not nodes",
            key=f"{where}.nodes",
            hint="leave it out",
        )
    try:
        nemesis.client_acts(names_met(nemesis, plan), random.Random(plan.seed))
    except ValueError as error:
        raise PlanError(str(error), key=where) from error


def _check_consumers(plan: Plan, step: FaultStep, where: str) -> None:
    """The workload has a group, of as many consumers in each cell."""
    workload = registry.plugins("workloads").get(plan.workload.name)
    if workload is not None and workload.model != GROUP.name:
        raise PlanError(
            f"{step.nemesis} meets the consumers of a group, and {plan.workload.name} has none",
            key=f"{where}.nemesis",
            hint='use workload.name = "consume", or another nemesis',
        )


def _check_same(steps: Sequence[ResolvedStep]) -> None:
    """`same:STEP` names an earlier step that applies a nemesis."""
    earlier: set[str] = set()
    for resolved in steps:
        step, nemesis = resolved.step, resolved.nemesis
        further: Mapping[str, str] = nemesis.selectors if isinstance(nemesis, Nemesis) else {}
        for key, text in {"nodes": step.nodes, **further}.items():
            for name in selectors.earlier_steps(text):
                if name not in earlier:
                    raise PlanError(
                        f"no earlier fault is named {name!r}",
                        key=dotted(("faults", step.id, key)),
                        hint=f"there are: {', '.join(sorted(earlier)) or 'none'}",
                    )
        if nemesis is not None:
            earlier.add(step.id)

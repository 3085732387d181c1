"""A plan with its plug-ins found and their options validated: all that can be refused, refused."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from harness import registry
from harness.errors import PlanError
from harness.faults import conditions, selectors
from harness.faults.acts import required
from harness.faults.availability import missing_levers
from harness.faults.records import NetRecord, ShapingRecord
from harness.levers.manual import ManualLever, Operator
from harness.models import GROUP, MODELS
from harness.plan import Family, FaultStep, Plan
from harness.protocols import (
    Checker,
    HasLevers,
    HasSelectors,
    Needs,
    Nemesis,
    Order,
    Provider,
    TakesClusterFile,
    TakesInventory,
    Target,
    Unsupported,
    Workload,
    vocabulary_of,
)
from harness.protocols.any_client import EXEC, HasLibraries, ServesAnyClient
from harness.protocols.crashes import CONSUMERS, ClientNemesis, KnowsCrashes, names_met
from harness.run.cells import CellPlan, asked_in_vain, cell_plans, checked_cells
from harness.run.client_process import ClientCommand
from harness.run.elsewhere import Place
from harness.run.schedule import ResolvedStep
from harness.run.workload import workload_of


@dataclass(frozen=True, kw_only=True)
class ResolvedPlan:
    """A plan and what its names stand for. `unsupported`: what it asks for in vain, to be refused
    (`refuse_unsupported`) or forced by whoever plays it. `client`: the command of the user's own
    clients (`with_client`), `operator`: who makes faults by hand (`with_operator`); no plan holds
    them."""

    plan: Plan
    target: Target[Any]
    workload: Workload
    provider: Provider
    steps: tuple[ResolvedStep, ...]
    unsupported: tuple[Unsupported, ...] = ()
    client: ClientCommand | None = None
    operator: Operator | None = None

    @property
    def needs(self) -> frozenset[str]:
        """What the faults need of nodes from their start, by name."""
        return needs_of(step.nemesis for step in self.steps)

    @property
    def order(self) -> Order:
        """What a cluster is made for."""
        return Order(plan=self.plan, target=self.target, needs=self.needs)

    @cached_property
    def cells(self) -> tuple[CellPlan, ...]:
        """The cells of the run, each with its own plan; none where the plan has none."""
        return cell_plans(self.plan, self.target)


def resolve(
    plan: Plan, *, file: str = "plan", inventory: Path | None = None, place: Place | None = None
) -> ResolvedPlan:
    """Find every plug-in that the plan names; with an inventory, its cluster is on the hosts of
    that file, with a place its target and kind of cluster are those of the place. Raises
    PlanError."""
    target: Target[Any] = (
        place.target
        if place is not None
        else registry.make("targets", plan.target.system, {}, key="target.system", file=file)
    )
    workload = workload_of(plan, file=file)
    provider = _provider(plan, inventory, place, file)
    try:
        _check_cluster(target, provider)
        _check_model(target, workload)
        _check_checks(plan, workload)
        _check_client(plan, target)
        target.check(plan)
        cells = checked_cells(plan, target)
        here = _Here(plan, target, provider)
        _check_mix(here)
        steps = tuple(_resolve_step(here, place, step) for place, step in enumerate(plan.faults))
        _check_same(steps)
    except PlanError as error:
        error.file = error.file or file
        raise
    in_vain = asked_in_vain(plan, cells, target)
    return ResolvedPlan(
        plan=plan,
        target=target,
        workload=workload,
        provider=provider,
        steps=steps,
        unsupported=in_vain,
    )


def _provider(plan: Plan, inventory: Path | None, place: Place | None, file: str) -> Provider:
    """The kind of cluster: what the command line names, else the plan's."""
    if place is not None:
        return place.provider
    if inventory is not None:
        return hosts_provider(inventory)
    made: Provider = registry.make(
        "clusters", plan.cluster.kind, plan.cluster.options, key="cluster.kind", file=file
    )
    return made


@dataclass(frozen=True)
class _Here:
    """What the steps of a plan are checked against."""

    plan: Plan
    target: Target[Any]
    provider: Provider

    @cached_property
    def roles(self) -> selectors.Roles:
        """The nodes that would start."""
        outline = self.provider.outline(Order(plan=self.plan, target=self.target))
        return {node.name: node.roles for node in outline}

    def check_selector(self, text: str, *, key: str) -> None:
        """Refuse words that the target does not have, and names that the cluster does not have, as
        far as its nodes are known."""
        selectors.check(text, vocabulary_of(self.target), key=key)
        if not isinstance(self.provider, TakesClusterFile) and (
            not isinstance(self.provider, TakesInventory) or self.provider.inventory is not None
        ):
            selectors.check_names(text, lambda: self.roles, key=key)


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


def _check_client(plan: Plan, target: Target[Any]) -> None:
    """Refuse a client that the target does not have."""
    name = plan.workload.client
    serves = isinstance(target, ServesAnyClient)
    libraries = target.libraries if isinstance(target, HasLibraries) else ()
    known = [*libraries, *([EXEC] if serves else [])]
    if name is not None and name not in known:
        raise PlanError(
            f"{target.plugin} has no client {name!r}",
            key="workload.client",
            hint=f"there are: {', '.join(known)}" if known else "leave it out",
        )


HOSTS: Final = "ssh"
"""The kind of cluster that an inventory means."""


def hosts_provider(inventory: Path) -> Provider:
    """The kind of cluster that is on the hosts of an inventory. Raises PlanError."""
    kind = registry.make("clusters", HOSTS, {}, key="--inventory")
    assert isinstance(kind, TakesInventory)
    return kind.with_inventory(inventory)


def with_client(
    bound: ResolvedPlan, command: ClientCommand | None, *, file: str = "plan"
) -> ResolvedPlan:
    """The plan with the command of its clients. Raises PlanError where one is missing, or is given
    and not used."""
    name = bound.plan.workload.client
    if name == EXEC and command is None:
        raise PlanError(
            f"the client {EXEC!r} is a command of yours",
            file=file,
            key="workload.client",
            hint="name it with --client CMD",
        )
    if name != EXEC and command is not None:
        raise PlanError(
            f"--client is given, but the plan's client is {name or 'the first of its system'}",
            file=file,
            key="workload.client",
            hint=f"--set workload.client={EXEC}",
        )
    return replace(bound, client=command)


def _check_checks(plan: Plan, workload: Workload) -> None:
    """Refuse a checker that is not known, named twice, or does not judge the workload's model."""
    seen: set[str] = set()
    for place, check in enumerate(plan.checks):
        name, options = (check, {}) if isinstance(check, str) else (check.name, check.options)
        key = f"checks.{place}"
        at = key if isinstance(check, str) else f"{key}.name"
        checker: Checker[Any, Any] = registry.make("checkers", name, options, key=at)
        if workload.model not in checker.models:
            raise PlanError(
                f"{name} does not judge operations of the model {workload.model!r}",
                key=key,
                hint=f"these do: {', '.join(_judges_of(workload.model))}",
            )
        if name in seen:
            raise PlanError(f"{name!r} is named twice", key=key, hint="name it once")
        seen.add(name)


def _judges_of(model: str) -> list[str]:
    """The checkers that judge operations of a model, its default first."""
    default = MODELS[model].check
    names = registry.usable("checkers")
    others = [name for name in names if model in registry.plugins("checkers")[name].models]
    return [default, *(name for name in others if name != default)]


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


def _resolve_step(here: _Here, place: int, step: FaultStep) -> ResolvedStep:
    where, words = f"faults.{place}", vocabulary_of(here.target)
    condition = None
    if step.when is not None:
        condition = conditions.parse(step.when, words, key=f"{where}.when")
    if step.nemesis is None:
        return ResolvedStep(step=step, condition=condition, nemesis=None)
    nemesis = _nemesis(step.nemesis, step.nodes, step.options, here, where)
    if isinstance(nemesis, ClientNemesis):
        _check_clients(here.plan, step, nemesis, here.target, where)
    return ResolvedStep(step=step, condition=condition, nemesis=nemesis)


def _nemesis(
    name: str, nodes: str, options: Mapping[str, Any], here: _Here, where: str
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
    if isinstance(nemesis, HasSelectors):
        for key, text in nemesis.selectors.items():
            here.check_selector(text, key=f"{where}.{key}")
    _check_gateways(nodes, nemesis, here, where)
    return nemesis


def _check_mix(here: _Here) -> None:
    """Refuse a family of the mix that cannot be, also where this seed never draws it."""
    mix = here.plan.mix
    for place, family in enumerate(mix.families if mix else ()):
        _nemesis(family.nemesis, family.nodes, family.options, here, f"mix.families.{place}")


def _check_levers(name: str, nemesis: Nemesis, here: _Here, where: str) -> None:
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
                hint='have a person make it, nemesis = "manual", or leave it out',
            )
        raise PlanError(
            f"{name} needs the lever {missing[0]!r}, which neither a cluster of kind "
            f"{provider.plugin!r} nor {target.plugin} offers",
            key=f"{where}.nemesis",
            hint=f"the levers here are {', '.join(offered) or 'none'}",
        )


def _check_gateways(nodes: str, nemesis: Nemesis, here: _Here, where: str) -> None:
    """No fault of the network may meet a node through whose host another one is reached."""
    kinds = {type(act.record) for act in required(nemesis, "any")}
    if not kinds & {NetRecord, ShapingRecord} or not isinstance(here.provider, TakesInventory):
        return
    gateways = here.provider.gateways(Order(plan=here.plan, target=here.target))
    met_by = {"nodes": nodes}
    if NetRecord in kinds and isinstance(nemesis, HasSelectors):
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
    """Whom it meets is there, and no nodes are named that it would not meet."""
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
    workload = registry.plugins("workloads")[plan.workload.name]
    if workload.model != GROUP.name:
        raise PlanError(
            f"{step.nemesis} meets the consumers of a group, and {plan.workload.name} has none",
            key=f"{where}.nemesis",
            hint='use workload.name = "consume", or another nemesis',
        )


def _check_same(steps: Sequence[ResolvedStep]) -> None:
    """`same:STEP` names an earlier step that applies a nemesis."""
    earlier: set[str] = set()
    for place, resolved in enumerate(steps):
        step, nemesis = resolved.step, resolved.nemesis
        further: Mapping[str, str] = nemesis.selectors if isinstance(nemesis, HasSelectors) else {}
        for key, text in {"nodes": step.nodes, **further}.items():
            for name in selectors.earlier_steps(text):
                if name not in earlier:
                    raise PlanError(
                        f"no earlier fault is named {name!r}",
                        key=f"faults.{place}.{key}",
                        hint=f"there are: {', '.join(sorted(earlier)) or 'none'}",
                    )
        if nemesis is not None:
            earlier.add(step.id)

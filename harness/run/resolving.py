"""A plan with its plug-ins found and their options validated: everything that can be refused is
refused here, all mistakes at once. `resolve` goes this way:

    target -> workload, checks -> client -> kind of cluster -> the target's own sections -> cells
    -> faults: nemeses, and their selectors and levers, against the PlannedCluster -> ResolvedPlan
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

from harness import registry
from harness.clusters.external import kind_in
from harness.errors import Mistakes, PlanError, nearest
from harness.faults import selectors
from harness.faults.injection import missing_levers
from harness.faults.records import NetRecord, ProgramRecord, ShapingRecord
from harness.levers.manual import ManualLever, Operator
from harness.models import GROUP, MODELS
from harness.plan import Family, FaultStep, Plan
from harness.plan.model import Check
from harness.protocols import (
    CLIENT_ROLE,
    Checker,
    Nemesis,
    Node,
    NodeOutline,
    Order,
    PartitionView,
    Provider,
    Select,
    Situation,
    Target,
    Unsupported,
    Vocabulary,
    Workload,
)
from harness.protocols.faults import CONSUMERS, Choice, ClientNemesis, names_met
from harness.protocols.systems import EXEC
from harness.run.cells import CellPlan, asked_in_vain, cell_plans, checked_cells, workload_of
from harness.run.client_process import Argv
from harness.wrong_values import dotted


@dataclass(frozen=True, kw_only=True)
class ResolvedStep:
    """A step of the plan with its nemesis (None: it heals) and its parsed condition."""

    step: FaultStep
    condition: selectors.Condition | None
    nemesis: Nemesis | None


def is_permanent(nemesis: Nemesis | None) -> bool:
    """Whether nothing undoes what it does."""
    acts = nemesis.requires("any") if nemesis is not None else []
    return any(act.record.permanent for act in acts)


def resolved_steps(
    plan: Plan, target: Target[Any], provider: Provider, cells: Sequence[CellPlan]
) -> tuple[ResolvedStep, ...]:
    """The scripted faults of a plan; those of its mix are checked too: words, levers, and that none
    meets what is not there. Raises PlanError, with the key of what is wrong."""
    planned = PlannedCluster(plan, target, provider, cells)
    mistakes, steps = Mistakes(), []
    for place, family in enumerate(plan.mix.families if plan.mix else ()):
        with mistakes.noted():  # also one that this seed never draws
            _nemesis(family.nemesis, family.nodes, family.options, planned, f"mix.families.{place}")
    for step in plan.faults:
        with mistakes.noted():
            steps.append(_resolve_step(planned, dotted(("faults", step.id)), step))
        with mistakes.noted():
            _check_permanent(steps, step)
    mistakes.refuse()
    _check_same(steps)
    return tuple(steps)


@dataclass(frozen=True)
class PlannedCluster:
    """The cluster that a plan would start, against which its faults are checked.

    A selector depends on who leads when the fault begins. So it is tried in situations that differ
    in that: only what meets nothing in any of them is refused. A run would take as long as any
    other and then be `unknown`.
    """

    plan: Plan
    target: Target[Any]
    provider: Provider
    cells: Sequence[CellPlan]

    @cached_property
    def outline(self) -> Sequence[NodeOutline]:
        """The nodes that would start."""
        return self.provider.outline(Order(plan=self.plan, target=self.target))

    @cached_property
    def words(self) -> Vocabulary:
        """The target's words in selectors and conditions."""
        return self.target.vocabulary()

    @property
    def roles(self) -> selectors.Roles:
        """The roles of the nodes that would start, by name."""
        return {node.name: node.roles for node in self.outline}

    @property
    def knows_nodes(self) -> bool:
        """Whether the nodes are known before the cluster is queried."""
        kind = self.provider
        return kind.named_by == "" or (kind.named_by == "inventory" and kind.inventory is not None)

    def check_selector(self, text: str, *, key: str) -> None:
        """Refuse words that the target does not have, and names that the cluster does not have, as
        far as its nodes are known."""
        selectors.check(text, self.words, key=key)
        if self.knows_nodes:
            selectors.check_names(text, lambda: self.roles, key=key)

    def check_effect(self, nodes: str, nemesis: Nemesis, *, where: str) -> None:
        """Refuse a fault that meets nothing, whatever is so when it begins."""
        texts = {"nodes": nodes, **nemesis.selectors}
        if any(map(selectors.earlier_steps, texts.values())):
            return  # what an earlier step has met is known then
        for key, text in texts.items():
            for term in selectors.numbered_terms(text):
                if not any(selectors.select(term, choice) for choice in self.choices()):
                    partitions = max(cell.plan.partitions for cell in self.cells)
                    raise PlanError(
                        f"{term!r} is not a node of this cluster",
                        key=f"{where}.{key}",
                        hint=f"it has {', '.join(self.words.members(self.roles))} and {partitions} "
                        f"partition{'s' if partitions > 1 else ''}",
                    )
        if not any(selectors.select(nodes, choice) for choice in self.choices()):
            raise PlanError(
                f"{nodes!r} is never a node of this cluster",
                key=f"{where}.nodes",
                hint=f"the nodes are {', '.join(self.roles)}",
            )
        if nemesis.selectors and not any(
            self._acts(nodes, nemesis, choice) for choice in self.choices()
        ):
            raise PlanError(
                f"{nemesis.plugin} of {nodes!r} would affect nothing",
                key=f"{where}.nodes",
                hint='name more nodes, such as "all", or other peers',
            )

    def warnings(self, nodes: str, nemesis: Nemesis) -> list[str]:
        """What the nemesis warns of, whatever is so when it begins."""
        if selectors.earlier_steps(nodes):
            return []
        selects = [selecting(self.outline, choice) for choice in self.choices()]
        of_each = [nemesis.warnings(select(nodes), select) for select in selects]
        return of_each[0] if all(of_each) else []

    def _acts(self, nodes: str, nemesis: Nemesis, choice: Choice) -> bool:
        select = selecting(self.outline, choice)
        try:
            return bool(nemesis.acts(select(nodes), select))
        except Exception:  # a plug-in's mistake, which is reported when the fault begins
            return True

    def choices(self) -> Iterator[Choice]:
        """What selectors may depend on: first, that the first node that holds replicas leads."""
        for number, situation in enumerate(self._situations()):
            draw = random.Random(number)
            yield Choice(roles=self.roles, situation=situation, vocabulary=self.words, draw=draw)

    def _situations(self) -> Iterator[Situation]:
        """Each member leads all partitions, with all replicas in sync or alone; or nobody leads."""
        nodes = [name for name, roles in self.roles.items() if CLIENT_ROLE not in roles]
        members = self.words.members(self.roles)
        for cell, place in product(self.cells, range(len(members))):
            led_by, *others = members[place:] + members[:place]
            replicas = (led_by, *others[: cell.plan.replicas - 1])
            for in_sync in (replicas, (led_by,)):
                views = {
                    p: PartitionView(
                        partition=p,
                        leader=led_by,
                        leader_epoch=0,
                        members=in_sync,
                        replicas=replicas,
                    )
                    for p in range(cell.plan.partitions)
                }
                controller = nodes[-1 - place % len(nodes)]
                yield Situation(
                    time_ns=0, partitions=views, coordination=views[0], controller=controller
                )
        yield Situation(time_ns=0)


def selecting(outline: Sequence[NodeOutline], choice: Choice) -> Select:
    """Selects among nodes that have not been started."""
    there = {each.name: cast("Node", each) for each in outline}  # a nemesis knows no more of them

    def select(text: str) -> Sequence[Node]:
        return [there[name] for name in selectors.select(text, choice)]

    return select


def _resolve_step(planned: PlannedCluster, where: str, step: FaultStep) -> ResolvedStep:
    condition = None
    if step.when is not None:
        condition = selectors.parse_condition(step.when, planned.words, key=f"{where}.when")
        partitions = max(cell.plan.partitions for cell in planned.cells)
        replicas = max(cell.plan.replicas for cell in planned.cells)
        if why := condition.why_never(partitions, replicas):  # in no cell
            raise PlanError(f"{condition.text!r} never holds: {why}", key=f"{where}.when")
    if step.nemesis is None:
        return ResolvedStep(step=step, condition=condition, nemesis=None)
    nemesis = _nemesis(step.nemesis, step.nodes, step.options, planned, where)
    if isinstance(nemesis, ClientNemesis):
        _check_clients(planned.plan, step, nemesis, planned.target, where)
    _check_limit(step, nemesis, where)
    return ResolvedStep(step=step, condition=condition, nemesis=nemesis)


def _nemesis(
    name: str, nodes: str, options: Mapping[str, Any], planned: PlannedCluster, where: str
) -> Nemesis:
    """A nemesis with its options; all selectors are in the words of the target, and name what the
    cluster has."""
    nemesis: Nemesis = registry.make("nemeses", name, options, key=f"{where}.nemesis")
    if isinstance(nemesis, ClientNemesis):
        return nemesis  # it meets clients, whatever the default of `nodes`
    _check_levers(name, nemesis, planned, where)
    planned.check_selector(nodes, key=f"{where}.nodes")
    for key, text in nemesis.selectors.items():
        planned.check_selector(text, key=f"{where}.{key}")
    _check_gateways(nodes, nemesis, planned, where)
    if planned.knows_nodes:
        planned.check_effect(nodes, nemesis, where=where)
    return nemesis


def _check_limit(step: FaultStep, nemesis: Nemesis, where: str) -> None:
    """A fault that ends by itself is in force until it is healed, or is not proven."""
    limit = nemesis.limit
    if limit is None or step.for_s is None or limit[1] > step.for_s:
        return
    raise PlanError(
        f"{step.nemesis} ends by itself after {limit[1]:g} s, before it is healed: for_s is "
        f"{step.for_s:g}",
        key=f"{where}.{limit[0]}",
        hint="use a longer one, or a shorter for_s",
    )


def _check_permanent(resolved: Sequence[ResolvedStep], step: FaultStep) -> None:
    """No step ends what nothing undoes."""
    permanent = {each.step.id for each in resolved if is_permanent(each.nemesis)}
    ended = [step.id] if step.for_s is not None else []
    ended += step.heal if isinstance(step.heal, list) else []
    if wrong := permanent.intersection(ended):
        raise PlanError(
            f"{min(wrong)!r} is not undone by itself",
            key=dotted(("faults", step.id, "heal" if step.heal else "for_s")),
            hint="leave it out; to go back is a step of its own",
        )


def _check_levers(name: str, nemesis: Nemesis, planned: PlannedCluster, where: str) -> None:
    """The cluster offers every lever that the fault needs, or else the target has it."""
    target, provider = planned.target, planned.provider
    offered = [*provider.levers, *sorted(target.own_levers)]
    if not provider.simulated:
        offered.append(ManualLever.name)
    if missing := missing_levers(nemesis, offered):
        if why := provider.why_no_lever(missing[0]):
            raise PlanError(
                f"{name} cannot be made: {why}",
                key=f"{where}.nemesis",
                hint='have an operator cause it, nemesis = "manual", or leave it out',
            )
        raise PlanError(
            f"{name} needs the lever {missing[0]!r}, which neither a cluster of kind "
            f"{provider.plugin!r} nor {target.plugin} offers",
            key=f"{where}.nemesis",
            hint=f"the levers here are {', '.join(offered) or 'none'}",
        )
    if ProgramRecord in {type(a.record) for a in nemesis.requires("any")}:
        if not target.does("programs"):
            raise PlanError(
                f"{target.plugin} has no path from one program to another",
                key=f"{where}.nemesis",
                hint="leave it out",
            )
        target.programs(planned.plan)


def _check_gateways(nodes: str, nemesis: Nemesis, planned: PlannedCluster, where: str) -> None:
    """No fault of the network may meet a node through whose host another one is reached."""
    kinds = {type(act.record) for act in nemesis.requires("any")}
    if not kinds & {NetRecord, ShapingRecord}:
        return
    gateways = planned.provider.gateways(Order(plan=planned.plan, target=planned.target))
    met_by = {"nodes": nodes}
    if NetRecord in kinds:
        met_by |= nemesis.selectors  # a form of a cut may put its rules at either end
    for key, text in met_by.items() if gateways else ():
        if met := sorted(gateways & selectors.possible(text, planned.roles)):
            raise PlanError(
                f"{text!r} may be {met[0]}, whose host is the jump host of others: a fault of its "
                f"network would cut us off from them",
                key=f"{where}.{key}",
                hint=f"name other nodes, or another jump host in {planned.provider.inventory}",
            )


def _check_clients(
    plan: Plan, step: FaultStep, nemesis: ClientNemesis, target: Target[Any], where: str
) -> None:
    """What it affects exists, and no nodes are named that it would not affect."""
    if nemesis.meets == CONSUMERS:
        workload = registry.plugins("workloads").get(plan.workload.name)
        if workload is not None and workload.model != GROUP.name:
            raise PlanError(
                f"{step.nemesis} meets the consumers of a group, and {plan.workload.name} has none",
                key=f"{where}.nemesis",
                hint='use workload.name = "consume", or another nemesis',
            )
    elif plan.cells:
        raise PlanError(
            "no cell's clients can crash by themselves: a fault meets all cells alike",
            key=f"{where}.nemesis",
            hint="choose another nemesis, or leave out cells",
        )
    elif why := target.why_no_crashes(plan):
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


def _check_same(steps: Sequence[ResolvedStep]) -> None:
    """`same:STEP` names an earlier step that applies a nemesis."""
    earlier: set[str] = set()
    for resolved in steps:
        step, nemesis = resolved.step, resolved.nemesis
        further = nemesis.selectors if nemesis is not None else {}
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


# A plan on a cluster that the user already has: how `--cluster FILE` changes it.


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a plan is run instead of on a cluster of our own: the kind of cluster with its file,
    and the target as a guest there."""

    provider: Provider
    target: Target[Any]


def cluster_provider(file: Path) -> Provider:
    """The kind of cluster that a file names. Raises PlanError, or EnvironmentFailure for a missing
    secret."""
    kinds = {
        name: kind
        for name in registry.usable("clusters")
        if (kind := registry.plugins("clusters")[name]).named_by == "cluster"
    }
    named, hint = kind_in(file), f"there are: {', '.join(kinds)}"
    if named is None:
        raise PlanError("is missing", file=str(file), key="kind", hint=hint)
    if named not in kinds:
        near = nearest(str(named), list(kinds))
        hint = f"did you mean {near!r}?" if near else hint
        what = f"{named!r} is not a kind of cluster that a file can describe"
        raise PlanError(what, file=str(file), key="kind", hint=hint)
    made: Provider = kinds[str(named)]().with_file(file)
    return made


def on_cluster(
    document: Mapping[str, Any], cluster: Path, *, file: str
) -> tuple[dict[str, Any], Place, list[str]]:
    """A plan's document for the cluster of a file, with its place, and sentences about what is
    ignored. Raises PlanError."""
    provider = cluster_provider(cluster)
    access, section = provider.access, document.get("target", {})
    system = section.get("system") if isinstance(section, dict) else None
    system = system or registry.default_target()
    if provider.system not in (None, system):
        raise PlanError(
            f"the plan is for {system}, the cluster is {provider.system}",
            file=str(cluster),
            key="system",
            hint="choose another plan",
        )
    target = registry.make("targets", str(system), {}, key="target.system", file=file)
    if not target.does("reached_by"):
        raise PlanError(
            f"{system} cannot be tested on a cluster that ackloss did not start",
            file=file,
            key="target.system",
        )
    assert access is not None
    guest = target.reached_by(access)
    adapted, ignored = guest.adapted(document)
    adapted["cluster"] = {"kind": provider.plugin}
    return adapted, Place(provider=provider, target=guest), ignored


@dataclass(frozen=True, kw_only=True)
class ResolvedPlan:
    """A plan and what its names stand for. `unsupported`: what it requests in vain, to be refused
    (`refuse_unsupported`) or forced by the user. `client`: the command of the user's own
    clients (`with_client`), `operator`: who makes faults by hand (`with_operator`); no plan holds
    them."""

    plan: Plan
    target: Target[Any]
    workload: Workload
    provider: Provider
    steps: tuple[ResolvedStep, ...]
    unsupported: tuple[Unsupported, ...] = ()
    client: Argv | None = None
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
    def final_plan(self) -> Plan:
        """The plan for the clients of final scripts: each stays with its own server where a checker
        needs reads from each node, for one that was started again may be the slowest to answer."""
        load, known = self.plan.workload, registry.plugins("checkers")
        stays = any(known[name].reads_each_node for name in self.plan.checkers)
        if not stays or "connect" not in type(load).model_fields:
            return self.plan
        return self.plan.model_copy(update={"workload": load.model_copy(update={"connect": "one"})})

    @cached_property
    def cells(self) -> tuple[CellPlan, ...]:
        """The cells of the run, each with its own plan."""
        return cell_plans(self.plan, self.target)


def resolve(
    plan: Plan, *, file: str = "plan", inventory: Path | None = None, place: Place | None = None
) -> ResolvedPlan:
    """Find every plug-in that the plan names; with an inventory, its cluster is on the hosts of
    that file, with a place, its target and kind of cluster are those of the place. Raises
    PlanError."""
    target: Target[Any] = (
        place.target
        if place is not None
        else registry.make("targets", plan.target.system, {}, key="target.system", file=file)
    )
    mistakes, workload, provider = Mistakes(file), None, None
    cells: tuple[CellPlan, ...] = (CellPlan(plan=plan),)
    steps: tuple[ResolvedStep, ...] = ()
    with mistakes.noted():
        _check_model(target, plan.workload.name)
        workload = workload_of(plan)
    if workload is not None:
        checks = plan.checks or [Check.model_validate(each) for each in workload.checks]
        plan = plan.model_copy(update={"checks": checks})
        _check_checks(plan, workload, mistakes)
    with mistakes.noted():
        _check_client(plan, target)
    with mistakes.noted():
        kind = _provider(plan, inventory, place)
        _check_cluster(target, kind)
        provider = kind
    with mistakes.noted():
        target.check(plan)
    with mistakes.noted():
        cells = checked_cells(plan, target)
    if provider is not None:
        with mistakes.noted():
            steps = resolved_steps(plan, target, provider, cells)
    mistakes.refuse()
    assert workload is not None
    assert provider is not None
    return ResolvedPlan(
        plan=plan,
        target=target,
        workload=workload,
        provider=provider,
        steps=steps,
        unsupported=asked_in_vain(plan, cells, target),
    )


def _provider(plan: Plan, inventory: Path | None, place: Place | None) -> Provider:
    """The kind of cluster: what the command line names, else the plan's."""
    if place is not None:
        return place.provider
    if inventory is not None:
        return hosts_provider(inventory)
    kind, options = plan.cluster.kind, plan.cluster.options
    made: Provider = registry.make("clusters", kind, options, key="cluster.kind")
    return made


def needs_of(nemeses: Iterable[Nemesis | None]) -> frozenset[str]:
    """All that these nemeses need of nodes from their start, by name."""
    return frozenset().union(*(n.needs for n in nemeses if n is not None))


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


def _check_model(target: Target[Any], name: str) -> None:
    """Refuse a workload whose operations the target does not serve, whatever its options are."""
    workloads = registry.plugins("workloads")
    is_known = name in workloads and registry.why_unusable("workloads", name) is None
    if is_known and workloads[name].model not in target.models:
        runs = [n for n in registry.usable("workloads") if workloads[n].model in target.models]
        raise PlanError(
            f"{name} makes operations of the model {workloads[name].model!r}, which "
            f"{target.plugin} does not serve",
            key="workload.name",
            hint=f"{target.plugin} runs: {', '.join(runs) or 'none'}",
        )


def _check_client(plan: Plan, target: Target[Any]) -> None:
    """Refuse a client that the target does not have."""
    name = plan.workload.client
    known = [*target.libraries, *([EXEC] if target.does("connection") else [])]
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
    kind: Provider = registry.make("clusters", HOSTS, {}, key="--inventory")
    return kind.with_file(inventory)


def with_client(
    resolved: ResolvedPlan, command: Argv | None, *, file: str = "plan"
) -> ResolvedPlan:
    """The plan with the command of its clients. Raises PlanError if one is missing, or is given but
    not used."""
    name = resolved.plan.workload.client
    if name == EXEC and command is None:
        raise PlanError(
            f"the client {EXEC!r} is a command of yours",
            file=file,
            key="workload.client",
            hint="name it with --client CMD",
        )
    if name != EXEC and command is not None:
        raise PlanError(
            f"--client is given, but the plan's client is {name or 'a library of ackloss'}",
            file=file,
            key="workload.client",
            hint=f"--set workload.client={EXEC}",
        )
    return replace(resolved, client=command)


def _check_checks(plan: Plan, workload: Workload, mistakes: Mistakes) -> None:
    """Refuse a checker that is not known, named twice, or does not judge the workload's model."""
    names = plan.checkers
    for place, (name, check) in enumerate(zip(names, plan.checks, strict=True)):
        options = {} if isinstance(check, str) else check.options
        key = f"checks.{place}"
        at = key if isinstance(check, str) else f"{key}.name"
        with mistakes.noted():
            checker: Checker[Any, Any] = registry.make("checkers", name, options, key=at)
            if workload.model not in checker.models:
                raise PlanError(
                    f"{name} does not judge operations of the model {workload.model!r}",
                    key=key,
                    hint=f"these do: {', '.join(_judges_of(workload.model))}",
                )
            if name in names[:place]:
                raise PlanError(f"{name!r} is named twice", key=key, hint="name it once")


def _judges_of(model: str) -> list[str]:
    """The checkers that judge operations of a model, its default first."""
    default = MODELS[model].check
    names = registry.usable("checkers")
    others = [name for name in names if model in registry.plugins("checkers")[name].models]
    return [default, *(name for name in others if name != default)]


def refuse_unsupported(resolved: ResolvedPlan, *, file: str, force: bool = False) -> None:
    """Raise PlanError for what the plan requests of a version that does not honour it; with `force`
    only for what cannot be run at all."""
    refused = [each for each in resolved.unsupported if not (force and each.forcible)]
    way = ", or run it anyway with --force" if all(each.forcible for each in refused) else ""
    mistakes = Mistakes(file)
    for each in refused:
        with mistakes.noted():
            hint = f"leave it out{way}" if way else "change it"
            raise PlanError(f"{each.what} ({each.source})", key=each.key, hint=hint)
    mistakes.refuse()

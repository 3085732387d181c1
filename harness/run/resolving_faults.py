"""The faults of a plan with their nemeses found: selectors and conditions are in the words of the
target, the cluster offers their levers, and no step meets what is not there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, cast

from harness import registry
from harness.errors import Mistakes, PlanError
from harness.faults import selectors
from harness.faults.injection import missing_levers, required
from harness.faults.records import NetRecord, ShapingRecord
from harness.levers.manual import ManualLever
from harness.models import GROUP
from harness.plan import Family, FaultStep, Plan
from harness.protocols import (
    CLIENT_ROLE,
    Nemesis,
    Node,
    NodeOutline,
    Order,
    PartitionView,
    Provider,
    Select,
    Situation,
    Target,
    Vocabulary,
)
from harness.protocols.crashes import CONSUMERS, ClientNemesis, names_met
from harness.protocols.vocabulary import Choice
from harness.run.cells import CellPlan
from harness.run.schedule import ResolvedStep
from harness.wrong_values import dotted


def resolved_steps(
    plan: Plan, target: Target[Any], provider: Provider, cells: Sequence[CellPlan]
) -> tuple[ResolvedStep, ...]:
    """The scripted faults of a plan; those of its mix are checked too. Raises PlanError, with the
    key of what is wrong."""
    here = Here(plan, target, provider, cells)
    mistakes, steps = Mistakes(), []
    for place, family in enumerate(plan.mix.families if plan.mix else ()):
        with mistakes.noted():  # also one that this seed never draws
            _nemesis(family.nemesis, family.nodes, family.options, here, f"mix.families.{place}")
    for step in plan.faults:
        with mistakes.noted():
            steps.append(_resolve_step(here, dotted(("faults", step.id)), step))
    mistakes.refuse()
    _check_same(steps)
    return tuple(steps)


@dataclass(frozen=True)
class Here:
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
                if not any(selectors.select(term, choice) for choice in self._choices()):
                    partitions = max(cell.plan.partitions for cell in self.cells)
                    raise PlanError(
                        f"{term!r} is not a node of this cluster",
                        key=f"{where}.{key}",
                        hint=f"it has {', '.join(self.words.members(self.roles))} and {partitions} "
                        f"partition{'s' if partitions > 1 else ''}",
                    )
        if not any(selectors.select(nodes, choice) for choice in self._choices()):
            raise PlanError(
                f"{nodes!r} is never a node of this cluster",
                key=f"{where}.nodes",
                hint=f"the nodes are {', '.join(self.roles)}",
            )
        if nemesis.selectors and not any(
            self._acts(nodes, nemesis, choice) for choice in self._choices()
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
        selects = [selecting(self.outline, choice) for choice in self._choices()]
        of_each = [nemesis.warnings(select(nodes), select) for select in selects]
        return of_each[0] if all(of_each) else []

    def _acts(self, nodes: str, nemesis: Nemesis, choice: Choice) -> bool:
        select = selecting(self.outline, choice)
        try:
            return bool(nemesis.acts(select(nodes), select))
        except Exception:  # a plug-in's mistake, which is reported when the fault begins
            return True

    def _choices(self) -> Iterator[Choice]:
        """The first is the likeliest: most are refused by none."""
        for number, situation in enumerate(self._situations()):
            draw = random.Random(number)
            yield Choice(roles=self.roles, situation=situation, vocabulary=self.words, draw=draw)

    def _situations(self) -> Iterator[Situation]:
        """Each member leads all partitions, with all replicas in sync or alone; or nobody leads."""
        nodes = [name for name, roles in self.roles.items() if CLIENT_ROLE not in roles]
        members = self.words.members(self.roles)
        for cell, place in product(self.cells, range(len(members))):
            controller = nodes[-1 - place % len(nodes)]
            replicated = as_if_first_led(cell.plan, members[place:] + members[:place], controller)
            yield replace(replicated, coordination=replicated.partitions[0])
            alone = {
                number: replace(view, members=(view.leader or "",))
                for number, view in replicated.partitions.items()
            }
            yield replace(replicated, partitions=alone, coordination=alone[0])
        yield Situation(time_ns=0)


def selecting(outline: Sequence[NodeOutline], choice: Choice) -> Select:
    """Selects among nodes that have not been started."""
    there = {each.name: cast("Node", each) for each in outline}  # a nemesis knows no more of them

    def select(text: str) -> Sequence[Node]:
        return [there[name] for name in selectors.select(text, choice)]

    return select


def as_if_first_led(plan: Plan, members: Sequence[str], controller: str) -> Situation:
    """A situation in which the first of the nodes that hold replicas leads every partition, and all
    replicas are in sync."""
    in_sync = tuple(members[: plan.replicas])
    view = [
        PartitionView(
            partition=p, leader=members[0], leader_epoch=0, members=in_sync, replicas=in_sync
        )
        for p in range(plan.partitions)
    ]
    return Situation(time_ns=0, partitions={v.partition: v for v in view}, controller=controller)


def _resolve_step(here: Here, where: str, step: FaultStep) -> ResolvedStep:
    condition = None
    if step.when is not None:
        condition = selectors.parse_condition(step.when, here.words, key=f"{where}.when")
        partitions = max(cell.plan.partitions for cell in here.cells)
        replicas = max(cell.plan.replicas for cell in here.cells)
        if why := condition.why_never(partitions, replicas):  # in no cell
            raise PlanError(f"{condition.text!r} never holds: {why}", key=f"{where}.when")
    if step.nemesis is None:
        return ResolvedStep(step=step, condition=condition, nemesis=None)
    nemesis = _nemesis(step.nemesis, step.nodes, step.options, here, where)
    if isinstance(nemesis, ClientNemesis):
        _check_clients(here.plan, step, nemesis, here.target, where)
    _check_limit(step, nemesis, where)
    return ResolvedStep(step=step, condition=condition, nemesis=nemesis)


def _nemesis(name: str, nodes: str, options: Mapping[str, Any], here: Here, where: str) -> Nemesis:
    """A nemesis with its options; all selectors are in the words of the target, and name what the
    cluster has."""
    nemesis: Nemesis = registry.make("nemeses", name, options, key=f"{where}.nemesis")
    if isinstance(nemesis, ClientNemesis):
        return nemesis  # it meets clients, whatever the default of `nodes`
    _check_levers(name, nemesis, here, where)
    here.check_selector(nodes, key=f"{where}.nodes")
    for key, text in nemesis.selectors.items():
        here.check_selector(text, key=f"{where}.{key}")
    _check_gateways(nodes, nemesis, here, where)
    if here.knows_nodes:
        here.check_effect(nodes, nemesis, where=where)
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


def _check_levers(name: str, nemesis: Nemesis, here: Here, where: str) -> None:
    """The cluster offers every lever that the fault needs, or else the target has it."""
    target, provider = here.target, here.provider
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


def _check_gateways(nodes: str, nemesis: Nemesis, here: Here, where: str) -> None:
    """No fault of the network may meet a node through whose host another one is reached."""
    kinds = {type(act.record) for act in required(nemesis, "any")}
    if not kinds & {NetRecord, ShapingRecord}:
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

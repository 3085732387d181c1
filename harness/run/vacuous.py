"""Faults that could meet nothing, refused when the plan is read: a node that there is not, a cut
that cuts nothing. A run would take as long as any other and then be `unknown`.

A selector depends on who leads when the fault begins. So it is tried in situations that differ in
that: only what meets nothing in any of them is refused.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, cast

from harness.errors import PlanError
from harness.faults import selectors
from harness.plan import Plan
from harness.protocols import (
    CLIENT_ROLE,
    Nemesis,
    Node,
    NodeOutline,
    PartitionView,
    Select,
    Situation,
    Vocabulary,
)
from harness.protocols.vocabulary import Choice

_DRAWS: Final = 8


@dataclass(frozen=True)
class Trial:
    """The nodes that would start, and the plan of each cell, or of the run."""

    outline: Sequence[NodeOutline]
    plans: Sequence[Plan]
    vocabulary: Vocabulary

    def check(self, nodes: str, nemesis: Nemesis, *, where: str) -> None:
        """Raise PlanError for a fault that meets nothing, whatever is so when it begins."""
        texts = {"nodes": nodes, **nemesis.selectors}
        if any(map(selectors.earlier_steps, texts.values())):
            return  # what an earlier step has met is known then
        for key, text in texts.items():
            for term in selectors.numbered_terms(text):
                if not any(selectors.select(term, choice) for choice in self._choices()):
                    raise PlanError(
                        f"{term!r} is no node of this cluster",
                        key=f"{where}.{key}",
                        hint=f"it has {self._sizes()}",
                    )
        if not any(selectors.select(nodes, choice) for choice in self._choices()):
            raise PlanError(
                f"{nodes!r} is never a node of this cluster",
                key=f"{where}.nodes",
                hint=f"the nodes are {', '.join(each.name for each in self.outline)}",
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

    def _sizes(self) -> str:
        members = self.vocabulary.members({each.name: each.roles for each in self.outline})
        partitions = max(plan.partitions for plan in self.plans)
        return f"{', '.join(members)} and {partitions} partition{'s' if partitions > 1 else ''}"

    def _choices(self) -> Iterator[Choice]:
        """The first is the likeliest: most are refused by none."""
        roles = {each.name: each.roles for each in self.outline}
        for number, situation in product(range(_DRAWS), self._situations()):
            yield Choice(
                roles=roles,
                situation=situation,
                vocabulary=self.vocabulary,
                draw=random.Random(number),
            )

    def _situations(self) -> Iterator[Situation]:
        """Each member leads all partitions, with all replicas in sync or alone; or nobody leads."""
        nodes = [each.name for each in self.outline if CLIENT_ROLE not in each.roles]
        members = self.vocabulary.members({each.name: each.roles for each in self.outline})
        for plan, place in product(self.plans, range(len(members))):
            controller = nodes[-1 - place % len(nodes)]
            replicated = as_if_first_led(plan, members[place:] + members[:place], controller)
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

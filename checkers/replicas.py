"""The replicas checker: whether all nodes return the same set at the end.

Once all faults are healed and all replicas are in sync, the processes of a set read it once more,
over new clients, each from the one node that is its own. An acknowledged element that one node
returns then and another does not was lost on that one. The set checker alone may call it stale, as
it is read elsewhere.

A read counts as final when it began after every add had completed. Of a node's final reads, an
element has to be in one. Unless every node that holds the set has served one, there is a doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

import numpy as np

from harness.protocols import (
    DOUBTS,
    CheckResult,
    Count,
    Facts,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import findings_table
from harness.protocols.runs import INVOKED, OK, Operations

_ADD: Final = "add"


class Found(NamedTuple):
    """`kind` is `missing_on_a_node`: an element that this node lacks and another has."""

    kind: str
    value: int
    node: str


@dataclass
class Ended:
    """The acknowledged elements of a history, how many adds there were, and what each node returned
    in its final reads."""

    attempted: int = 0
    acknowledged: set[int] = field(default_factory=set)
    by_node: dict[str, set[int]] = field(default_factory=dict)

    @property
    def missing(self) -> list[tuple[str, int]]:
        """Nodes with the acknowledged elements that they lack and others have."""
        held = self.acknowledged & set[int]().union(*self.by_node.values())
        return [
            (node, value)
            for node, returned in sorted(self.by_node.items())
            for value in sorted(held - returned)
        ]


@dataclass(frozen=True)
class Replicas(OneShard[Ended]):
    """Acknowledged elements of a set that one node returns in final reads and another does not."""

    plugin: ClassVar[str] = "replicas"
    models: ClassVar[frozenset[str]] = frozenset({"set"})
    reads_each_node: ClassVar[bool] = True
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("missing_on_a_node",),
        noun="elements lost on one node",
        head="lost on a node",
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "adds attempted"),
        Count("acknowledged", "acknowledged"),
        Count("nodes_read", "nodes read at the end"),
        Count("missing_on_a_node", "missing on a node", among=("acknowledged",)),
    )

    def gather(self, run: Run) -> Ended:
        """Gather the acknowledged elements and the final reads. Raises HistoryError for a final
        read that has no list."""
        ended, last_add = Ended(), -1
        for part in run.operations():
            adds = part.f.isin([_ADD])
            ended.attempted += int(np.count_nonzero(adds & (part.mark == INVOKED)))
            ended.acknowledged |= set(part.value[adds & (part.mark == OK)].tolist())
            completed = part.place[adds & (part.mark != INVOKED)]
            last_add = max(last_add, int(completed.max(initial=-1)))
        begun: dict[int, int] = {}
        for part in run.operations():
            for node, elements in _final_reads(part, begun, last_add, run.facts.source):
                ended.by_node.setdefault(node, set()).update(elements)
        return ended

    def judge(self, run: Run, ended: Ended) -> CheckResult:
        missing = ended.missing
        values = {value for _, value in missing}
        rows = [Found("missing_on_a_node", value, node) for node, value in missing]
        return CheckResult(
            counts={
                "attempted": ended.attempted,
                "acknowledged": len(ended.acknowledged),
                "nodes_read": len(ended.by_node),
                "missing_on_a_node": len(values),
            },
            findings=findings_table(Found, rows, run_id=run.facts.run_id),
            counter_examples=_counter_examples(missing),
            doubts=_doubts(run.facts, ended),
            all_well=f"all {len(ended.by_node)} nodes have the same elements",
        )


def _final_reads(
    part: Operations, begun: dict[int, int], last_add: int, file: str
) -> Iterator[tuple[str, list[int]]]:
    """The ok reads that began after the last add had completed: the node that served each, and
    what it returned. `begun`: by process, where its open read began."""
    nodes = part.node.objects()
    for row in np.flatnonzero(~part.f.isin([_ADD])).tolist():
        process, place = int(part.process[row]), int(part.place[row])
        if part.mark[row] == INVOKED:
            begun[process] = place
        elif begun.pop(process, place) > last_add and part.mark[row] == OK and nodes[row]:
            yield nodes[row], part.returned(row, file=file).tolist()


def _counter_examples(missing: Sequence[tuple[str, int]]) -> tuple[Statement, ...]:
    return tuple(
        Statement(
            "missing_on_a_node",
            f"acknowledged elements that {node} does not return at the end, and others do: "
            f"{number:,}",
        )
        for node, number in sorted(Counter(node for node, _ in missing).items())
    )


def _doubts(facts: Facts, ended: Ended) -> tuple[Statement, ...]:
    """Every node that holds the set has served a final read, or there is a doubt."""
    if not ended.acknowledged:
        return (Statement(DOUBTS.vacuous, "no add was acknowledged"),)
    served = len(facts.holders.intersection(ended.by_node) if facts.holders else ended.by_node)
    nodes = max(2, facts.promises.replicas)
    if served < nodes:
        read = f"final reads were served by {served} of {nodes} nodes that hold the set"
        return (Statement(DOUBTS.incomplete, read),)
    return ()

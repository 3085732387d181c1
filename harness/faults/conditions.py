"""Conditions that a step of the schedule can wait for.

    isr == [leader]     every concerned partition has its leader as the only in-sync replica
    isr whole           every partition is fully replicated: all its replicas are in sync
    isr < N, isr == N   the size of the ISR of every concerned partition
    leader moved        every concerned partition has a leader, and not the one of before
    no leader           every concerned partition has no leader
    controller moved    another controller is active than before

"Before" is when the last fault began. A condition may name its partition: `isr(0) == [leader]`,
`leader(0) moved`. Otherwise the concerned partitions are those that were led, before, by the nodes
of the last fault, or all when these nodes led none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.errors import PlanError
from harness.protocols import PartitionView, Situation

_PARTITION = r"(?:\((?P<partition>\d+)\))?"
_FORMS = {
    "isr_alone": re.compile(rf"isr{_PARTITION} == \[leader\]"),
    "isr_whole": re.compile(rf"isr{_PARTITION} whole"),
    "isr_size": re.compile(rf"isr{_PARTITION} (?P<compare><|>|==) (?P<size>\d+)"),
    "leader_moved": re.compile(rf"leader{_PARTITION} moved"),
    "no_leader": re.compile(rf"no leader{_PARTITION}"),
    "controller_moved": re.compile(r"controller moved"),
}


@dataclass(frozen=True, kw_only=True)
class Since:
    """When the last fault began: its nodes, and the situation then."""

    nodes: Sequence[str]
    situation: Situation
    replication_factor: int


@dataclass(frozen=True)
class Condition:
    """A parsed condition; `holds` compares the situation now with the one of before."""

    text: str
    form: str
    partition: int | None
    compare: str = ""
    size: int = 0

    def holds(self, now: Situation, since: Since) -> bool:
        """Whether it holds. Unknown partitions never satisfy it."""
        if self.form == "controller_moved":
            return now.controller not in (None, since.situation.controller)
        concerned = self._concerned(now, since)
        views = [now.partitions.get(partition) for partition in concerned]
        test = self._test(since)
        return bool(views) and all(view is not None and test(view) for view in views)

    def _concerned(self, now: Situation, since: Since) -> list[int]:
        if self.partition is not None:
            return [self.partition]
        before = since.situation.partitions.values()
        led = [view.partition for view in before if view.leader in since.nodes]
        return led if led and self.form != "isr_whole" else list(now.partitions)

    def _test(self, since: Since) -> Callable[[PartitionView], bool]:
        if self.form == "isr_alone":
            return lambda view: view.isr == (view.leader,)
        if self.form == "isr_whole":
            return lambda view: len(view.isr) == since.replication_factor
        if self.form == "isr_size":
            return lambda view: _compared(len(view.isr), self.compare, self.size)
        if self.form == "no_leader":
            return lambda view: view.leader is None
        before = since.situation.partitions
        return lambda view: (
            view.leader is not None
            and view.partition in before
            and view.leader != before[view.partition].leader
        )


def _compared(left: int, compare: str, right: int) -> bool:
    return {"<": left < right, ">": left > right, "==": left == right}[compare]


def parse(text: str, *, key: str) -> Condition:
    """A condition from its text. Raises PlanError that lists the forms."""
    normal = " ".join(text.split())
    for form, pattern in _FORMS.items():
        if match := pattern.fullmatch(normal):
            groups = match.groupdict()
            partition = groups.get("partition")
            return Condition(
                text=normal,
                form=form,
                partition=int(partition) if partition is not None else None,
                compare=groups.get("compare") or "",
                size=int(groups.get("size") or 0),
            )
    raise PlanError(
        f"{text!r} is not a condition",
        key=key,
        hint="one of: isr == [leader], isr whole, isr < N, leader moved, no leader, "
        "controller moved; with a partition in brackets: isr(0) whole",
    )

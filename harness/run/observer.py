"""Queries every node, several times a second, for who leads; records each answer unchanged.

A client's metadata may come from an isolated node that still believes that it leads, so every node
is queried directly, each in its own thread: a node that does not answer delays no other. The
situation is, per partition, the answer with the highest leader epoch; among answers of the same
epoch that of an authority, where there is one, then the one that most nodes give, then the latest.

A target is a plug-in, and whatever it raises or returns stops neither the observation of a node nor
the run: what is not a view counts as no answer, and is reported like an exception.

In a run with cells each node is queried about the objects of all cells at once.

Partitions that only weigh on the cluster may be very many. Nodes are queried for them separately,
at most a twentieth of the time, and what is recorded is what has changed, and when they answered.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.failures import validated, what
from harness.faults.own_traffic import own_traffic
from harness.history.metrics import PERIOD_S, Sample
from harness.plan import Plan
from harness.protocols import Node, NodeView, PartitionView, Situation, Target
from harness.protocols.clock import Clock, Task
from harness.protocols.systems import BallastChanges

Rows = Callable[[list[tuple[object, ...]]], None]
"""Takes rows of the observations schema, without the run's id."""

_PERIOD_S = 0.2
_TIMEOUT_S = 1.0
FRESH_NS = 3_000_000_000
_BEGUN_NS = 2_000_000_000
"""What a node first reports by then, it is taken to have reported when the run began."""
_BALLAST_S = 5.0
_PAUSE, _LONGEST_S = 20, 1.0
"""How many times as long as a query about the ballast takes is between two of them."""


@dataclass
class Watched:
    """What is watched for one cell: who leads the object of this plan."""

    plan: Plan
    rows: Rows = lambda _: None
    ballast: Rows = lambda _: None
    latest: dict[str, tuple[int, NodeView]] = field(default_factory=dict)
    """By node, when it answered, and its answer."""


@dataclass
class Observer:
    """Observes while it is entered as a context. A target whose nodes cannot be queried for who
    leads (no `observe`) leaves it idle: nothing is known of its leaders."""

    target: Target[Any]
    nodes: Mapping[str, Node]
    cells: Sequence[Watched]
    clock: Clock
    _stop: threading.Event = field(default_factory=threading.Event)
    _tasks: list[Task] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """By node, what was last wrong with a query to it or with its answer; the observer continues to
    query."""
    _reported: set[str] = field(default_factory=set)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    """By node, what it reported of itself; empty where the target has no `metrics`."""

    def __enter__(self) -> Observer:
        for node in self.nodes.values() if self.observes else ():
            self._tasks.append(self.clock.spawn(f"observe-{node.name}", partial(self._watch, node)))
        for node in self.nodes.values() if self.observes else ():
            if changes := self.target.ballast(node, self.cells[0].plan):
                watch = partial(self._watch_ballast, node.name, changes)
                self._tasks.append(self.clock.spawn(f"ballast-{node.name}", watch))
        for node in self.nodes.values() if self.target.does("metrics") else ():
            sample = partial(self._sample, node, self.samples.setdefault(node.name, []))
            self._tasks.append(self.clock.spawn(f"metrics-{node.name}", sample))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for task in self._tasks:
            task.join(timeout_s=max(_TIMEOUT_S, self.target.observed_within_s) + 1)

    def new_reports(self) -> list[str]:
        """A sentence for each node that could not be observed at times, or not to the end, unless
        an earlier call has reported it."""
        reports = {
            f"{node} could not be observed at times": why for node, why in self.failures.items()
        }
        for node, task in zip(self.nodes, self._tasks, strict=False):
            if task.failure is not None:
                reports[f"{node} was not observed to the end"] = what(task.failure)
        new = {head: why for head, why in reports.items() if head not in self._reported}
        self._reported.update(new)
        return [f"{head}: {why}" for head, why in new.items()]

    @property
    def observes(self) -> bool:
        """Whether the target can be queried for who leads."""
        return self.target.does("observe")

    def begun(self) -> bool:
        """Whether a node has answered, or none is queried."""
        return not self.observes or any(cell.latest for cell in self.cells)

    def situation(self, cell: int = 0) -> Situation:
        """What all nodes of the cluster together report now, by answers of the last 3 s: of the
        object of the first cell, or of another."""
        now_ns = self.clock.now_ns()
        latest = list(self.cells[cell].latest.values())
        return merge(now_ns, [(t, view) for t, view in latest if now_ns - t < FRESH_NS])

    def silent(self) -> list[str]:
        """The nodes whose process runs, and that have answered before, but not in the last 3 s."""
        silent = {*list(self.cells[0].latest)} - self.situation().answered
        return [name for name in sorted(silent) if self.nodes[name].process().running]

    def _watch(self, node: Node) -> None:
        while not self._stop.is_set():
            try:
                self._look(node)
            except Exception as error:  # whatever a target's client raises: the node did not answer
                self.failures[node.name] = what(error)
            self.clock.wait(self._stop, self.target.observed_every_s)

    def _watch_ballast(self, node: str, changes: BallastChanges) -> None:
        while not self._stop.is_set():
            begun_ns, found = self.clock.now_ns(), None
            try:
                given = changes(timeout_s=_BALLAST_S)
                found = validated("ballast()", given, Sequence[PartitionView] | None)
            except Exception as error:
                self.failures[node] = what(error)
            now_ns = self.clock.now_ns()
            if found is not None:
                answered = (now_ns, node, None, None, None, None, None, None)
                view = NodeView(answered_by=node, partitions=tuple(found))
                self.cells[0].ballast([*_rows(now_ns, view), answered])
            pause_s = _PAUSE * (now_ns - begun_ns) / 1e9
            self.clock.wait(self._stop, min(max(_PERIOD_S, pause_s), _LONGEST_S))

    def _sample(self, node: Node, samples: list[Sample]) -> None:
        last: Mapping[str, float] = {}
        while not self._stop.is_set():
            with suppress(Exception), own_traffic():  # a node that is down reports nothing
                given = self.target.metrics(node, self.cells[0].plan, timeout_s=_TIMEOUT_S)
                now = validated("metrics()", given, Mapping[str, float])
                names = [name for name in {**last, **now} if last.get(name) != now.get(name)]
                changed, now_ns = {name: now.get(name) for name in names}, self.clock.now_ns()
                if not samples and 0 < now_ns < _BEGUN_NS:  # other nodes were queried before it
                    samples.append(Sample(0, changed, all=False))
                samples.append(Sample(now_ns, changed, all=False))
                last = now
            self.clock.wait(self._stop, PERIOD_S)

    def _look(self, node: Node) -> None:
        """Query a node once, about every cell."""
        target, plans = self.target, [cell.plan for cell in self.cells]
        limit_s = target.observed_within_s
        with own_traffic():
            given = [*target.observe_cells(node, plans, timeout_s=limit_s)]
        views = validated("observe()", given, list[NodeView | None])
        now_ns, of_cells = self.clock.now_ns(), list(zip(self.cells, views, strict=True))
        for cell, view in of_cells:
            if view is not None:
                cell.latest[node.name] = (now_ns, view)
                cell.rows(list(_rows(now_ns, view)))


def merge(time_ns: int, answers: Iterable[tuple[int, NodeView]]) -> Situation:
    """The situation that follows from answers (time, view) of several nodes."""
    by_partition: dict[int, list[_Answer]] = {}
    controllers: list[tuple[int, str]] = []
    coordination: list[_Answer] = []
    answered = set()
    for at_ns, view in answers:
        answered.add(view.answered_by)
        for partition in view.partitions:
            by_partition.setdefault(partition.partition, []).append(
                (view.authority, at_ns, partition)
            )
        if view.coordination is not None:
            coordination.append((view.authority, at_ns, view.coordination))
        if view.controller is not None:
            controllers.append((view.controller_epoch or 0, view.controller))
    return Situation(
        time_ns=time_ns,
        partitions={number: _believed(views) for number, views in sorted(by_partition.items())},
        coordination=_believed(coordination) if coordination else None,
        controller=max(controllers)[1] if controllers else None,
        answered=frozenset(answered),
    )


_Answer = tuple[bool, int, PartitionView]
"""By an authority or not, when, what."""


def _believed(views: list[_Answer]) -> PartitionView:
    epoch = max(view.leader_epoch for _, _, view in views)
    newest = [answer for answer in views if answer[2].leader_epoch == epoch]
    backing = Counter(each for _, _, view in newest for each in (view.leader, view))
    return max(newest, key=lambda a: (a[0], backing[a[2].leader], backing[a[2]], a[1]))[2]


def _rows(time_ns: int, view: NodeView) -> Iterable[tuple[object, ...]]:
    """Rows of `OBSERVATIONS`: subject, leader, epoch and members, or the controller."""
    who = view.answered_by
    for p in view.partitions:
        yield (time_ns, who, p.partition, p.leader, p.leader_epoch, list(p.members), None, None)
    if view.controller is not None:
        yield (time_ns, who, None, None, None, None, view.controller, view.controller_epoch)

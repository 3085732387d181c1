"""Executes the fault schedule of a plan: waits for times and conditions, injects, heals.

Steps begin one after the other in the plan's order. What nothing undoes
(`UndoRecord.permanent`), such as a rolling upgrade, goes on while later faults begin, but the next
of its kind waits until it has ended and all has recovered. Faults overlap: one with `for_s` is
healed by itself while later steps wait, that long after its acts were applied; the probe before it
is undone takes its time in addition. Selectors and conditions are resolved while the schedule runs,
and the journal records the result; every random draw comes from the plan's seed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.faults import selectors
from harness.faults.injection import Faults, chosen
from harness.faults.selectors import Condition
from harness.plan import FaultStep, Plan
from harness.protocols import CLIENT_ROLE, Act, Nemesis, Node
from harness.protocols.clock import Clock, Task
from harness.protocols.faults import Choice, ClientNemesis, Since, Vocabulary, names_met
from harness.run.final_read import WHOLE_FOR_NS, are_fully_replicated
from harness.run.observer import FRESH_NS, Observer
from harness.run.resolving import ResolvedStep, is_permanent

_TICK_S = 0.05
_FIRST_S = 5.0
"""How long the first answer of a node is waited for: before it no leader is known."""


@dataclass
class _Roll:
    """Acts that nothing undoes: those that are left, with those together that are done at the same
    time, when the last ones were done, and since when all is as it should be."""

    fault: str
    nemesis: str
    left: list[Sequence[Act]]
    done_ns: int | None = None
    since_ns: int | None = None


@dataclass
class Schedule:
    """One execution of a plan's steps, in its own thread."""

    plan: Plan
    steps: Sequence[ResolvedStep]
    nodes: Mapping[str, Node]
    faults: Faults
    observer: Observer
    clock: Clock
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    stop: threading.Event = field(default_factory=threading.Event)
    next: FaultStep | None = None
    """The step that is waited for."""
    _failure: Exception | None = None
    _met: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _since: Since | None = None
    _heal_at_ns: dict[str, int] = field(default_factory=dict)
    _roll: _Roll | None = None

    _task: Task | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Execute the steps in a thread while the context lasts; `finish` at its end."""
        self._task = self.clock.spawn("schedule", self._run)
        try:
            yield
        finally:
            self.finish()

    def finish(self) -> None:
        """End the schedule where it is, heal all, and raise what failed in it, once."""
        self.stop.set()
        self.faults.give_up_waiting()
        if self._task is not None:
            self._task.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        try:
            first_ns = self.clock.now_ns() + round(_FIRST_S * 1e9)
            while not self.observer.begun() and self.clock.now_ns() < first_ns:
                if self._pause():
                    break
            for resolved in self.steps:
                self.next = resolved.step
                self._execute(resolved)
            self.next = None
            while not self._pause():
                pass
        except Exception as error:
            self._failure = error
        try:
            self._break_off()
            self.faults.heal_all()
        except Exception as error:
            self._failure = self._failure or error

    def _execute(self, resolved: ResolvedStep) -> None:
        step = resolved.step
        met, why = self._wait(resolved)
        if self.stop.is_set():
            self._skip(step, met, "the workload had ended")
        elif met is False and step.otherwise == "skip":
            self._skip(step, met, why)
        elif resolved.nemesis is None:
            self._heal_step(step, met, why)
        else:
            self._inject_step(resolved, resolved.nemesis, met, why)

    def _wait(self, resolved: ResolvedStep) -> tuple[bool | None, str]:
        """Wait until the step is due. Returns whether its condition held (None: it has none) and a
        sentence about it."""
        step, met, why = resolved.step, None, ""
        if step.at_s is not None:
            self._wait_until(int(step.at_s * 1e9))
        while self._roll and is_permanent(resolved.nemesis) and not self._pause():
            pass
        if resolved.condition is not None:
            begun_ns = self.clock.now_ns()
            met = self._wait_for(resolved.condition, begun_ns + int(step.within_s * 1e9))
            waited_s = (self.clock.now_ns() - begun_ns) / 1e9
            why = f": {resolved.condition.text!r} {'held' if met else 'did not hold'} "
            why += f"after {waited_s:.1f} s"
        self._wait_until(self.clock.now_ns() + int(step.after_s * 1e9))
        return met, why

    def _wait_until(self, due_ns: int) -> None:
        while (left_ns := due_ns - self.clock.now_ns()) > 0 and not self._pause(left_ns / 1e9):
            pass

    def _wait_for(self, condition: Condition, limit_ns: int) -> bool:
        since = self._since or self._now([])
        while not condition.holds(self.observer.situation(), since):
            if self.clock.now_ns() >= limit_ns or self._pause():
                return False
        return True

    def _pause(self, at_most_s: float = _TICK_S) -> bool:
        """Wait for a moment, healing what is due; True when the schedule is to stop."""
        for fault, due_ns in list(self._heal_at_ns.items()):
            if self.clock.now_ns() >= due_ns:
                del self._heal_at_ns[fault]
                self.faults.heal(fault)
        if self._roll is not None:
            self._go_on(self._roll)
        return self.clock.wait(self.stop, max(0.0, min(at_most_s, _TICK_S)))

    def _go_on(self, roll: _Roll) -> None:
        """Do the next acts of a roll, once all has recovered from the ones before. What was
        observed before an act says nothing of what it did."""
        now_ns = self.clock.now_ns()
        if not self._recovered():
            roll.since_ns = None
            return
        roll.since_ns = now_ns if roll.since_ns is None else roll.since_ns
        seen_ns = 0 if roll.done_ns is None else roll.done_ns + FRESH_NS
        if now_ns < max(roll.since_ns, seen_ns) + WHOLE_FOR_NS:
            return
        if roll.done_ns is not None:
            self.faults.prove(roll.fault)
        if not roll.left:
            self._roll = None
            self.faults.heal(roll.fault)
            return
        self.faults.add(roll.fault, roll.left.pop(0), nemesis=roll.nemesis)
        roll.done_ns, roll.since_ns = self.clock.now_ns(), None

    def _recovered(self) -> bool:
        """Whether every node answers and everything is fully replicated."""
        if not self.observer.observes:
            return True
        awaited = {name for name, node in self.nodes.items() if CLIENT_ROLE not in node.roles}
        answered = self.observer.situation().answered
        return awaited <= answered and are_fully_replicated(self.observer)

    def _break_off(self) -> None:
        """The load is over: say which acts of a roll there was no time for."""
        if (roll := self._roll) is not None and roll.left:
            left = [act.record.node for acts in roll.left for act in acts]
            late = [f"{name}: the load ended before its turn" for name in left]
            proof = {"fault": roll.fault, "phase": "applied", "proven": False, "met": None}
            self.faults.journal.write("proof", **proof, evidence=late)

    def _inject_step(
        self, resolved: ResolvedStep, nemesis: Nemesis, met: bool | None, why: str
    ) -> None:
        step = resolved.step
        draw = random.Random(f"{self.plan.seed}/{step.id}")
        acts: list[Act] = []
        if isinstance(nemesis, ClientNemesis):
            acts = nemesis.client_acts(names_met(nemesis, self.plan), draw)
            names = [act.record.node for act in acts]
        else:
            names, draw = self._selected(step)
        if not names and self.stop.is_set():
            self._skip(step, met, "the workload had ended")
            return
        self._met[step.id] = tuple(names)
        self._since = self._now(names)
        self.faults.journal.write(
            "step", fault=step.id, nemesis=step.nemesis, nodes=names, met=met, why=why
        )
        if not isinstance(nemesis, ClientNemesis):
            acts = chosen(
                nemesis,
                [self.nodes[name] for name in names],
                lambda text: [self.nodes[name] for name in self._select(text, draw)],
                levers=self.faults.levers,
                among=self.nodes,
                vocabulary=self.vocabulary,
            )
        if is_permanent(nemesis):
            self._roll = _Roll(step.id, step.nemesis or "", nemesis.in_turn(acts))
            return
        on_ns = self.faults.inject(step.id, step.nemesis or "", acts)
        if step.for_s is not None:
            since_ns = self.clock.now_ns() if on_ns is None else on_ns
            self._heal_at_ns[step.id] = since_ns + int(step.for_s * 1e9)

    def _heal_step(self, step: FaultStep, met: bool | None, why: str) -> None:
        active = [each for each in self.faults.active if not self._roll or each != self._roll.fault]
        healed = active if step.heal == "all" else [f for f in active if f in (step.heal or [])]
        self.faults.journal.write("heal", step=step.id, faults=healed, met=met, why=why)
        for fault in reversed(healed):
            self._heal_at_ns.pop(fault, None)
            self.faults.heal(fault)

    def _skip(self, step: FaultStep, met: bool | None, why: str) -> None:
        if step.nemesis is not None:
            self.faults.journal.write(
                "skip", fault=step.id, nemesis=step.nemesis, met=met, why=why.lstrip(": ")
            )

    def _selected(self, step: FaultStep) -> tuple[list[str], random.Random]:
        """The nodes of its selector, and what goes on drawing. Where it finds none, those that it
        finds within `within_s`: nobody may lead now, or no node have answered of late."""
        until_ns = self.clock.now_ns() + int(step.within_s * 1e9)
        while True:
            draw = random.Random(f"{self.plan.seed}/{step.id}")
            names = self._select(step.nodes, draw)
            if names or self.clock.now_ns() >= until_ns or self._pause():
                return names, draw

    def _select(self, text: str, draw: random.Random) -> list[str]:
        choice = Choice(
            roles={name: node.roles for name, node in self.nodes.items()},
            situation=self.observer.situation(),
            vocabulary=self.vocabulary,
            earlier=self._met,
            draw=draw,
        )
        return selectors.select(text, choice)

    def _now(self, names: Sequence[str]) -> Since:
        return Since(
            nodes=tuple(names),
            situation=self.observer.situation(),
            replication_factor=self.plan.replicas,
        )

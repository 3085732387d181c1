"""The controller: treats silent replicas as dead, and decides who leads.

It is one process with a durable record, which represents the consensus of a real system's
controllers. Every decision has a higher epoch than all before. How a leader is found depends on the
commit rule:

- `isr`: a live replica of the in-sync set. Every one of them has all that is committed.
- `quorum`: a majority first promises to accept nothing of an older epoch and says how far its logs
  go; the one whose log is the most up to date leads, as in Raft. Every majority has a replica that
  has all that is committed.

What the controller decides, as all other processes learn it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from harness.clusters.memory.node import MemoryNode
from targets.memory.plan import UNCLEAN, Settings


class State(NamedTuple):
    """Who leads a partition in an epoch, and who is in sync; every change has a higher version. No
    leader: None."""

    epoch: int
    leader: str | None
    isr: tuple[str, ...]
    version: int


MS: Final = 1_000_000
_TICK_NS: Final = 40 * MS
_FENCE_AGAIN_NS: Final = 100 * MS


@dataclass
class Session:
    """What the controller knows about a replica's present process."""

    heard_ns: int
    blank: tuple[bool, ...]


@dataclass
class Round:
    """An election by majority: which replicas have promised, and how far their logs go."""

    epoch: int
    asked_ns: int
    led_before: str | None
    logs: dict[str, tuple[int, int]] = field(default_factory=dict)


class Controller:
    """One process of the controller; what it has decided lies on its disk. `settings` of each
    partition."""

    def __init__(self, node: MemoryNode, settings: Sequence[Settings]) -> None:
        self.node, self.settings, self.of_part = node, settings[0], settings
        self._disk = node.disk.open("meta/decided")
        self._lives = node.disk.open("meta/lives")
        first = State(0, None, self.settings.names, 1)
        stored = self._disk.records[-1] if self._disk.records else [first] * len(settings)
        self.states: list[State] = list(stored)
        self.lives: dict[str, int] = dict(self._lives.records[-1]) if self._lives.records else {}
        now_ns, unknown = node.host.now_ns(), (False,) * len(settings)
        self.sessions = {name: Session(now_ns, unknown) for name in self.lives}
        self.rounds: dict[int, Round] = {}
        self._on: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
            "report": self._on_report,
            "alter": self._on_alter,
            "fenced": self._on_fenced,
        }

    def start(self) -> None:
        self.node.host.after(_TICK_NS, self._tick)

    def receive(self, source: str, message: Any) -> None:
        if (handle := self._on.get(message[0])) is not None:
            handle(source, message)

    def _tick(self) -> None:
        for number, state in enumerate(self.states):
            if state.leader is None or not self._alive(state.leader):
                self._elect(number)
        self.node.host.after(_TICK_NS, self._tick)

    def _alive(self, name: str) -> bool:
        session = self.sessions.get(name)
        limit_ns = self.node.host.now_ns() - self.settings.session_ms * MS
        return session is not None and session.heard_ns > limit_ns

    def _on_report(self, source: str, message: tuple[Any, ...]) -> None:
        _, life, sent_ns, known, blank = message
        if life < self.lives.get(source, 0):
            return
        self.sessions[source] = Session(self.node.host.now_ns(), blank)
        if life != self.lives.get(source):
            self.lives[source] = life
            self._lives.records[:] = [dict(self.lives)]
            self._lives.sync()
            self._new_process(source, blank)
        states = [
            (number, state)
            for number, state in enumerate(self.states)
            if known[number] != (state.epoch, state.version)
        ]
        self.node.send(source, ("session", sent_ns, states))

    def _new_process(self, name: str, blank: tuple[bool, ...]) -> None:
        """A replica was started again: it no longer leads anything, and if its disk was wiped it is
        not in sync."""
        for number, state in enumerate(self.states):
            by_isr = self.of_part[number].commit == "isr"
            if number in self.rounds:
                self.rounds[number].logs.pop(name, None)
            left = tuple(each for each in state.isr if each != name)
            if by_isr and blank[number] and left and left != state.isr:
                self._decide(number, state._replace(isr=left, version=state.version + 1))
            if state.leader == name:
                self._elect(number)

    def _on_alter(self, source: str, message: tuple[Any, ...]) -> None:
        """A leader's proposal for the in-sync set. Whatever is decided has a new version, so that a
        late copy of the proposal is not accepted after the leader has given it up."""
        _, number, epoch, version, isr = message
        state = self.states[number]
        if (epoch, source, version) != (state.epoch, state.leader, state.version):
            self.node.send(source, ("state", number, state))
            return
        joining = [name for name in isr if name not in state.isr]
        fit = all(self._alive(name) and not self.sessions[name].blank[number] for name in joining)
        accepted = tuple(isr) if fit else state.isr
        self._decide(number, state._replace(isr=accepted, version=version + 1))

    def _elect(self, number: int) -> None:
        if self.of_part[number].commit == "quorum":
            self._ask_majority(number)
            return
        state = self.states[number]
        unclean = UNCLEAN in self.of_part[number].defects
        names = self.settings.names if unclean else state.isr
        fit = [name for name in names if self._fit(name, number)]
        if not fit:
            return
        leader = min(fit, key=lambda name: name == state.leader)  # another one, if there is one
        in_sync = tuple(name for name in fit if name in state.isr)
        isr = in_sync if leader in in_sync else (leader,)
        self._lead(number, leader, isr, clean=leader in in_sync)

    def _fit(self, name: str, number: int) -> bool:
        return self._alive(name) and not self.sessions[name].blank[number]

    def _ask_majority(self, number: int) -> None:
        state, now_ns = self.states[number], self.node.host.now_ns()
        round_ = self.rounds.get(number)
        if round_ is None:
            epoch = state.epoch + 1
            round_ = self.rounds[number] = Round(epoch, now_ns, state.leader)
            self._decide(number, State(epoch, None, state.isr, 1), announce=False)
        elif now_ns - round_.asked_ns < _FENCE_AGAIN_NS:
            return
        round_.asked_ns = now_ns
        for name in self.settings.names:
            self.node.send(name, ("fence", number, round_.epoch))

    def _on_fenced(self, source: str, message: tuple[Any, ...]) -> None:
        _, number, epoch, life, last_epoch, end, blank = message
        round_ = self.rounds.get(number)
        if round_ is None or epoch != round_.epoch or blank or life != self.lives.get(source):
            return
        round_.logs[source] = (last_epoch, end)
        unclean = UNCLEAN in self.of_part[number].defects
        needed = 1 if unclean else self.settings.majority
        if len(round_.logs) >= needed:
            del self.rounds[number]
            names = sorted(round_.logs, key=lambda name: (name == round_.led_before, name))
            best = max(names, key=lambda name: round_.logs[name])
            clean = len(names) >= self.settings.majority
            self._lead(number, best, self.settings.names, clean=clean)

    def _lead(self, number: int, leader: str, isr: tuple[str, ...], *, clean: bool) -> None:
        state = self.states[number]
        epoch = state.epoch + (0 if self.settings.commit == "quorum" else 1)
        known = {"leader": leader, "clean": clean, "isr": state.isr}
        self.node.note("elected", partition=number, epoch=epoch, **known)
        self._decide(number, State(epoch, leader, isr, state.version + 1))

    def _decide(self, number: int, state: State, *, announce: bool = True) -> None:
        """Write a decision down, then send it to all replicas."""
        self.states[number] = state
        self._disk.records[:] = [list(self.states)]
        self._disk.sync()
        if announce:
            for name in self.settings.names:
                self.node.send(name, ("state", number, state))

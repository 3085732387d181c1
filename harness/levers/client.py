"""The client lever: crashes a real client of the workload, and puts a new one in its place.

The kernel shows a crash: no thread of the dead client is left in this process, and with its threads
its connections are gone. A client is identified by its id.

Clients end with the process that runs the plan. So if another process undoes a journal, its clients
never crashed: nothing is undone, and the probe reports which client is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.faults.records import ClientRecord, ConsumerRecord, FoundConsumer
from harness.levers.commands import poll_until
from harness.protocols import Lever, Proof
from harness.protocols.faults import ClientState, Crashes
from harness.protocols.groups import Consumers, ConsumerState

_MADE_S = 15  # librdkafka ends its threads one after the other; a new process has to connect


@dataclass(frozen=True)
class ClientLever(Lever[ClientRecord]):
    """Crashes a real client; the undo puts a new one in its place."""

    clients: Crashes
    name: ClassVar[str] = "client"

    def apply(self, record: ClientRecord) -> None:
        self.clients.crash(record.client, record.fault, at_once=record.at_once)

    def undo(self, record: ClientRecord) -> None:
        self.clients.replace(record.client, record.fault)

    def probe(self, record: ClientRecord, *, applied: bool) -> Proof:
        """In force: the dead client is gone, and its place is empty, or taken where the fault
        replaces it at once. Undone: a client runs there that is not the dead one."""
        made = _crashed if applied else _replaced

        def is_over() -> bool:
            state = self._state(record)
            met_nobody = state.death is not None and state.death.died is None
            return made(state, record) or met_nobody

        poll_until(is_over, within_s=_MADE_S)
        state = self._state(record)
        proven = made(state, record)
        return Proof(proven, [f"{record.node}: {_described(state, record.fault)}"])

    def _state(self, record: ClientRecord) -> ClientState:
        return self.clients.state(record.client, record.fault)


def _crashed(state: ClientState, record: ClientRecord) -> bool:
    death = state.death
    if death is None or death.died is None or not death.gone:
        return False
    if record.at_once:
        return death.successor is not None
    return state.alive is None


def _replaced(state: ClientState, record: ClientRecord) -> bool:
    if record.fault in state.kept_dead_by:
        return False
    died = state.death.died if state.death else None
    return (state.alive is not None and state.alive != died) or bool(state.kept_dead_by)


def _described(state: ClientState, fault: str) -> str:
    death, words = state.death, []
    if death is None:
        words.append("none crashed by this fault")
    elif death.died is None:
        words.append("no client was there to crash")
    else:
        left = "no thread or connection of it is left" if death.gone else "its threads still run"
        words.append(
            f"{death.died} crashed with {death.unknown} operations in flight, now unknown; {left}"
        )
    words.append(f"{state.alive} is there" if state.alive else "no client is there")
    others = sorted(state.kept_dead_by - {fault})
    if others:
        words.append(f"also kept dead by {', '.join(others)}")
    return "; ".join(words)


# The consumer lever: a consumer of the run's groups crashes, pauses, leaves or joins, and back.
#
# If a run has several groups, the fault affects the consumer of that number in each of them.
# Consumers end with the process that runs the plan: if another process undoes a journal, there is
# nothing to do.
#
# Faults overlap. One that has nothing to do (a crash where no consumer runs, a pause of a paused
# one) does nothing, is not proven, and its end does nothing either. A consumer is started again
# when the last of the faults that ended it is healed.

_SEEN_S = 10
_ENDS = ("crash", "leave")


@dataclass(frozen=True)
class ConsumerLever(Lever[ConsumerRecord]):
    """Acts on one consumer of each group, by its number."""

    groups: Sequence[Consumers]
    name: ClassVar[str] = "consumer"
    _ended_by: dict[tuple[int, int], set[str]] = field(default_factory=dict)
    """The faults that ended a consumer and are not healed, by the group and its number."""

    def capture_prior_state(self, record: ConsumerRecord) -> ConsumerRecord:
        """What is there in each group; None when that cannot be seen."""
        found = None
        with suppress(HarnessFailure):
            states = [group.state(record.consumer) for group in self.groups]
            found = tuple(FoundConsumer(life=each.life, paused=each.paused) for each in states)
        return replace(record, found=found)

    def apply(self, record: ConsumerRecord) -> None:
        """Do it to the consumer of each group where there is something to do."""
        for place in self._places(record):
            if not place.futile:
                place.ended_by.update({record.fault} if record.action in _ENDS else ())
                place.group.act(record.consumer, record.action)

    def undo(self, record: ConsumerRecord) -> None:
        """End it, unless it did nothing, another fault keeps the consumer down, or the life that it
        paused is not there any more."""
        for place in self._places(record):
            place.ended_by.discard(record.fault)
            down = record.action in _ENDS and place.ended_by
            paused, found = record.action == "pause", place.found
            another = paused and found is not None and place.state().life != found.life
            if not (place.futile or down or another):
                place.group.undo(record.consumer, record.action)

    def probe(self, record: ConsumerRecord, *, applied: bool) -> Proof:
        """In force: by the kernel, the process that was there is gone or stopped, or one runs where
        none did. Undone: one runs, unless another fault keeps it down, or it has left again."""
        places = self._places(record)

        def as_wanted() -> bool:
            return all(each.in_force() if applied else each.undone() for each in places)

        if not (applied and any(each.futile or each.found is None for each in places)):
            poll_until(as_wanted, within_s=_SEEN_S)
        return Proof(as_wanted(), [each.described(record.node) for each in places])

    def _places(self, record: ConsumerRecord) -> list[_Place]:
        found = record.found if record.found is not None else [None] * len(self.groups)
        return [
            _Place(group, record, each, self._ended_by.setdefault((nth, record.consumer), set()))
            for nth, (group, each) in enumerate(zip(self.groups, found, strict=True))
        ]


@dataclass(frozen=True)
class _Place:
    """A consumer of one group, what was `found` there before a fault (None: that is not known), and
    the faults that ended it and are not healed."""

    group: Consumers
    record: ConsumerRecord
    found: FoundConsumer | None
    ended_by: set[str]

    @property
    def futile(self) -> bool:
        """Whether the fault had nothing to do."""
        if self.found is None:
            return False
        if self.record.action == "join":
            return self.found.life is not None
        return self.found.life is None or (self.record.action == "pause" and self.found.paused)

    def state(self) -> ConsumerState:
        return self.group.state(self.record.consumer)

    def in_force(self) -> bool:
        if self.futile or self.found is None:
            return False
        state = self.state()
        if self.record.action in _ENDS:
            return state.life is None
        if self.record.action == "pause":
            return state.paused and state.life == self.found.life
        return state.life is not None and not state.paused

    def undone(self) -> bool:
        state = self.state()
        if self.futile:
            return True
        if self.record.action == "join":
            return state.life is None
        kept_down = self.ended_by or state.node_kept_dead_by
        return bool(kept_down) or (state.life is not None and not state.paused)

    def described(self, name: str) -> str:
        state, action = self.state(), self.record.action
        words = "does not run"
        if state.life is not None:
            words = f"life {state.life} {'is paused' if state.paused else 'runs'}"
        words += f"; {state.ended}"
        if self.found is None:
            words += "; what was there before is not known"
        elif self.futile:
            what = {"join": "it was there before", "pause": "it was paused, or not there, before"}
            words += f"; {what.get(action, 'none was there before')}"
        if others := sorted(self.ended_by - {self.record.fault}):
            words += f"; also kept down by {', '.join(others)}"
        if state.node_kept_dead_by:
            words += f"; its node is kept dead by {', '.join(state.node_kept_dead_by)}"
        return f"{name}: {words}"

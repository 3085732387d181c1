"""The client lever: crashes a real client of the workload, and puts a new one in its place.

The kernel shows a crash: no thread of the dead client is left in this process, and with its threads
its connections are gone. A client is identified by its id.

Clients end with the process that runs the plan. So if another process undoes a journal, its clients
never crashed: nothing is undone, and the probe reports which client is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.records import ClientRecord
from harness.levers.commands import poll_until
from harness.protocols import Lever, Proof, UndoRecord
from harness.protocols.crashes import ClientState, Crashes

_GONE_S = 15  # librdkafka ends its threads one after the other, slowly on a busy machine


@dataclass(frozen=True)
class ClientLever(Lever[ClientRecord]):
    """Crashes a real client; the undo puts a new one in its place."""

    clients: Crashes
    name: ClassVar[str] = "client"
    record_type: ClassVar[type[UndoRecord]] = ClientRecord

    def apply(self, record: ClientRecord) -> None:
        self.clients.crash(record.client, record.fault, at_once=record.at_once)

    def undo(self, record: ClientRecord) -> None:
        self.clients.replace(record.client, record.fault)

    def probe(self, record: ClientRecord, *, applied: bool) -> Proof:
        """In force: the dead client is gone, and its place is empty, or taken where the fault
        replaces it at once. Undone: a client runs there that is not the dead one."""
        poll_until(lambda: _ended(self._state(record)), within_s=_GONE_S)
        state = self._state(record)
        proven = (_crashed if applied else _replaced)(state, record)
        return Proof(proven, [f"{record.node}: {_described(state, record.fault)}"])

    def _state(self, record: ClientRecord) -> ClientState:
        return self.clients.state(record.client, record.fault)


def _ended(state: ClientState) -> bool:
    """Whether nothing is left of the dead client, if any died."""
    return state.death is None or state.death.died is None or state.death.gone


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

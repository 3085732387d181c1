"""The process of a replica: its partitions, its session with the controller, its lease.

The lease: the controller treats a replica as dead only when it has not heard from it for a
session's length, and a replica counts three quarters of that from when it *sent* the report that
was answered. Until then no other replica can have become leader, so it may answer reads alone. All
clocks run at the same rate; a process that was paused finds its lease expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.clusters.memory.node import MemoryNode
from targets.memory.log import Stored
from targets.memory.part import Part
from targets.memory.settings import CONTROLLER, READS, STALE_READS, Settings
from targets.memory.state import State
from targets.memory.transactions import ENDS

MS: Final = 1_000_000
_TICK_NS: Final = 20 * MS
_NOTE_EVERY: Final = 10


class Replica:
    """One process, from its start to its death; `settings` of each of its partitions."""

    def __init__(self, node: MemoryNode, settings: Sequence[Settings]) -> None:
        self.node, self.settings = node, settings[0]
        self.parts = [
            Part(node, of_part, number, self.has_lease) for number, of_part in enumerate(settings)
        ]
        self._lease_until_ns = -1
        self._reported_ns = -1
        self._ticks = 0

    def start(self) -> None:
        """Report to the controller, and begin to tick at a moment of this node's own."""
        self._report()
        self.node.host.after(int(self.node.host.random.random() * _TICK_NS), self._tick)

    def receive(self, source: str, message: Any) -> None:
        """A message from another replica, the controller or a client."""
        kind = message[0]
        if kind == "session":
            self._on_session(message)
            return
        part = self.parts[message[1]]
        leading = part.leading
        if kind == "append":
            part.on_append(source, message)
        elif kind == "op":
            self._on_request(part, source, message)
        elif kind == "state":
            part.instruct(message[2])
        elif kind == "fence":
            if (promise := part.fence(message[2])) is not None:
                self.node.send(source, promise)
        elif kind == "stale":
            part.adopt(State(message[2], None, part.state.isr, 0))
        elif kind == "acked" and leading is not None:
            leading.on_acked(source, message)
        elif kind == "behind" and leading is not None:
            leading.on_behind(source, message)
        elif kind == "mark" and leading is not None:
            leading.on_mark(source, message)
        elif kind == "marked" and leading is not None and leading.transactions is not None:
            leading.transactions.on_marked(message)

    def has_lease(self) -> bool:
        """Whether it is certain that no other replica leads what this one leads."""
        return self.node.host.now_ns() < self._lease_until_ns

    def _tick(self) -> None:
        now_ns = self.node.host.now_ns()
        for part in self.parts:
            if part.leading is not None:
                part.leading.tick()
        if now_ns - self._reported_ns >= self.settings.heartbeat_ms * MS:
            self._report()
        self._ticks += 1
        if self._ticks % _NOTE_EVERY == 0:
            for part in self.parts:
                part.stored.log.sync_note()
        self.node.host.after(_TICK_NS, self._tick)

    def _report(self) -> None:
        """Report to the controller that this process lives, and what it knows."""
        self._reported_ns = now_ns = self.node.host.now_ns()
        known = tuple((part.state.epoch, part.state.version) for part in self.parts)
        blank = tuple(part.blank for part in self.parts)
        self.node.send(CONTROLLER, ("report", self.node.starts, now_ns, known, blank))

    def _on_session(self, message: tuple[Any, ...]) -> None:
        _, sent_ns, states = message
        for number, state in states:
            self.parts[number].adopt(state)
        for part in self.parts:
            part.instructed = True
        lease_ns = sent_ns + self.settings.session_ms * MS * 3 // 4
        self._lease_until_ns = max(self._lease_until_ns, lease_ns)

    def _on_request(self, part: Part, source: str, message: Any) -> None:
        f, key = message[5], message[6]
        if f in READS and STALE_READS in part.settings.defects:
            answer: tuple[Any, ...] = ("ok", _read(part.stored, f, key, *message[7:9]), None)
        elif part.leading is not None:
            part.leading.on_request(source, message)
            return
        else:
            answer = ("refused", "not-leader", part.state.leader)
        self.node.send(source, ("reply", message[2], message[3], message[4], *answer))


def _read(stored: Stored, f: str, key: str | None, offset: int, limit: int) -> Any:
    """What a replica answers without checking whether it leads."""
    if f == "fetch":
        return stored.fetch(offset, limit, stored.commit, key)
    return stored.ends() if f == ENDS else stored.read(f, key)

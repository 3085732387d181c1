"""The process of a replica: its partitions, its session with the controller, its lease.

The lease: the controller treats a replica as dead only when it has not heard from it for a
session's length, and a replica counts three quarters of that from when it *sent* the report that
was answered. Until then no other replica can have become leader, so it may answer reads alone. All
clocks run at the same rate; a process that was paused finds its lease expired.

One partition on one replica: follows a leader, or leads (see `targets.memory.leading`).

Replication is Raft's: a leader's entries come with the offset and the epoch of the entry before
them, and a follower that has another entry there discards what differs. Who leads is decided by the
controller; a replica obeys the highest epoch that it has seen and stores it on its disk.

A replica whose disk was wiped is *blank*: it may have acknowledged what it no longer has. It does
not take part in elections until it has caught up with a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from harness.clusters.memory.node import MemoryNode
from targets.memory.controller import State
from targets.memory.leading import Leading
from targets.memory.log import Entry, Stored
from targets.memory.settings import CONTROLLER, FORGETFUL, NO_EPOCHS, READS, STALE_READS, Settings
from targets.memory.transactions import ENDS


class Part:
    """One partition on one replica, from the start of its process on."""

    def __init__(
        self, node: MemoryNode, settings: Settings, number: int, has_lease: Callable[[], bool]
    ) -> None:
        self.node, self.settings = node, settings
        self.number, self.has_lease = number, has_lease
        formatted = node.disk.exists(f"data/log-{number}/meta")
        self._meta = node.disk.open(f"data/log-{number}/meta")
        fresh = (0, node.starts > 1)  # not the first start: there was a disk, now wiped
        epoch, blank = self._meta.records[-1] if formatted else fresh
        self.blank: bool = blank
        self.instructed = not self.blank  # a blank one has forgotten what it promised
        synced, defects = settings.fsync == "always", settings.defects
        self.stored = Stored(node.disk, number, synced=synced, defects=defects)
        self.state = State(epoch, None, (), 0)
        self._booted_epoch, self._promised = epoch, 0
        self.leading: Leading | None = None
        self._from_new_leader = True
        self._remember()

    def instruct(self, state: State) -> None:
        """The controller's decision, from itself."""
        self.instructed = True
        self.adopt(state)

    def adopt(self, state: State) -> None:
        """Obey what the controller has decided, unless something newer was heard."""
        mine = self.state
        if state.epoch < mine.epoch:
            return
        if state.epoch == mine.epoch and mine.leader is not None:
            if state.leader == mine.leader and state.version > mine.version:
                self.state = state
                if self.leading is not None:
                    self.leading.confirmed(state)
            return
        if state.leader == self.node.name and not self._may_lead(state.epoch):
            return  # meant for this node's earlier process: the controller will decide again
        self.step_down()
        self.state = state
        self._from_new_leader = True
        self._remember()
        if state.leader == self.node.name:
            if FORGETFUL in self.settings.defects:
                self.stored.truncate(self.stored.commit)
            self.leading = Leading(self.node, self.settings, self.stored, state, self.has_lease)

    def fence(self, epoch: int) -> tuple[Any, ...] | None:
        """Promise to accept nothing of an older epoch; how far this log goes. None: too late."""
        mine = self.state
        if epoch < mine.epoch or (epoch == mine.epoch and mine.leader is not None):
            return None
        if epoch > mine.epoch:
            self.step_down()
            self.state = State(epoch, None, mine.isr, 0)
            self._remember()
        self._promised = epoch
        life, log = self.node.starts, self.stored.log
        last_epoch = log.epoch_before(log.end)
        return ("fenced", self.number, epoch, life, last_epoch, log.end, self.blank)

    def _may_lead(self, epoch: int) -> bool:
        """Whether it was this process that was chosen, and not one that has died since."""
        return not self.blank and (epoch > self._booted_epoch or epoch == self._promised)

    def step_down(self) -> None:
        """Lead no more; what waits for its commit may still be committed, or never."""
        leading, self.leading = self.leading, None
        if leading is not None:
            leading.give_up()

    def on_append(self, source: str, message: tuple[Any, ...]) -> None:
        """A leader's entries, from an offset on: what it has before them, and up to where it has
        committed."""
        _, number, epoch, start, epoch_before, entries, commit = message
        mine, node = self.state, self.node
        if not self.instructed:
            return
        if epoch < mine.epoch:
            node.send(source, ("stale", number, mine.epoch))
            return
        if epoch > mine.epoch or mine.leader is None:
            self.adopt(State(epoch, source, mine.isr, 0))
        stored, log, end = self.stored, self.stored.log, start + len(entries)
        careless = NO_EPOCHS in self.settings.defects
        if careless and self._from_new_leader and log.end > end:
            stored.truncate(end)
        if start > log.end:
            node.send(source, ("behind", number, epoch, log.end))
            return
        if not careless and log.epoch_before(start) != epoch_before:
            node.send(source, ("behind", number, epoch, log.run_start(start)))
            return
        self._from_new_leader = False
        if entries:
            self._take(start, entries, careless=careless)
        if self.blank and log.end and log.entries[-1].epoch == epoch:
            self.blank = False
            self._remember()
        if commit > stored.commit:
            stored.commit_to(min(commit, end))
        node.send(source, ("acked", number, epoch, end))

    def _take(self, start: int, entries: list[Entry], *, careless: bool) -> None:
        """Append what is new; where an entry is of another epoch, all from there on is replaced."""
        log = self.stored.log
        known = min(log.end - start, len(entries))
        if not careless:
            for place in range(known):
                if log.entries[start + place].epoch != entries[place].epoch:
                    self.stored.truncate(start + place)
                    known = place
                    break
        log.extend(entries[known:] if known else entries)

    def _remember(self) -> None:
        """Keep epoch and blankness on the disk, safe at once."""
        self._meta.records[:] = [(self.state.epoch, self.blank)]
        self._meta.sync()


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

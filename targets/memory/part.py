"""One partition on one replica: follows a leader, or leads (see `targets.memory.leading`).

Replication is Raft's: a leader's entries come with the offset and the epoch of the entry before
them, and a follower that has another entry there discards what differs. Who leads is decided by the
controller; a replica obeys the highest epoch that it has seen and stores it on its disk.

A replica whose disk was wiped is *blank*: it may have acknowledged what it no longer has. It does
not take part in elections until it has caught up with a leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.clusters.memory.node import MemoryNode
from targets.memory.leading import Leading
from targets.memory.log import Entry, Stored
from targets.memory.settings import FORGETFUL, NO_EPOCHS, Settings
from targets.memory.state import State


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

"""One partition on one replica: follows a leader, or leads (see `targets.memory.leading`).

Replication is Raft's: a leader's entries come with the offset and the epoch of the entry before
them, and a follower that has another entry there discards what differs. Who leads is decided by the
controller; a replica obeys the highest epoch that it has heard of and remembers it on its disk.

A replica whose disk was wiped is *blank*: it may have acknowledged what it no longer has. It takes
no part in elections until it has caught up with a leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from targets.memory.leading import Leading
from targets.memory.log import Entry, Log, Registers
from targets.memory.settings import FORGETFUL, NO_EPOCHS

if TYPE_CHECKING:
    from targets.memory.replica import Replica


class State(NamedTuple):
    """What the controller has decided for a partition. No leader: None."""

    epoch: int
    leader: str | None
    isr: tuple[str, ...]
    version: int


class Part:
    """One partition on one replica, from the start of its process on."""

    def __init__(self, replica: Replica, number: int) -> None:
        self.replica = replica
        self.settings = replica.settings
        self.number = number
        self.name = replica.node.name
        folder, disk = f"data/log-{number}", replica.node.disk
        formatted = disk.exists(f"{folder}/meta")
        self._meta = disk.open(f"{folder}/meta")
        fresh = (0, replica.node.starts > 1)  # not the first start: there was a disk, now wiped
        epoch, blank = self._meta.records[-1] if formatted else fresh
        self.blank: bool = blank
        self.instructed = not self.blank  # a blank one has forgotten what it promised
        self.log = Log(disk, folder, synced=self.settings.fsync == "always")
        self.state = State(epoch, None, (), 0)
        self.booted_epoch = epoch
        self.leading: Leading | None = None
        self.registers = Registers()
        self.commit = 0
        self._from_new_leader = True
        self._remember()
        self.commit_to(self.log.noted_committed())

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
        if state.leader == self.name and (state.epoch <= self.booted_epoch or self.blank):
            return  # meant for this node's earlier process: the controller will decide again
        self.step_down()
        self.state = state
        self._from_new_leader = True
        self._remember()
        if state.leader == self.name:
            if FORGETFUL in self.settings.defects:
                self.truncate(self.commit)
            self.leading = Leading(self)

    def fence(self, epoch: int) -> tuple[Any, ...] | None:
        """Promise to accept nothing of an older epoch; how far this log goes. None: too late."""
        mine = self.state
        if epoch < mine.epoch or (epoch == mine.epoch and mine.leader is not None):
            return None
        if epoch > mine.epoch:
            self.step_down()
            self.state = State(epoch, None, mine.isr, 0)
            self._remember()
        end = self.log.end
        return ("fenced", self.number, epoch, self.log.epoch_before(end), end, self.blank)

    def step_down(self) -> None:
        """Lead no more; what waits for its commit may still be committed, or never."""
        leading, self.leading = self.leading, None
        if leading is not None:
            leading.give_up()

    def on_append(self, source: str, message: tuple[Any, ...]) -> None:
        """A leader's entries, from an offset on: what it has before them, and up to where it has
        committed."""
        _, number, epoch, start, epoch_before, entries, commit = message
        mine, node = self.state, self.replica.node
        if not self.instructed:
            return
        if epoch < mine.epoch:
            node.send(source, ("stale", number, mine.epoch))
            return
        if epoch > mine.epoch or mine.leader is None:
            self.adopt(State(epoch, source, mine.isr, 0))
        log, end = self.log, start + len(entries)
        careless = NO_EPOCHS in self.settings.defects
        if careless and self._from_new_leader and log.end > end:
            self.truncate(end)
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
        if commit > self.commit:
            self.commit_to(min(commit, end))
        node.send(source, ("acked", number, epoch, end))

    def commit_to(self, offset: int) -> None:
        """Everything below an offset is committed: apply it."""
        entries, registers = self.log.entries, self.registers
        if offset <= self.commit:
            return
        while registers.applied < offset:
            registers.apply(entries[registers.applied])
        self.commit = offset
        self.log.note_committed(offset)

    def read(self, f: str, key: str | None) -> Any:
        """What is committed, as far as this replica knows: of one register, or all of the log as
        (offset, key, value) of what clients have written."""
        if f == "read":
            return self.registers.values.get(key)
        entries = self.log.entries[: self.commit]
        return [(at, entry.key, entry.value) for at, entry in enumerate(entries) if entry.seq]

    def truncate(self, end: int) -> None:
        """Discard entries. Below what is committed only a defect discards."""
        if end >= self.log.end:
            return
        self.log.truncate(end)
        if end < self.commit:
            self.commit, self.registers = 0, Registers()
            self.commit_to(end)

    def _take(self, start: int, entries: list[Entry], *, careless: bool) -> None:
        """Append what is new; where an entry is of another epoch, all from there on is replaced."""
        log = self.log
        known = min(log.end - start, len(entries))
        if not careless:
            for place in range(known):
                if log.entries[start + place].epoch != entries[place].epoch:
                    self.truncate(start + place)
                    known = place
                    break
        log.extend(entries[known:] if known else entries)

    def _remember(self) -> None:
        """Keep epoch and blankness on the disk, safe at once."""
        self._meta.records[:] = [(self.state.epoch, self.blank)]
        self._meta.sync()

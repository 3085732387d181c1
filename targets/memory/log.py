"""What a replica stores of one partition: a log on its simulated disk, and what follows from it.

Among it are transactions over several partitions, in two phases. Their coordinator is the leader of
a separate partition, whose entries decide:

    begin   a transaction, and the data partitions that it may send to
    end     it commits or aborts: the first such entry of a transaction is the decision
    done    every partition of it has its marker

A client begins a transaction, sends to data partitions (entries `send` with its name), and requests
its end, which is acknowledged once the decision is replicated. The coordinator then has the leaders
of the data partitions append a marker each, again and again until they have. A transaction that has
no end for long is aborted. A data partition refuses what is sent after its marker.

What a transaction has consumed of a log is an entry `offsets` of the coordinator: with the name of
the transaction it holds once that commits, without a name at once. Another instance of a producer
takes over (`fence`) by the decision that what is open aborts.

A reader of `read_committed` gets what is below the *last stable offset*, the first of a transaction
that has no marker yet, without what markers say was aborted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from harness.clusters.memory.node import Disk, File
from harness.protocols.groups import READ_COMMITTED
from targets.memory.plan import DELIVER_ABORTED, LOOSE_OFFSETS, PAST_OPEN, PHANTOMS

SEND: Final = "send"
MARKER: Final = "marker"
BEGIN: Final = "begin"
TX_END: Final = "end"
DONE: Final = "done"
OFFSETS: Final = "offsets"
FENCE: Final = "fence"
"""The request that an earlier instance's transaction is aborted; an entry `end`."""
CONSUMED: Final = "consumed"
"""The request for how far a log has been consumed."""

ENDS: Final = "ends"
"""The request for the last stable offset and the end of what is committed."""

LATE_SEND: Final = "transaction-has-ended"
OTHERWISE: Final = "transaction-ended-otherwise"

NO_OP: Final = "no-op"
"""What a leader appends first in its epoch: committing it commits everything before."""


class Entry(NamedTuple):
    """One entry. `process` and `seq` name the request: a retry has the same."""

    epoch: int
    f: str
    key: str | None
    value: int | None
    expected: int | None
    process: int
    seq: int


@dataclass
class Marks:
    """What a data partition's entries state about transactions: the first offset of each that is
    open, and whether those committed that have their marker."""

    open: dict[str, int] = field(default_factory=dict)
    ended: dict[str, bool] = field(default_factory=dict)

    def apply(self, offset: int, entry: Entry) -> None:
        """Take the next entry."""
        name = entry.key or ""
        if entry.f == SEND and name not in self.ended:
            self.open.setdefault(name, offset)
        elif entry.f == MARKER:
            self.open.pop(name, None)
            self.ended.setdefault(name, bool(entry.expected))

    def stable(self, behind: int) -> int:
        """The last stable offset, where entries are committed below `behind`."""
        return min(self.open.values(), default=behind)

    def shows(self, entry: Entry) -> bool:
        """Whether an entry has committed, or belongs to no transaction."""
        return entry.f != SEND or self.ended.get(entry.key or "", False)


def marks_of(entries: Iterable[Entry]) -> Marks:
    """What these entries say, the first of which stands at 0."""
    marks = Marks()
    for offset, entry in enumerate(entries):
        marks.apply(offset, entry)
    return marks


@dataclass
class Decided:
    """A transaction as the coordinator's entries have it; `commits` is open until it has an end."""

    partitions: tuple[int, ...]
    commits: bool | None = None
    consumed: dict[str, int] = field(default_factory=dict)


@dataclass
class Ledger:
    """What the coordinator's entries say; `unfinished`: what is not done; `consumed`: the next
    offset of each log. `loose`: a defect."""

    known: dict[str, Decided] = field(default_factory=dict)
    unfinished: dict[str, Decided] = field(default_factory=dict)
    consumed: dict[str, int] = field(default_factory=dict)
    loose: bool = False

    def apply(self, entry: Entry) -> bool:
        """Take the next entry; False: an end of a transaction that ended otherwise."""
        if entry.f == BEGIN:
            name, partitions = named_in(entry.key or "")
            self.known[name] = self.unfinished[name] = Decided(partitions)
        elif entry.f == DONE:
            self.unfinished.pop(entry.key or "", None)
        elif entry.f == OFFSETS:
            name, _, log = (entry.key or "").partition("/")
            of = self.known.get(name)
            if of is not None and of.commits is not None:
                return False
            kept = self.consumed if of is None or self.loose else of.consumed
            kept[log] = entry.value or 0
        elif entry.f == TX_END:
            if (one := self.known.get(entry.key or "")) is None:
                return False
            if one.commits is None:
                one.commits = bool(entry.expected)
                if one.commits:
                    self.consumed.update(one.consumed)
            return one.commits == bool(entry.expected)
        return True


def begin_key(name: str, partitions: Iterable[int]) -> str:
    """The key of an entry `begin`."""
    return f"{name}/{','.join(map(str, partitions))}"


def named_in(key: str) -> tuple[str, tuple[int, ...]]:
    """The transaction and the partitions that an entry `begin` names."""
    name, _, numbers = key.partition("/")
    return name, tuple(int(each) for each in numbers.split(",") if each)


class Log:
    """Entries by offset. What it holds is what its file on the disk holds."""

    def __init__(self, disk: Disk, folder: str, *, synced: bool) -> None:
        self._file: File = disk.open(f"{folder}/records")
        self._checkpoint: File = disk.open(f"{folder}/checkpoint")
        self._synced = synced
        self.entries: list[Entry] = self._file.records
        self.requests: dict[int, tuple[int, int]] = {}
        self._index()

    @property
    def end(self) -> int:
        return len(self.entries)

    def epoch_before(self, offset: int) -> int:
        """The epoch of the entry before an offset; 0 before the first."""
        return self.entries[offset - 1].epoch if offset else 0

    def epochs(self) -> list[tuple[int, int]]:
        """Each run of entries of one epoch: the epoch, and the offset where it begins."""
        entries = self.entries
        return [
            (entry.epoch, offset)
            for offset, entry in enumerate(entries)
            if not offset or entries[offset - 1].epoch != entry.epoch
        ]

    def append(self, entry: Entry) -> int:
        """Append an entry; its offset."""
        offset = len(self.entries)
        self.entries.append(entry)
        self.requests[entry.process] = (entry.seq, offset)
        if self._synced:
            self._file.synced = offset + 1
        return offset

    def extend(self, entries: list[Entry]) -> None:
        """Append entries of a leader."""
        for entry in entries:
            self.append(entry)

    def truncate(self, end: int) -> None:
        """Discard everything from an offset on."""
        self._file.cut(end)
        self._index()

    def run_start(self, offset: int) -> int:
        """The first offset of the run of entries of one epoch that holds the entry before it."""
        epoch = self.epoch_before(offset)
        while offset and self.entries[offset - 1].epoch == epoch:
            offset -= 1
        return offset

    def note_committed(self, offset: int) -> None:
        """Record up to where entries are committed. It is fsynced by the next `sync_note`."""
        records, synced = self._checkpoint.records, self._checkpoint.synced
        if len(records) > synced:
            records[-1] = offset
        else:
            records.append(offset)

    def sync_note(self) -> None:
        """Fsync the note of what is committed."""
        records = self._checkpoint.records
        if len(records) > self._checkpoint.synced:
            records[:] = records[-1:]
            self._checkpoint.synced = 1

    def noted_committed(self) -> int:
        """Up to where entries are known to be committed, after a start."""
        records = self._checkpoint.records
        return min(records[-1], self.end) if records else 0

    def _index(self) -> None:
        self.requests = {
            entry.process: (entry.seq, offset) for offset, entry in enumerate(self.entries)
        }


class Registers:
    """What follows from applying committed entries in order: registers, a queue, results of
    requests, and the outcome of transactions. `taken`: what each process took out last; `last`: the
    element that was dequeued last."""

    def __init__(self, defects: frozenset[str] = frozenset()) -> None:
        self.values: dict[str | None, int | None] = {}
        self.results: dict[int, tuple[int, bool]] = {}
        self.marks, self.ledger = Marks(), Ledger(loose=LOOSE_OFFSETS in defects)
        self.queue = deque[int | None]()
        self.taken: dict[int, Any] = {}
        self.last: int | None = None
        self.defects = defects
        self.applied = 0

    def apply(self, entry: Entry) -> bool:
        """Apply the next entry; False: a compare-and-set that found another value, or the end of a
        transaction that ended otherwise."""
        self.applied += 1
        done = True
        if entry.f in ("write", "delete"):
            self.values[entry.key] = entry.value if entry.f == "write" else None
        elif entry.f == "cas":
            done = self.values.get(entry.key) == entry.expected
            if done:
                self.values[entry.key] = entry.value
        elif entry.f == "enqueue":
            self.queue.append(entry.value)
        elif entry.f == "drain":
            self.taken[entry.process] = tuple(self.queue)
            self.queue.clear()
        elif entry.f == "dequeue" and self.queue:
            self.taken[entry.process] = self.last = self.queue.popleft()
        elif entry.f == "dequeue":
            self.taken[entry.process] = -self.applied if PHANTOMS in self.defects else None
        elif entry.f in (SEND, MARKER):
            self.marks.apply(self.applied - 1, entry)
        elif entry.f in (BEGIN, OFFSETS, TX_END, DONE):
            done = self.ledger.apply(entry)
        if entry.seq:
            self.results[entry.process] = (entry.seq, done)
        return done


class Stored:
    """A partition as one replica has it: its log, what of it is committed, what follows from it."""

    def __init__(
        self, disk: Disk, number: int, *, synced: bool, defects: frozenset[str] = frozenset()
    ) -> None:
        self.number = number
        self.log = Log(disk, f"data/log-{number}", synced=synced)
        self.registers = Registers(defects)
        self.defects = defects
        self.commit = 0
        self.commit_to(self.log.noted_committed())

    def commit_to(self, offset: int) -> None:
        """Everything below an offset is committed: apply it."""
        entries, registers = self.log.entries, self.registers
        if offset <= self.commit:
            return
        while registers.applied < offset:
            registers.apply(entries[registers.applied])
        self.commit = offset
        self.log.note_committed(offset)

    def truncate(self, end: int) -> None:
        """Discard entries. Below what is committed only a defect discards."""
        if end >= self.log.end:
            return
        self.log.truncate(end)
        if end < self.commit:
            self.commit, self.registers = 0, Registers(self.defects)
            self.commit_to(end)

    def read(self, f: str, key: str | None) -> Any:
        """What is committed, as far as this replica knows: of one register, how far one log was
        consumed, or all of the log as (offset, key, value) of what clients have written."""
        if f == CONSUMED:
            return self.registers.ledger.consumed.get(key or "", 0)
        if f == "read":
            return self.registers.values.get(key)
        entries = self.log.entries[: self.commit]
        return [(at, entry.key, entry.value) for at, entry in enumerate(entries) if entry.seq]

    def ends(self) -> tuple[int, int]:
        """The last stable offset, and the end of what is committed."""
        return self.registers.marks.stable(self.commit), self.commit

    def fetch(
        self, first: int, limit: int, behind: int, isolation: str | None = None
    ) -> tuple[list[tuple[int, int]], int]:
        """The records of clients from an offset on, so many at most and below `behind`, as (offset,
        value), and the offset to continue from. With the isolation read_committed those that have
        committed, below the last stable offset."""
        records: list[tuple[int, int]] = []
        marks, committed = self.registers.marks, isolation == READ_COMMITTED
        if committed and PAST_OPEN not in self.defects:
            behind = min(behind, marks.stable(self.commit))
        following = min(first, behind)
        for offset in range(first, behind):
            if len(records) == limit:
                break
            entry = self.log.entries[offset]
            shown = not committed or DELIVER_ABORTED in self.defects or marks.shows(entry)
            if entry.seq and entry.value is not None and shown:
                records.append((offset, entry.value))
            following = offset + 1
        return records, following

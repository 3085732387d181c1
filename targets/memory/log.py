"""What a replica stores of one partition: a log on its simulated disk, and what follows from it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from harness.clusters.memory.node import Disk, File
from harness.protocols.transactions import READ_COMMITTED
from targets.memory.plan import DELIVER_ABORTED, LOOSE_OFFSETS, PAST_OPEN
from targets.memory.transactions import (
    BEGIN,
    CONSUMED,
    MARKER,
    OFFSETS,
    SEND,
    TX_END,
    Ledger,
    Marks,
)
from targets.memory.transactions import DONE as TX_DONE

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
    """What follows from applying committed entries in order: registers, results of requests, and
    the outcome of transactions."""

    def __init__(self, defects: frozenset[str] = frozenset()) -> None:
        self.values: dict[str | None, int | None] = {}
        self.results: dict[int, tuple[int, bool]] = {}
        self.marks, self.ledger = Marks(), Ledger(loose=LOOSE_OFFSETS in defects)
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
        elif entry.f in (SEND, MARKER):
            self.marks.apply(self.applied - 1, entry)
        elif entry.f in (BEGIN, OFFSETS, TX_END, TX_DONE):
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

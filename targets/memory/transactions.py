"""Transactions over several partitions, in two phases: what logs say, and their coordinator.

The coordinator is the leader of a separate partition, whose entries decide:

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

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from targets.memory.leading import Leading
    from targets.memory.log import Entry

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


class Known(NamedTuple):
    """What a leader of the coordinator's partition keeps of an unfinished transaction in memory:
    when it first saw it, and which partitions have reported that they have its marker."""

    seen_ns: int
    marked: set[int]


@dataclass
class TransactionCoordinator:
    """What the leader of the coordinator's partition does, in one epoch."""

    leading: Leading
    open_ns: int
    _known: dict[str, Known] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)
    """Transactions that this leader itself has appended the end of, or that they are done."""

    def tick(self) -> None:
        """Abort what has no end for long; have markers appended."""
        now_ns = self.leading.node.host.now_ns()
        for name, one in list(self.leading.stored.registers.ledger.unfinished.items()):
            known = self._known.setdefault(name, Known(now_ns, set()))
            if one.commits is None:
                if now_ns - known.seen_ns >= self.open_ns:
                    self._write(TX_END, name, 0)
            elif known.marked >= set(one.partitions):
                self._write(DONE, name, None)
            else:
                self._request_markers(name, one, known)

    def on_marked(self, message: tuple[Any, ...]) -> None:
        """A partition has the marker of a transaction."""
        _, _, name, partition = message
        if (known := self._known.get(name)) is not None:
            known.marked.add(partition)

    def _request_markers(self, name: str, one: Decided, known: Known) -> None:
        """Of every node, since only the leader does it."""
        own = self.leading.stored.number
        for partition in one.partitions:
            if partition not in known.marked:
                for node in self.leading.settings.names:
                    self.leading.node.send(node, ("mark", partition, own, name, one.commits))

    def _write(self, f: str, name: str, flag: int | None) -> None:
        written = f"{f}/{name}"
        if written not in self._written:
            self._written.add(written)
            self.leading.write(f, name, flag)

"""The outcome of every written value, and what is found: a tally over all of them, a closer look at
a few, and these as a table.

One byte per value shows whether it was invoked, how it ended and whether it was read. A value is
*plain* when its place in the log is what was promised: acknowledged and read, once and where it was
sent to; refused and not read; or unknown and either of them. Plain values are counted by their
bytes. All others are *odd*: lost, refused and found, duplicated, unexpected, on a wrong partition.
If none is anomalous, there is no second pass. Otherwise all rows are read once more, and those of
odd values are kept; where these are many, once more for each group of them. So that a value is odd
without need costs time, and changes no count: it is what saves the room for every offset at which a
value was read. A write that needs a closer look can be of several kinds.

From when to when acknowledged writes were lost is known of all, and of each client. An isolated
leader keeps acknowledging writes of the clients that still reach it: whether that ends when another
takes over or only when the network heals is decided by the client (which nodes it queries for the
leader), not by the cluster. So the spans of clients are kept separate: from the first lost write to
the last, once by when they were begun and once by when they were acknowledged.

A client is one of `workload.clients` real ones. Processes are distributed to them in turn (process
modulo clients); while one is dead after a `client` fault, others carry its processes, and a span
then stands at the place of the client that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.loss.numbering import Narrow, Numbering
from checkers.loss.readers import confirmed
from harness.history import parquet_reader
from harness.history.documents import LOST_KINDS, LostSpan
from harness.history.parquet_reader import some
from harness.history.parquet_writer import among, numbers, one_batch, places, sieve, texts, values
from harness.history.rows import NEVER, bounds_ns
from harness.protocols import NULL, Bits, Bools, Facts, FaultWindow, Ints, Reads, Texts, Writes
from harness.protocols.runs import FAIL, INFO, INVOKED, OK, READ

ATTEMPTED: Final = INVOKED | OK | FAIL | INFO

ODD: Final = 32
"""Beside the marks of a value: it is odd, whatever they are."""

_PIECE: Final = 2**22


class Tally:
    """Marks of all values of a run, by number, and which of them are odd. First all writes, then
    all reads. `names`: records that acknowledgements name will be requested. `often`: the same
    record may be read many times; else a value that is read again is anomalous, no matter where
    that was."""

    def __init__(self, numbering: Numbering, *, names: bool = False, often: bool = True) -> None:
        self._numbering = numbering
        self._marks: Bits = np.zeros(numbering.size, np.uint8)
        # Where it was sent to; for values that were sent anywhere, where it was read first.
        self._partition = Narrow(numbering.size, np.int8)
        self._acknowledged_at = Narrow(numbering.size, np.int32) if names else None
        self._offset = Narrow(numbering.size, np.int32) if often else None
        self._begun = 0

    def write(self, rows: Writes) -> Ints:
        """Mark some writes; the numbers of those that began."""
        numbers = self._numbering.numbers(rows.key, rows.value)
        for mark in (INVOKED, OK, FAIL, INFO):
            chosen = rows.mark == mark
            marked = np.compress(chosen, numbers)
            self._marks[marked] |= mark
            self._begun += len(marked) if mark == INVOKED else 0
            if mark == OK and self._acknowledged_at is not None:
                self._acknowledged_at.put(marked, np.compress(chosen, rows.offset))
        if (sent := rows.partition != NULL).all():
            self._settle(numbers, rows.partition)
        else:
            self._settle(numbers[sent], rows.partition[sent])
        return np.compress(rows.mark == INVOKED, numbers)

    def acknowledged(self, numbers: Ints) -> Bools:
        """Which values with these numbers were acknowledged, when all writes are marked."""
        found: Bools = self._marks[numbers] & OK != 0
        return found

    def begun_again(self) -> int:
        """How many writes began with a value that another one has, when all writes are marked."""
        pieces = (self._marks[piece] for piece in self._pieces())
        return self._begun - sum(int(np.count_nonzero(piece & INVOKED)) for piece in pieces)

    def numbers(self, rows: Reads) -> Ints:
        """The numbers of the values of some records."""
        return self._numbering.numbers(rows.key, rows.value)

    def named(self, rows: Reads, numbers: Ints) -> Bools:
        """Which records, whose values have these numbers, are where a write of their value was
        acknowledged, when all writes are marked."""
        assert self._acknowledged_at is not None
        named = self._acknowledged_at.holds(numbers, rows.offset)
        named &= (rows.offset != NULL) & self._partition.holds(numbers, rows.partition)
        return named

    def read(self, rows: Reads, numbers: Ints) -> None:
        """Mark some records that were read, whose values have these numbers."""
        self._settle(numbers, rows.partition)
        again = self._marks[numbers] & READ != 0
        self._marks[numbers] |= READ
        if self._offset is None:
            self._marks[numbers[again]] |= ODD
            self._marks[_repeated(numbers)] |= ODD
            return
        again &= ~self._offset.holds(numbers, rows.offset)
        self._offset.put(numbers, rows.offset)
        # Of several copies within these rows, the last one's offset now stands.
        self._marks[numbers[again | ~self._offset.holds(numbers, rows.offset)]] |= ODD

    def _settle(self, numbers: Ints, partition: Ints) -> None:
        """Note the partitions of values; one that has another already is odd."""
        fresh = self._partition.lacks(numbers)
        if fresh.any():
            self._partition.put(np.compress(fresh, numbers), np.compress(fresh, partition))
        self._marks[numbers[~self._partition.holds(numbers, partition)]] |= ODD

    def odd(self) -> Ints:
        """The numbers of the values that are odd, in order, when all rows are marked."""
        found = [np.empty(0, np.int64)]
        for piece in self._pieces():
            marks = self._marks[piece]
            marks |= _ODD_BY_MARKS[marks]
            found.append(np.flatnonzero(marks & ODD) + piece.start)
        return np.concatenate(found)

    def plain(self) -> Ints:
        """How many of the others, the plain values, have which marks: an array of 32 counts, once
        `odd` was requested."""
        pieces = (np.bincount(self._marks[piece], minlength=2 * ODD) for piece in self._pieces())
        counts = sum(pieces, np.zeros(2 * ODD, np.int64))[:ODD]
        counts[0] = 0
        return counts

    def close(self) -> None:
        self._partition = Narrow(0, np.int8)
        self._offset = self._acknowledged_at = None

    def _pieces(self) -> Iterator[slice]:
        """Parts of all numbers: what is made of all at once would take many times the marks."""
        size = len(self._marks)
        return (slice(begin, min(begin + _PIECE, size)) for begin in range(0, size, _PIECE))


def _repeated(numbers: Ints) -> Ints:
    ordered = np.sort(numbers)
    return np.compress(ordered[1:] == ordered[:-1], ordered[1:])


def _odd_by_marks() -> Bits:
    """ODD for marks that are odd by themselves: lost; refused and read; read, and not attempted."""
    marks = np.arange(256)
    refused = (marks & FAIL != 0) & (marks & (OK | INFO) == 0)
    read = marks & READ != 0
    lost = (marks & OK != 0) & ~read
    odd = lost | (refused & read) | (read & (marks & ATTEMPTED == 0))
    return np.where(odd, ODD, 0).astype(np.uint8)


_ODD_BY_MARKS: Final = _odd_by_marks()


LATEST: Final = 2**63 - 1

Part = TypeVar("Part", Writes, Reads)


@dataclass(frozen=True)
class Odd:
    """All that the rows of a run say of its odd values; arrays, one entry a value.

    `marks`, without READ; `process`, `partition` and `offset` as the client knew them, and
    `intended_ns, invoke_ns, complete_ns`, NULL where unknown; its `error`. `sent_to`:
    pairs of a value's place here and a partition it was sent to. `copies`: the distinct (place
    here, partition, offset) at which values were read, in order.
    """

    keys: Texts
    values: Ints
    marks: Bits
    process: Ints
    partition: Ints
    offset: Ints
    intended_ns: Ints
    invoke_ns: Ints
    complete_ns: Ints
    error: Texts
    sent_to: Ints
    copies: Ints


Finder = Callable[[Texts, Ints], tuple[Ints, Ints]]


def finder(numbering: Numbering, numbers: Ints) -> Finder:
    """A function of the places at which the values with these numbers, in order, stand in others,
    and their numbers. (To number all of them takes ten times as long.)"""
    near = sieve(numbering.things(numbers)[1])

    def found(key: Texts, value: Ints) -> tuple[Ints, Ints]:
        at = near(value)
        each = numbering.numbers(_at(key, at), value[at])
        of = among(each, numbers)
        return at[of], each[of]

    return found


def kept(parts: Iterable[Part], chosen: Finder) -> Iterator[tuple[Part, Ints]]:
    """The rows of chosen values, with the numbers of these."""
    for part in parts:
        at, numbers = chosen(part.key, part.value)
        if len(at):
            yield some(part, at), numbers


def odd_of(
    numbering: Numbering,
    numbers: Ints,
    of_writes: Iterable[tuple[Writes, Ints]],
    of_reads: Iterable[tuple[Reads, Ints]],
) -> Odd:
    """What these rows say of the values with these numbers."""
    keys, values = numbering.things(numbers)
    writes = [(part, places(numbers, each)) for part, each in of_writes]
    written = _written(writes, len(numbers))
    copies = [
        np.column_stack([places(numbers, each), found.partition, found.offset])
        for found, each in of_reads
    ]
    return Odd(keys=keys, values=values, **written, copies=_distinct(copies, 3))


def _written(writes: Sequence[tuple[Writes, Ints]], size: int) -> dict[str, Any]:
    """What the writes of anomalous values show about them: the fields of Odd."""
    marks = np.zeros(size, np.uint8)
    error = np.full(size, -1, np.int32)
    most = {name: np.full(size, NULL) for name in ("process", "partition", "offset", "complete_ns")}
    least = {name: np.full(size, LATEST) for name in ("intended_ns", "invoke_ns")}
    names = sorted({name for part, _ in writes for name in part.error.names})
    for part, at in writes:
        ok, begun = part.mark == OK, part.mark == INVOKED
        np.bitwise_or.at(marks, at, part.mark)
        np.maximum.at(error, at, part.error.places(names))
        np.maximum.at(most["process"], at, part.process)
        np.maximum.at(most["partition"], at, part.partition)
        np.maximum.at(most["offset"], at[ok], part.offset[ok])
        np.maximum.at(most["complete_ns"], at[~begun], part.time_ns[~begun])
        np.minimum.at(least["intended_ns"], at, part.intended_ns)
        np.minimum.at(least["invoke_ns"], at[begun], part.time_ns[begun])
    sent = [np.column_stack([at, part.partition])[part.partition != NULL] for part, at in writes]
    known = {name: np.where(times == LATEST, NULL, times) for name, times in least.items()}
    others = {"marks": marks, "error": Texts(error, names), "sent_to": _distinct(sent, 2)}
    return {**others, **most, **known}


def _distinct(parts: Sequence[Ints], columns: int) -> Ints:
    """The distinct rows of these, in order."""
    rows = np.concatenate([np.empty((0, columns), np.int64), *parts])
    rows = rows[np.lexsort(rows.T[::-1])]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[new]


@dataclass(frozen=True)
class Judged:
    """Whether each odd value is of each kind; and, of the copies, whether each is where it should
    be. `owner`: the value of each copy; `extra`: the copies but each value's first."""

    by_name: Mapping[str, Bools]
    home: Bools
    owner: Ints
    extra: Bools

    def counts(self) -> dict[str, int]:
        """How many there are of each, in the words of result.json."""
        again = self.owner[self.extra]
        return {name: int(each.sum()) for name, each in self.by_name.items()} | {
            "duplicates": len(again),
            "duplicates_acknowledged": int(self.by_name["acknowledged"][again].sum()),
            "duplicates_unknown": int(self.by_name["unknown"][again].sum()),
        }


def judge(facts: Facts, odd: Odd) -> Judged:
    attempted = odd.marks != 0
    told_ok = odd.marks & OK != 0
    acknowledged = told_ok & (facts.promises.acknowledges)
    failed = ~told_ok & (odd.marks & INFO == 0) & (odd.marks & FAIL != 0)
    unknown = attempted & ~told_ok & ~failed

    owner = odd.copies[:, 0]
    home = _at_home(odd)
    survivors = any_of(owner[home], len(attempted))
    absent = acknowledged & ~survivors
    beyond, below = _beyond_and_below(facts, odd)
    return Judged(
        {
            "attempted": attempted,
            "acknowledged": acknowledged,
            "sent": told_ok & ~acknowledged,
            "failed": failed,
            "unknown": unknown,
            "survivors": survivors,
            "lost": absent & ~beyond,
            "not_yet_visible": absent & beyond,
            "deleted": absent & ~beyond & below,
            "unacknowledged_found": survivors & ~acknowledged,
            "failed_found": survivors & failed,
            "unknown_found": survivors & unknown,
            "unexpected": any_of(owner[~home], len(attempted)),
        },
        home=home,
        owner=owner,
        extra=~is_first(owner),
    )


def _at_home(odd: Odd) -> Bools:
    """Of each copy, whether its value was attempted on its partition; where it is not known where
    a write was sent to, any partition is the right one."""
    owner, where = odd.copies[:, 0], odd.copies[:, 1]
    sent, sent_to = odd.sent_to[:, 0], odd.sent_to[:, 1]
    partitions = 1 + max(where.max(initial=0), sent_to.max(initial=0))
    sent_there = np.isin(owner * partitions + where, sent * partitions + sent_to)
    known = any_of(sent, len(odd.marks))
    home: Bools = (odd.marks != 0)[owner] & (~known[owner] | sent_there)
    return home


def _beyond_and_below(facts: Facts, odd: Odd) -> tuple[Bools, Bools]:
    """Whether each value may stand beyond what was read of its partition, or below its start."""
    beyond, below = np.ones(len(odd.marks), np.bool_), np.zeros(len(odd.marks), np.bool_)
    no_offset = odd.offset == NULL
    for end in facts.ends:
        here = odd.partition == end.partition
        if end.whole:
            beyond[here] = False
        elif end.complete and end.read_to is not None:
            beyond[here] = (no_offset | (odd.offset >= end.read_to))[here]
        if end.log_start is not None and end.log_start > 0:
            below[here] = (no_offset | (odd.offset < end.log_start))[here]
    return beyond, below


def unconfirmed(facts: Facts, odd: Odd, judged: Judged, *, verified: bool) -> dict[str, int]:
    """How many of each kind rest on a partition that two libraries did not read to the end (nor one
    that did, if it is `verified`). Where it is not known which partition a lost write was sent to,
    it rests on all."""
    two = np.array(sorted(confirmed(facts, verified=verified)), np.int64)
    everywhere = set(range(facts.promises.partitions)) <= set(two.tolist())
    kinds, size, owner = judged.by_name, len(odd.marks), odd.copies[:, 0]
    lost = kinds["lost"] if facts.promises.deletes else kinds["lost"] & ~kinds["deleted"]
    unsure = ~np.isin(odd.copies[:, 1], two)
    nowhere = ~np.where(odd.partition == NULL, everywhere, np.isin(odd.partition, two))
    return {
        "lost": int((lost & nowhere).sum()),
        "failed_found": int((kinds["failed_found"] & any_of(owner[unsure], size)).sum()),
        "unexpected": int((kinds["unexpected"] & any_of(owner[unsure & ~judged.home], size)).sum()),
        "duplicates": int((judged.extra & unsure).sum()),
    }


def any_of(places: Ints, size: int) -> Bools:
    """Whether each of `size` is among these places."""
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


def is_first(owner: Ints) -> Bools:
    """Whether each is its owner's first, of sorted owners."""
    first: Bools = np.diff(owner, prepend=-1) != 0
    return first


FINDINGS: Final = pa.schema(
    {
        "run_id": pa.string(),
        "kind": pa.string(),
        "key": pa.string(),
        "value": pa.int64(),
        "process": pa.int32(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "intended_ns": pa.int64(),
        "invoke_ns": pa.int64(),
        "complete_ns": pa.int64(),
        "error": pa.string(),
        "fault": pa.string(),
        "found_partition": pa.int32(),
        "found_offset": pa.int64(),
    }
)
"""One row a finding. `kind`: lost, deleted, not_yet_visible, failed_found, unexpected or duplicate;
`partition`, `offset` and times as the client knew them; `fault`: the windows in which the write was
answered, or begun where it never was, joined by commas; `found_*`: where it was read."""

_OF_THE_CLIENT: Final = (
    *("process", "partition", "offset"),
    *("intended_ns", "invoke_ns", "complete_ns"),
)

ORDER: Final = ("kind", "partition", "complete_ns", "value")


def findings_of(facts: Facts, odd: Odd, judged: Judged) -> pa.Table:
    """The rows of FINDINGS, in order."""
    kinds, home = judged.by_name, judged.home
    at_home, astray = odd.copies[home], odd.copies[~home]
    failed_found = kinds["failed_found"][at_home[:, 0]] & is_first(at_home[:, 0])
    found = {
        "lost": _nowhere(kinds["lost"] & ~kinds["deleted"]),
        "deleted": _nowhere(kinds["deleted"]),
        "not_yet_visible": _nowhere(kinds["not_yet_visible"]),
        "failed_found": at_home[failed_found],
        "unexpected": astray[is_first(astray[:, 0])],
        "duplicate": odd.copies[judged.extra],
    }
    places = np.concatenate(list(found.values()))
    at = places[:, 0]
    kind = np.repeat(np.arange(len(found), dtype=np.int32), list(map(len, found.values())))
    answered_ns = np.where(odd.complete_ns == NULL, odd.invoke_ns, odd.complete_ns)
    columns = {
        "run_id": texts(Texts(np.zeros(len(at), np.int32), [facts.run_id])),
        "kind": texts(Texts(kind, list(found))),
        "key": texts(_at(odd.keys, at)),
        "value": values(odd.values[at]),
        **{name: numbers(getattr(odd, name)[at]) for name in _OF_THE_CLIENT},
        "error": texts(_at(odd.error, at)),
        "fault": texts(_faults(facts.windows, answered_ns[at])),
        "found_partition": numbers(places[:, 1]),
        "found_offset": numbers(places[:, 2]),
    }
    typed = [columns[field.name].cast(field.type) for field in FINDINGS]
    return ordered(pa.Table.from_arrays(typed, schema=FINDINGS))


def _at(column: Texts, places: Ints) -> Texts:
    return Texts(column.codes[places], column.names)


def ordered(findings: pa.Table) -> pa.Table:
    """The same rows, in order."""
    keys = [(name, "ascending", "at_start") for name in ORDER]
    return findings.take(pc.sort_indices(findings, sort_keys=keys))


def _nowhere(chosen: Bools) -> Ints:
    """The chosen values as copies that were not read."""
    at = np.flatnonzero(chosen)
    return np.column_stack([at, np.full((len(at), 2), NULL)])


def _faults(windows: Sequence[FaultWindow], time_ns: Ints) -> Texts:
    """The fault windows that contain each instant; null if none does. Between two instants at which
    a window begins or has ended they are the same."""
    begins, ends = bounds_ns(windows)
    began = begins <= ends
    after = ends[began & (ends < NEVER)] + 1
    edges = np.unique(np.concatenate([begins[began], after]))
    held = ((begins <= edge) & (edge <= ends) for edge in edges)
    names = [
        "",
        *(",".join(windows[at].id for at in np.flatnonzero(each).tolist()) for each in held),
    ]
    codes = np.array([place if name else -1 for place, name in enumerate(names)], np.int32)
    return Texts(codes[np.searchsorted(edges, time_ns, side="right")], names)


def lost_spans(findings: pa.Table, *, clients: int) -> list[LostSpan]:
    """The span of all lost writes, then one of each client if there are several; empty when
    nothing was lost. Writes whose times are not known are left out."""
    names = ("process", "invoke_ns", "complete_ns")
    rows = one_batch(findings.select(["kind", *names]))
    columns = [parquet_reader.integers(rows, name) for name in names]
    lost = parquet_reader.texts(rows, "kind").isin(LOST_KINDS)
    lost &= (columns[1] != NULL) & (columns[2] != NULL)
    process, *times = (column[lost] for column in columns)
    if not len(process):
        return []
    spans = [_span(None, *times)]
    for client in range(clients if clients > 1 else 0):
        of = (process >= 0) & (process % clients == client)
        spans.append(_span(client + 1, *(each[of] for each in times)))
    return spans


def spans_together(parts: Iterable[Sequence[LostSpan]]) -> list[LostSpan]:
    """The spans of all parts of a run's findings."""
    together: dict[int | None, LostSpan] = {}
    for span in (span for spans in parts for span in spans):
        other = together.get(span.client, LostSpan(client=span.client, lost=0))
        together[span.client] = LostSpan(
            client=span.client,
            lost=span.lost + other.lost,
            begun_s=_both(span.begun_s, other.begun_s),
            acknowledged_s=_both(span.acknowledged_s, other.acknowledged_s),
        )
    return list(together.values())


def _both(
    one: tuple[float, float] | None, other: tuple[float, float] | None
) -> tuple[float, float] | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _span(client: int | None, begun_ns: Ints, answered_ns: Ints) -> LostSpan:
    if not len(begun_ns):
        return LostSpan(client=client, lost=0)
    return LostSpan(
        client=client,
        lost=len(begun_ns),
        begun_s=_ends_s(begun_ns),
        acknowledged_s=_ends_s(answered_ns),
    )


def _ends_s(times_ns: Ints) -> tuple[float, float]:
    return round(int(times_ns.min()) / 1e9, 3), round(int(times_ns.max()) / 1e9, 3)


MOST: Final = 2**20
"""Of each kind, so many findings are listed at most; all are counted."""


def capped(findings: Iterable[pa.Table]) -> pa.Table:
    """The rows of all of these, in order: of each kind the first MOST."""
    tables = [pa.Table.from_batches([], FINDINGS), *(table for table in findings if len(table))]
    joined = pa.concat_tables(tables)
    rows = ordered(joined) if len(tables) > 2 else joined
    if len(rows) <= MOST:
        return rows
    kinds, begin = [], 0
    for number in pc.value_counts(rows["kind"]).field("counts").to_pylist():
        kinds.append(rows.slice(begin, min(number, MOST)))
        begin += number
    return pa.concat_tables(kinds)

"""The outcome of the values that were sent: lost, unseen, duplicated, read though aborted ...

The definitions are Jepsen's (`jepsen.tests.kafka`); where they differ, the function says so.

Anomalies of one kind as columns, and the table of findings that they make.

The order in which Clojure iterates over a set: which of several values at one offset Jepsen
takes.

Where one offset holds several values, Jepsen's order of the log has the first of them as Clojure's
hash set gives them (`jepsen.tests.kafka/version-orders`), and no place of the others. No value is
better than another there; this one is taken so that answers can be compared. A set is a trie by
five bits of a value's hash, lowest first; the hash is Murmur3 (Appleby 2008, x86, 32 bits). Texts
come after numbers, in the order in which they were met: whether Jepsen had them as strings or
keywords, whose hashes differ, JSON does not say.

The order of each log's values, as Jepsen infers it (`jepsen.tests.kafka/version-orders`).

Offsets are known from sends that have certainly committed and from all polls, of whatever outcome:
a poll is never to return what is not committed, so what a failed transaction polled is as good.
Gaps between offsets mean nothing (transactions leave markers in them): a *place* is the rank of an
offset among those of its log that are known. One value may have several places (a duplicate), and
one place several values (inconsistent offsets).

Which operations have certainly committed: by their outcome, or because a poll shows it.

What a second reader found in the logs at the end, beside the reader whose polls are judged.

That a value is lost rests on what one reader did not return. So a run of our own ends with another
reader, which gets everything in a log, and reports for each record whether it committed or was
aborted, by the log itself. A loss counts where the second reader has not found the value committed
either. If it has, or has a value at other offsets, the two disagree, and the truth is unknown.

Its reads are both isolation levels at once: what committed is what a reader of read_committed is to
get, and the rest is what transactions left that were aborted.

Values that readers were given, and that the log does not hold in the end.

A value counts as seen once any poll has returned it, so by Jepsen's definition what is lost after
that is not a `lost-write`. Our runs end with reads of all logs by two readers, and neither is to
miss a value that had been polled: `lost-after-poll` and `phantom` (docs/how-to/transactions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.graphs import ABSENT, Ops, any_of, codes_of, named
from checkers.transactional_log.columns import History
from harness.history.parquet_writer import numbers, strings
from harness.models.micro_ops import POLL, SEND, TEXT, UNCOMMITTED
from harness.protocols import NULL, Bools, Ints
from harness.protocols.runs import FAIL, INFO, OK

FINDINGS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("tolerated", pa.bool_(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
        pa.field("other_value", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("delta", pa.int64()),
        *(
            pa.field(f"{which}{name}", pa.int64())
            for which in ("", "other_")
            for name in ("index", "process", "time_ns")
        ),
    ]
)
"""One row an anomaly; `kind` has Jepsen's name. `index`, `process` and `time_ns` (of its end) are
of the operation that sent the value or did what is wrong, `other_*` of the one that shows it: that
polled the value, or that the process did before. `delta`: how many places of the log lie between
the two values (1: they follow each other). `tolerated`: reported, and no counter-example, as all of
its kind are, or since a second reader does not confirm it."""


class Found(NamedTuple):
    """Anomalies of one kind, one row each; what a kind has not is ABSENT or NULL. `key` is a place
    among the history's keys, `value` and `before` are values, `op` and `other` operations.
    `backed`: nothing contradicts it that it rests on; one that is not is reported, and no more."""

    kind: str
    key: Ints
    value: Ints
    before: Ints
    offset: Ints
    delta: Ints
    op: Ints
    other: Ints
    backed: Bools

    @classmethod
    def of(cls, kind: str, *, key: Ints, value: Ints, op: Ints, other: Ints | None = None) -> Found:
        nothing = np.full(len(key), NULL)
        absent = np.full(len(key), ABSENT) if other is None else other
        backed = np.ones(len(key), np.bool_)
        return cls(kind, key, value, nothing, nothing, nothing, op, absent, backed)

    def take(self, rows: Ints | Bools) -> Found:
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Found._make([self.kind, *(column[rows] for column in self[1:])])

    @property
    def number(self) -> int:
        return len(self.key)


def table(
    found: Iterable[Found],
    ops: Ops,
    keys: Ints,
    *,
    run_id: str,
    texts: Sequence[str],
    tolerated: Callable[[str], bool],
) -> pa.Table:
    """The rows of FINDINGS, by kind and in the order of the operations."""
    tables = [
        _rows(each, ops, keys, run_id, texts, tolerated(each.kind)) for each in found if each.number
    ]
    return pa.concat_tables(tables or [pa.Table.from_batches([], schema=FINDINGS)])


def _rows(
    found: Found, ops: Ops, keys: Ints, run_id: str, texts: Sequence[str], tolerated: bool
) -> pa.Table:
    found = found.take(np.lexsort((found.value, found.key, found.op)))
    size = found.number
    columns = {
        "run_id": strings([run_id] * size),
        "kind": strings([found.kind] * size),
        "tolerated": numbers((~found.backed | tolerated).astype(np.int64)).cast(pa.bool_()),
        "key": _texts(np.where(found.key == ABSENT, NULL, keys[found.key]), texts),
        "value": _texts(found.value, texts),
        "other_value": _texts(found.before, texts),
        "offset": numbers(found.offset),
        "delta": numbers(found.delta),
    }
    for which, op in (("", found.op), ("other_", found.other)):
        there = op != ABSENT
        for name, column in (
            ("index", ops.place),
            ("process", ops.process),
            ("time_ns", ops.ended_ns),
        ):
            columns[which + name] = numbers(np.where(there, column[op], NULL))
    return pa.table(columns, schema=FINDINGS)


def _texts(column: Ints, texts: Sequence[str]) -> pa.Array:
    if not (column >= TEXT).any():
        return numbers(column).cast(pa.string())
    return pa.array([None if n == NULL else named(n, texts) for n in column.tolist()], pa.string())


_BITS: Final = 32
_MASK: Final = 2**_BITS - 1
_CHUNK: Final = 5


def rank(number: int) -> int:
    """The place of a value in a set: of two, the one of the lower rank is first."""
    if number >= TEXT:
        return number
    hashed = _of_number(number)
    place = 0
    for shift in range(0, _BITS, _CHUNK):
        place = place << _CHUNK | (hashed >> shift & 31)
    return place


def _of_number(number: int) -> int:
    if number == 0:
        return 0
    mixed = _mix(_mix(0, number & _MASK), number >> _BITS & _MASK)
    return _finish(mixed, 8)


def _rotated(number: int, by: int) -> int:
    return (number << by | number >> (_BITS - by)) & _MASK


def _mix(hashed: int, word: int) -> int:
    word = _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_rotated(hashed ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _finish(hashed: int, length: int) -> int:
    hashed ^= length
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


NOWHERE: Final = -1


class Versions(NamedTuple):
    """Slots number the places of all logs, those of a key in order. `first` and `last`: those of
    each thing, NOWHERE where it has none; `slot`: the one by which things are compared, the last
    that has no other thing in its stead. `begins`: the first slot of each key; `offset`: of each
    slot; `holds`: one thing of each slot (`set_order`). `duplicated`: things with several slots;
    `crowded`: slots with several things; `pairs`: the slots and things of both, row by row."""

    first: Ints
    last: Ints
    slot: Ints
    begins: Ints
    offset: Ints
    holds: Ints
    duplicated: Ints
    crowded: Ints
    pairs: Ints


def versions_of(history: History, committed: Bools) -> Versions:
    """The orders of all logs. `committed`: whether each operation has."""
    micro = history.micro
    shown = (micro.kind == POLL) | ((micro.kind == SEND) & committed[micro.op])
    rows = np.flatnonzero(shown & (micro.offset != NULL))
    thing, key = micro.thing[rows], micro.key[rows]
    slot, slots = codes_of(micro.offset[rows], key)
    offset, key_of = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    offset[slot], key_of[slot] = micro.offset[rows], key
    some_slot = np.full(history.things, NOWHERE)
    some_slot[thing] = slot
    some_thing = np.zeros(slots, np.int64)
    some_thing[slot] = thing
    first, last, holds = some_slot, some_slot.copy(), some_thing
    odd = (some_slot[thing] != slot) | (some_thing[slot] != thing)
    few = any_of(thing[odd], history.things)[thing] | any_of(slot[odd], slots)[slot]
    pairs = np.unique(np.stack([slot[few], thing[few]], axis=1), axis=0)
    np.minimum.at(first, pairs[:, 1], pairs[:, 0])
    np.maximum.at(last, pairs[:, 1], pairs[:, 0])
    pairs = pairs[_in_sets(history, pairs)]
    holds[pairs[::-1, 0]] = pairs[::-1, 1]
    stands = holds[pairs[:, 0]] == pairs[:, 1]
    compared = last.copy()
    compared[pairs[:, 1]] = NOWHERE
    np.maximum.at(compared, pairs[stands, 1], pairs[stands, 0])
    return Versions(
        first=first,
        last=last,
        slot=compared,
        begins=np.searchsorted(key_of, np.arange(len(history.keys))),
        offset=offset,
        holds=holds,
        duplicated=np.flatnonzero(first != last),
        crowded=np.flatnonzero(np.bincount(pairs[:, 0], minlength=slots) > 1),
        pairs=pairs,
    )


def _in_sets(history: History, pairs: Ints) -> Ints:
    """The order of pairs by slot, and of those of one slot as a set has their things."""
    things, at = np.unique(pairs[:, 1], return_inverse=True)
    ranks = [rank(value) for value in history.value_of[things].tolist()]
    return np.lexsort((pairs[:, 1], np.array(ranks, np.int64)[at], pairs[:, 0]))


class Shown(NamedTuple):
    """Of each operation: one that is ok and polled a value which it sent, ABSENT if there is none;
    and whether it has certainly committed: it is ok, or of unknown outcome and was polled so.
    """

    by: Ints
    committed: Bools


def shown_of(history: History) -> Shown:
    """Which operations committed, by all keys; polls of read_uncommitted show nothing."""
    ops, micro = history.ops, history.micro
    polls, sends = np.flatnonzero(micro.kind == POLL), np.flatnonzero(micro.kind == SEND)
    polls = polls[ops.mark[micro.op[polls]] == OK]
    reader = np.full(history.things, ABSENT)
    reader[micro.thing[polls]] = micro.op[polls]
    sends = sends[reader[micro.thing[sends]] != ABSENT]
    by = np.full(len(ops.mark), ABSENT)
    by[micro.op[sends]] = reader[micro.thing[sends]]
    return Shown(by, (ops.mark == OK) | ((ops.mark == INFO) & (by != ABSENT)))


COMMITTED, ABORTED, NOT_THERE, UNREAD = range(4)
STATES: Final = ("committed", "aborted", "absent", "unread")
"""What the second reader says of a value; `unread`: it has not read that log."""
OUTCOMES: Final = {"acknowledged": OK, "failed": FAIL, "unknown": INFO}


def states_of(history: History) -> Ints:
    """Of each thing, what the second reader says of it: one of STATES."""
    log, things = history.final.log, history.things
    if not len(history.final.whole):
        return np.full(things, UNREAD)
    number_of = history.keys[history.key_of]
    pairs = codes_of(
        np.concatenate([history.value_of, log.value]),
        codes_of(np.concatenate([number_of, log.key])).codes,
    )
    found = np.full(pairs.number, NOT_THERE)
    of_log = pairs.codes[things:]
    found[of_log[~log.committed]] = ABORTED
    found[of_log[log.committed]] = COMMITTED
    return np.where(np.isin(number_of, history.final.whole), found[pairs.codes[:things]], UNREAD)


def second_of(history: History, states: Ints) -> dict[str, dict[str, int]]:
    """Of the values of each of OUTCOMES, how many are in each of STATES."""
    micro = history.micro
    sends = np.flatnonzero(micro.kind == SEND)
    mark, state = history.ops.mark[micro.op[sends]], states[micro.thing[sends]]
    return {
        name: {
            each: int(np.count_nonzero((mark == ended) & (state == place)))
            for place, each in enumerate(STATES)
        }
        for name, ended in OUTCOMES.items()
    }


def lost_of(history: History, values: Values, states: Ints) -> pa.Table:
    """Acknowledged values that no reader has found to be committed, of logs that both readers have
    read to their ends, which are partitions. `offset`: where the send was acknowledged; times are
    of the transaction."""
    micro, ops = history.micro, history.ops
    offset = np.full(history.things, NULL)
    sends = np.flatnonzero(micro.kind == SEND)
    offset[micro.thing[sends]] = micro.offset[sends]
    unread = _by(history, values.writer, OK) & ~values.ok_read & missing(history, states)
    things = np.flatnonzero(unread)
    by = values.writer[things]
    return pa.table(
        {
            "kind": strings(["lost"] * len(things)),
            "value": numbers(history.value_of[things]),
            "partition": numbers(history.keys[history.key_of[things]]),
            "offset": numbers(offset[things]),
            "invoke_ns": numbers(ops.begun_ns[by]),
            "complete_ns": numbers(ops.ended_ns[by]),
            "state": strings([STATES[each] for each in states[things].tolist()]),
        }
    )


def missing(history: History, states: Ints) -> Bools:
    """Things that the second reader has not found to be committed, of logs that both readers have
    read to their ends."""
    of_both = np.isin(history.keys[history.key_of], history.final.both)
    found: Bools = of_both & (states != COMMITTED)
    return found


def differing(history: History) -> int:
    """How many values the two readers do not have at the same offsets, in the logs that both have
    read to their ends; the first reader gets what committed."""
    micro, final = history.micro, history.final
    if not len(final.ended) or not len(final.whole):
        return 0
    polls = np.flatnonzero((micro.kind == POLL) & history.is_final[micro.op])
    key = np.concatenate([history.keys[micro.key[polls]], final.log.key])
    value = np.concatenate([micro.value[polls], final.log.value])
    offset = np.concatenate([micro.offset[polls], final.log.offset])
    first = np.arange(len(key)) < len(polls)
    heard = np.isin(key, final.both)
    heard[len(polls) :] &= final.log.committed
    code = codes_of(value, codes_of(key).codes).codes
    record = codes_of(offset, code).codes
    apart = np.setxor1d(record[heard & first], record[heard & ~first])
    return len(np.unique(code[heard & np.isin(record, apart)]))


class Values(NamedTuple):
    """Of each thing: the operation that sent it and the first that polled it, ABSENT if there is
    none, and whether an ok operation polled it."""

    writer: Ints
    reader: Ints
    ok_read: Bools


def values_of(history: History) -> Values:
    """Who sent and who polled each thing."""
    micro = history.micro
    writer = np.full(history.things, ABSENT)
    sends = np.flatnonzero(micro.kind == SEND)
    writer[micro.thing[sends]] = micro.op[sends]
    polls = np.flatnonzero(micro.kind == POLL)
    reader = np.full(history.things, ABSENT)
    reader[micro.thing[polls[::-1]]] = micro.op[polls[::-1]]
    ok = np.take(history.ops.mark, np.take(micro.op, polls)) == OK
    ok_read = any_of(np.take(micro.thing, np.compress(ok, polls)), history.things)
    return Values(writer, reader, ok_read)


def anomalies(
    history: History, values: Values, versions: Versions, shown: Shown, states: Ints, *, ours: bool
) -> Iterator[Found]:
    """All anomalies of values, kind by kind. `states`: what the second reader says of each thing;
    `ours`: a loss counts where that reader misses the thing too; a history from outside has no
    second reader."""
    backed = missing(history, states) if ours else np.ones(history.things, np.bool_)
    lost = lost_writes(history, values, versions, shown.committed)
    yield of_things("lost-write", history, values, lost)._replace(backed=backed[lost])
    acknowledged = _by(history, values.writer, OK)
    unseen = np.flatnonzero(acknowledged & ~values.ok_read)
    yield of_things("unseen", history, values, unseen)._replace(backed=backed[unseen])
    yield from misplaced(history, values, versions)
    yield aborted_reads(history, values, any_outcome=ours)
    yield precommitted_reads(history, values)
    lost = np.union1d(lost, _gone(history, values, versions, shown.committed, states))
    yield torn(history, values, lost, shown.by, backed)
    yield zombie_commits(history, values)


def misplaced(history: History, values: Values, versions: Versions) -> Iterator[Found]:
    """Values at several offsets, offsets with several values, and values that nobody sent."""
    yield of_things("duplicate", history, values, versions.duplicated)
    crowded = np.isin(versions.pairs[:, 0], versions.crowded)
    once = np.unique(versions.pairs[crowded, 0], return_index=True)[1]
    things = versions.pairs[crowded][once, 1]
    found = of_things("inconsistent-offsets", history, values, things)
    yield found._replace(offset=versions.offset[versions.pairs[crowded][once, 0]])
    polled = (values.writer == ABSENT) & (values.reader != ABSENT)
    yield of_things("unexpected", history, values, np.flatnonzero(polled))


def _by(history: History, writer: Ints, mark: int) -> Bools:
    """Whether each thing was sent by an operation of this outcome."""
    by: Bools = (writer != ABSENT) & (history.ops.mark[writer] == mark)
    return by


def of_things(kind: str, history: History, values: Values, things: Ints) -> Found:
    """Rows of a kind, one for each of some things: who sent it and who polled it first."""
    return Found.of(
        kind,
        key=history.key_of[things],
        value=history.value_of[things],
        op=values.writer[things],
        other=values.reader[things],
    )


def lost_writes(history: History, values: Values, versions: Versions, committed: Bools) -> Ints:
    """Things that certainly committed and that no ok operation polled, though polls have gone past
    them: the last place at which they stand is at or before the furthest first place of a thing
    that an ok operation polled.

    Beyond Jepsen: a send that was acknowledged without an offset is lost as well where a send to
    the same key, begun after it was acknowledged, stands at or before that furthest place.
    """
    first, keys = versions.first, history.key_of
    bound = np.full(len(history.keys), NOWHERE)
    polled = np.flatnonzero(values.ok_read & (first != NOWHERE))
    np.maximum.at(bound, keys[polled], first[polled])
    unread = (values.writer != ABSENT) & ~values.ok_read & committed[values.writer]
    passed = (versions.last != NOWHERE) & (versions.last <= bound[keys])
    latest = np.full(len(history.keys), ABSENT)
    known = np.flatnonzero((first != NOWHERE) & (first <= bound[keys]) & (values.writer != ABSENT))
    np.maximum.at(latest, keys[known], history.ops.begun[values.writer[known]])
    acknowledged = _by(history, values.writer, OK)
    before = acknowledged & (history.ops.ended[values.writer] < latest[keys])
    return np.flatnonzero(unread & (passed | ((versions.last == NOWHERE) & before)))


def aborted_reads(history: History, values: Values, *, any_outcome: bool = False) -> Found:
    """G1a: records that an ok operation polled though the operation that sent them failed.

    Beyond Jepsen: by an operation of `any_outcome`, as a client of our own reports what it polled
    whether its transaction commits or not."""
    micro = history.micro
    failed = _by(history, values.writer, FAIL)
    polls = np.flatnonzero(micro.kind == POLL)
    by_ok = history.ops.mark[micro.op[polls]] == OK
    polls = polls[failed[micro.thing[polls]] & (by_ok | any_outcome)]
    things = micro.thing[polls]
    return of_things("G1a", history, values, things)._replace(other=micro.op[polls])


def precommitted_reads(history: History, values: Values) -> Found:
    """Values that were polled by the operation that sent them."""
    micro = history.micro
    polls = np.flatnonzero(micro.kind == POLL)
    own = polls[values.writer[micro.thing[polls]] == micro.op[polls]]
    return of_things("precommitted-read", history, values, micro.thing[own])


def _gone(
    history: History, values: Values, versions: Versions, committed: Bools, states: Ints
) -> Ints:
    """Things that committed and that no final read has found, of logs that both readers have read
    to their ends, though they had been sent: they were acknowledged, at an offset, or aborted."""
    sent = _by(history, values.writer, OK) | (versions.last != NOWHERE) | (states == ABORTED)
    unread = (values.writer != ABSENT) & ~values.ok_read & committed[values.writer]
    return np.flatnonzero(sent & unread & missing(history, states))


def torn(history: History, values: Values, lost: Ints, by: Ints, backed: Bools) -> Found:
    """Values that are lost of transactions of which a part is visible: an ok operation polled some
    of what they sent; `other`: who polled it."""
    part = lost[by[values.writer[lost]] != ABSENT]
    found = of_things("torn-transaction", history, values, part)
    return found._replace(other=by[found.op], backed=backed[part])


def zombie_commits(history: History, values: Values) -> Found:
    """Values of transactions whose commit was acknowledged though another instance of their
    producer had taken over before it was requested. One that was not acknowledged has failed, and
    is a G1a where it was polled."""
    taken_over = any_of(history.fenced, len(history.ops.mark))
    things = np.flatnonzero(_by(history, values.writer, OK) & taken_over[values.writer])
    return of_things("zombie-commit", history, values, things)


def taken_back(history: History, values: Values, states: Ints) -> Iterator[Found]:
    """Both kinds. `states`: what the second reader says of each thing."""
    if not len(history.final.ended) or not len(history.final.whole):
        return
    mark = np.where(values.writer == ABSENT, FAIL, history.ops.mark[values.writer])
    committed, uncommitted = _reader(history, POLL), _reader(history, UNCOMMITTED)
    gone = _read_by_both(history) & (values.writer != ABSENT)
    missed = (committed != ABSENT) & ((states == NOT_THERE) | (states == ABORTED))
    lost, back = missed & values.ok_read, missed & (mark != FAIL)
    back |= (committed == ABSENT) & (uncommitted != ABSENT) & (states == NOT_THERE)
    readers = values._replace(reader=np.where(committed == ABSENT, uncommitted, committed))
    for kind, which in {
        "lost-after-poll": lost & (mark == OK),
        "phantom": back & (mark != OK),
    }.items():
        yield of_things(kind, history, readers, np.flatnonzero(gone & which))


def _reader(history: History, kind: int) -> Ints:
    """Of each thing, the first operation that polled it before the final reads, ABSENT if none
    did."""
    micro = history.micro
    polls = np.flatnonzero((micro.kind == kind) & ~history.is_final[micro.op])[::-1]
    reader = np.full(history.things, ABSENT)
    reader[micro.thing[polls]] = micro.op[polls]
    return reader


def _read_by_both(history: History) -> Bools:
    """Things of logs that both readers have read to their ends, and that the first one misses."""
    micro = history.micro
    found: Bools = np.isin(history.keys[history.key_of], history.final.both)
    found[micro.thing[(micro.kind == POLL) & history.is_final[micro.op]]] = False
    return found

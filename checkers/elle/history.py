"""A history of transactions on lists or registers as columns, and what single reads prove.

A list shows the order of its versions: each read of it is a prefix of the longest one. An element
that no read has shown comes after all that were read. A register shows no order of its values; two
things are sure. It has no value before its first one, and a transaction that reads a value and then
writes one puts its own after that (Kingsbury and Alvaro, "Elle", VLDB 14 (3), 2020).

What each anomaly is: docs/how-to/elle.md. `internal` is also a read that shows two appends of its
own transaction in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from checkers.graphs import (
    ABSENT,
    Ops,
    Rows,
    any_of,
    begins,
    codes_of,
    elements_in,
    ops_of,
    ordered,
    paired,
    starts,
)
from harness.errors import HistoryError
from harness.models.micro_ops import APPEND, HELD, READ, WIDTH, WRITE
from harness.protocols import NULL, Bools, Ints, Operations
from harness.protocols.runs import FAIL, OK

_CHUNK: Final = 1 << 21
"""Elements that are compared at a time."""


class Steps(NamedTuple):
    """One row a micro-operation. `key` is a place in `History.keys`; `size`: of a read, how many
    values it returned, ABSENT where that is not known; `first`: the place of the first of them in
    `History.elements`; `value`: what was written, or read from a register."""

    op: Ints
    kind: Ints
    key: Ints
    size: Ints
    value: Ints
    first: Ints


class History(NamedTuple):
    """Transactions and their steps, sorted by transaction and key (a *group*), in each group as
    they were executed. `group`: where the group of a step begins."""

    ops: Ops
    steps: Steps
    keys: Ints
    elements: Ints
    group: Ints
    lists: bool

    def listed(self, step: int) -> Ints:
        """What a read of a list returned."""
        first = self.steps.first[step]
        return self.elements[first : first + self.steps.size[step]]


def history_of(parts: Iterable[Operations], *, lists: bool, file: str) -> History:
    """The columns of a run's rows. Raises HistoryError for incomplete reads."""
    rows = Rows.of(list(parts))
    ops = ops_of(rows, *paired(rows))
    answered = ops.ended != ABSENT
    answered[answered] = (rows.stop - rows.start)[ops.ended[answered]] > 0
    by_answer = answered & ((ops.mark == OK) | (ops.begun == ABSENT))
    op, four = elements_in(rows, np.where(by_answer, ops.ended, ops.begun), file)
    held = four[:, 0] == HELD
    at = np.flatnonzero(~held)
    blocks = np.diff(np.append(at, len(four))) - 1
    op, (kind, key, size, value) = op[at], np.ascontiguousarray(four[at].T)
    reads = kind == READ
    known = reads & (size != NULL) & (ops.mark[op] == OK)
    size = np.where(known, size, ABSENT)
    width = WIDTH - 1
    wrong = known & (blocks > 0) & (blocks != -(-size // width))
    if wrong.any():
        raise HistoryError(
            f"the read of operation {ops.place[op[np.argmax(wrong)]]} has fewer elements than it "
            "says",
            file=file,
            key="elements",
        )
    keys = codes_of(key)
    order = ordered(*codes_of(keys.codes, op))
    first = (np.cumsum(held)[at] * width)[order]
    op, key_code = op[order], keys.codes[order]
    group = starts(begins(op) | begins(key_code))
    steps = Steps(op, kind[order], key_code, size[order], value[order], first)
    return History(ops, steps, keys.firsts(key), four[held, 1:].ravel(), group, lists)


class Found(NamedTuple):
    """Anomalies of one kind, one row each: key, value, the operation, and another one."""

    kind: str
    key: Ints
    value: Ints
    op: Ints
    other: Ints


class Versions(NamedTuple):
    """The versions of all keys, and which of them each read returned.

    things   of each step that writes, and of each read of a register with a value: its pair of key
             and value
    step     by pair: the step that wrote it (ABSENT: none)
    value    by pair
    broken   by key: whether its longest read has an element twice
    start    by key of a list: the first of its slots; a slot is a place in the order of elements
    slots    by slot: its pair
    place    by pair: its slot (ABSENT: no read of the order shows it)
    agrees   by step: whether it is a read that is a prefix of the order, of a key whose order has
             no element twice; of a register: whether it is a read
    odd      elements of reads that do not agree: the step of each, and its pair
    """

    things: Ints
    step: Ints
    value: Ints
    broken: Bools
    start: Ints
    slots: Ints
    place: Ints
    agrees: Bools
    odd: tuple[Ints, Ints]


def versions_of(history: History, *, file: str) -> Versions:
    """The versions of all keys. Raises HistoryError for a value that is written to a key twice."""
    steps, elements = history.steps, history.elements
    number = len(history.keys)
    writes = np.flatnonzero((steps.kind == APPEND) | (steps.kind == WRITE))
    reads = np.flatnonzero(steps.size != ABSENT)
    if not history.lists:
        some = np.concatenate([writes, reads[steps.size[reads] > 0]])
        pairs = codes_of(steps.value[some], steps.key[some])
        things = np.full(len(steps.op), ABSENT)
        things[some] = pairs.codes
        step = _writers(history, things, writes, pairs.number, file)
        agrees = steps.size != ABSENT
        nothing = np.empty(0, np.int64)
        none = np.full(pairs.number, ABSENT)
        value = pairs.firsts(steps.value[some])
        sound = np.zeros(number, np.bool_)
        odd = nothing, nothing
        return Versions(things, step, value, sound, nothing, nothing, none, agrees, odd)
    order = reads[np.lexsort((steps.size[reads], steps.key[reads]))]
    last = np.append(steps.key[order][1:] != steps.key[order][:-1], True)[: len(order)]
    longest = order[last]
    length = np.zeros(number, np.int64)
    length[steps.key[longest]] = steps.size[longest]
    start = np.append(0, np.cumsum(length))
    known = elements[_places(steps.first[longest], steps.size[longest])]
    agrees = np.zeros(len(steps.op), np.bool_)
    agrees[reads] = _agreeing(steps, elements, reads, start, known)
    odd = reads[~agrees[reads]]
    loose = elements[_places(steps.first[odd], steps.size[odd])]
    of = np.repeat(odd, steps.size[odd])
    slot_key = np.repeat(np.arange(number), length)
    values = np.concatenate([steps.value[writes], known, loose])
    pairs = codes_of(values, np.concatenate([steps.key[writes], slot_key, steps.key[of]]))
    things = np.full(len(steps.op), ABSENT)
    things[writes] = pairs.codes[: len(writes)]
    slots = pairs.codes[len(writes) : len(writes) + len(known)]
    place = np.full(pairs.number, ABSENT)
    place[slots[::-1]] = np.arange(len(slots))[::-1]
    twice = any_of(slot_key[place[slots] != np.arange(len(slots))], number)
    broken = reads[twice[steps.key[reads]]]
    agrees[broken] = False
    step = _writers(history, things, writes, pairs.number, file)
    rest = broken[np.isin(broken, longest)]  # the others are like it, or differ
    of = np.concatenate([of, np.repeat(rest, steps.size[rest])])
    key = steps.key[rest]
    shown = np.concatenate(
        [
            pairs.codes[len(writes) + len(known) :],
            slots[_places(start[key], start[key + 1] - start[key])],
        ]
    )
    value = pairs.firsts(values)
    return Versions(things, step, value, twice, start, slots, place, agrees, (of, shown))


def _places(first: Ints, size: Ints) -> Ints:
    """first, first + 1 ..., so many of each."""
    ends = np.cumsum(size)
    return np.repeat(first - (ends - size), size) + np.arange(ends[-1] if len(ends) else 0)


def _agreeing(steps: Steps, elements: Ints, reads: Ints, start: Ints, known: Ints) -> Bools:
    """Whether each read is a prefix of the longest read of its key."""
    agrees = np.ones(len(reads), np.bool_)
    ends = np.cumsum(steps.size[reads])
    begin = 0
    while begin < len(reads):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + _CHUNK)))
        some = reads[begin:end]
        size = steps.size[some]
        same = (
            elements[_places(steps.first[some], size)]
            == known[_places(start[steps.key[some]], size)]
        )
        agrees[begin:end][np.repeat(np.arange(len(some)), size)[~same]] = False
        begin = end
    return agrees


def _writers(history: History, things: Ints, writes: Ints, number: int, file: str) -> Ints:
    step = np.full(number, ABSENT)
    step[things[writes]] = writes
    again = writes[step[things[writes]] != writes]
    if len(again):
        at = history.ops.place[history.steps.op[step[things[again[0]]]]]
        raise HistoryError(
            f"a value is written to one key twice: again in operation {at}",
            file=file,
            key="value",
            hint="give every write to a key its own value",
        )
    return step


class Facts(NamedTuple):
    """What both the anomalies and the edges are made of, by step: the pair that a read returned (of
    a list, last; ABSENT: none is known), the operation that wrote it (ABSENT: none, or it has
    failed), whether a step is the last write of its group, and whether it is a read and the first
    step of its group."""

    last: Ints
    writer: Ints
    final: Bools
    external: Bools


def facts_of(history: History, versions: Versions) -> Facts:
    steps = history.steps
    last = _last_things(history, versions)
    writer = looked_up(steps.op, looked_up(versions.step, last))
    failed = marks(history, writer) == FAIL
    writes = (steps.kind == APPEND) | (steps.kind == WRITE)
    final = np.zeros(len(writes), np.bool_)
    at = np.flatnonzero(writes)
    final[at] = np.append(history.group[at[1:]] != history.group[at[:-1]], True)[: len(at)]
    external = (history.group == np.arange(len(writes))) & (steps.size != ABSENT)
    return Facts(last, np.where(failed, ABSENT, writer), final, external)


def _last_things(history: History, versions: Versions) -> Ints:
    steps = history.steps
    if not history.lists:
        return np.where(steps.size > 0, versions.things, ABSENT)
    thing = np.full(len(steps.op), ABSENT)
    some = np.flatnonzero(versions.agrees & (steps.size > 0))
    thing[some] = versions.slots[versions.start[steps.key[some]] + steps.size[some] - 1]
    of, things = versions.odd
    thing[of] = things  # the last assignment of a step stays
    return thing


def anomalies_of(history: History, versions: Versions, facts: Facts) -> Iterator[Found]:
    """All anomalies that need no graph."""
    steps = history.steps
    last, source = facts.last, looked_up(versions.step, facts.last)
    if history.lists:
        yield from _of_lists(history, versions)
    else:
        bad = np.flatnonzero((last != ABSENT) & (source == ABSENT))
        yield _found("unexpected", history, bad, steps.value[bad])
        writer = looked_up(steps.op, source)
        bad = np.flatnonzero(marks(history, writer) == FAIL)
        yield _found("G1a", history, bad, steps.value[bad], writer[bad])
        before = np.arange(len(last)) - 1
        bad = (steps.size != ABSENT) & (history.group < np.arange(len(last)))
        bad &= versions.things != versions.things[before]
        bad &= (steps.kind[before] == WRITE) | (steps.size[before] != ABSENT)
        bad = np.flatnonzero(bad)
        yield _found(
            "internal", history, bad, np.where(steps.size[bad] > 0, steps.value[bad], NULL)
        )
    inner = (source != ABSENT) & ~facts.final[source] & (facts.writer != ABSENT)
    inner &= facts.writer != steps.op
    bad = np.flatnonzero(inner)
    yield _found("G1b", history, bad, steps.value[source[bad]], facts.writer[bad])
    yield _lost_updates(history, versions, facts)


def _found(kind: str, history: History, at: Ints, value: Ints, other: Ints | None = None) -> Found:
    """Findings of these steps."""
    steps = history.steps
    nothing = np.full(len(at), ABSENT)
    return Found(kind, steps.key[at], value, steps.op[at], nothing if other is None else other)


def _lost_updates(history: History, versions: Versions, facts: Facts) -> Found:
    steps, last = history.steps, facts.last
    writes = any_of(history.group[facts.final], len(steps.op))
    some = np.flatnonzero(
        facts.external & writes & versions.agrees & (history.ops.mark[steps.op] == OK)
    )
    codes = codes_of(last[some], steps.key[some]).codes
    order = np.argsort(codes, kind="stable")
    again = np.flatnonzero(~begins(codes[order]))
    first = starts(begins(codes[order]))[again]
    one, other = some[order[first]], some[order[again]]
    return _found("lost-update", history, other, values_of(versions, last[one]), steps.op[one])


def values_of(versions: Versions, things: Ints) -> Ints:
    """The values of pairs, NULL for ABSENT."""
    return np.where(things == ABSENT, NULL, looked_up(versions.value, things))


def marks(history: History, ops: Ints) -> Ints:
    """How operations ended; ABSENT for ABSENT."""
    return looked_up(history.ops.mark.astype(np.int64), ops)


def looked_up(column: Ints, rows: Ints) -> Ints:
    """What a column has in these rows; ABSENT where a row is."""
    found = np.full(len(rows), ABSENT)
    there = rows != ABSENT
    found[there] = column[rows[there]]
    return found


def _of_lists(history: History, versions: Versions) -> Iterator[Found]:
    steps = history.steps
    odd, shown = versions.odd
    pairs = codes_of(shown, odd).codes
    order = np.argsort(pairs, kind="stable")
    again = order[~begins(pairs[order])]
    yield _found("duplicate-elements", history, odd[again], versions.value[shown[again]])
    longest = np.zeros(len(steps.op), np.bool_)
    reads = np.flatnonzero(steps.size != ABSENT)
    full = versions.start[steps.key[reads] + 1] - versions.start[steps.key[reads]]
    longest[reads] = steps.size[reads] == full
    bad = np.unique(odd)
    bad = bad[~(versions.broken[steps.key[bad]] & longest[bad])]
    yield _found("incompatible-order", history, bad, np.full(len(bad), NULL))
    # By the order of each key, with one read that shows it; and by reads that differ from it.
    slot_key = np.repeat(np.arange(len(history.keys)), np.diff(versions.start))
    reader = np.full(len(history.keys), ABSENT)
    reader[steps.key[reads[longest[reads]]]] = reads[longest[reads]]
    step = versions.step[versions.slots]
    mark = marks(history, looked_up(steps.op, step))
    strange = np.flatnonzero(step == ABSENT)
    loose = np.flatnonzero(versions.step[shown] == ABSENT)
    at = np.concatenate([reader[slot_key[strange]], odd[loose]])
    things = np.concatenate([versions.slots[strange], shown[loose]])
    yield _found("unexpected", history, at, versions.value[things])
    failed = np.flatnonzero(mark == FAIL)
    first = np.full(len(history.keys), len(mark))
    first[slot_key[failed[::-1]]] = failed[::-1]
    dirty = np.flatnonzero(
        versions.agrees & (versions.start[steps.key] + steps.size > first[steps.key])
    )
    writer = step[first[steps.key[dirty]]]
    sources = versions.step[shown]
    loose = np.flatnonzero(marks(history, looked_up(steps.op, sources)) == FAIL)
    at = np.concatenate([dirty, odd[loose]])
    writer = np.concatenate([writer, sources[loose]])
    yield _found("G1a", history, at, steps.value[writer], steps.op[writer])
    committed = np.full(len(history.keys), ABSENT)
    good = np.flatnonzero(mark == OK)
    committed[slot_key[good]] = good
    below = failed[failed < committed[slot_key[failed]]]
    yield Found(
        "dirty-update",
        slot_key[below],
        steps.value[step[below]],
        steps.op[step[committed[slot_key[below]]]],
        steps.op[step[below]],
    )
    yield from _within(history, versions)


def _within(history: History, versions: Versions) -> Iterator[Found]:
    """Reads that contradict their own transaction: where all reads of a group agree with the
    order, by places in it, else one by one."""
    steps, group = history.steps, history.group
    rows = np.arange(len(steps.op))
    ok = history.ops.mark[steps.op] == OK
    reads, writes = ok & (steps.size != ABSENT), ok & (steps.kind == APPEND)
    uneven = any_of(group[reads & ~versions.agrees], len(rows))[group]
    before = np.cumsum(writes) - writes  # appends, of all groups
    last = np.maximum.accumulate(np.where(reads, rows, ABSENT))
    last = np.append(ABSENT, last)[:-1]
    last = np.where(last >= group, last, ABSENT)
    own = before - before[np.where(last == ABSENT, group, last)]  # since then
    size = np.where(last == ABSENT, 0, looked_up(steps.size, last)) + own
    bad = reads & np.where(last == ABSENT, steps.size < own, steps.size != size)
    following = np.minimum.accumulate(np.where(reads, rows, len(rows))[::-1])[::-1]
    there = following < len(rows)
    there[there] = group[following[there]] == group[there]
    appends = np.flatnonzero(writes & there)
    by = following[appends]
    place = versions.place[versions.things[appends]]
    due = versions.start[steps.key[appends]] + steps.size[by] - (before[by] - before[appends])
    bad[by[place != due]] = True
    bad &= ~uneven
    appends = np.flatnonzero(steps.kind == APPEND)
    one, then = appends[:-1], appends[1:]
    place = versions.place[versions.things[then]]
    first = versions.place[versions.things[one]]
    swapped = (
        (group[one] == group[then]) & (place != ABSENT) & ((first == ABSENT) | (first > place))
    )
    bad[then[swapped]] = True
    later = np.flatnonzero(writes & (last != ABSENT))
    place = versions.place[versions.things[later]]
    seen = versions.start[steps.key[later]] + steps.size[last[later]]
    later = later[(place != ABSENT) & (place < seen) & ~uneven[later]]
    slow = _one_by_one(history, np.unique(group[uneven & ok]))
    bad_at = np.concatenate([np.flatnonzero(bad), slow[0]])
    yield _found("internal", history, bad_at, np.full(len(bad_at), NULL))
    later = np.concatenate([later, slow[1]])
    yield _found("future-read", history, later, steps.value[later])


def _one_by_one(history: History, groups: Ints) -> tuple[Ints, Ints]:
    """The steps of these groups that are reads which contradict what was before, and appends of
    what was read before."""
    wrong, early = list[int](), list[int]()
    for first in groups.tolist():
        exact, held, read = False, list[int](), set[int]()
        step = first
        while step < len(history.group) and history.group[step] == first:
            if history.steps.kind[step] == APPEND:
                value = int(history.steps.value[step])
                held.append(value)
                if value in read:
                    early.append(step)
            elif history.steps.size[step] != ABSENT:
                found = history.listed(step).tolist()
                tail = found[len(found) - len(held) :] if len(held) <= len(found) else None
                if (found if exact else tail) != held:
                    wrong.append(step)
                exact, held = True, found
                read.update(found)
            step += 1
    return np.array(wrong, np.int64), np.array(early, np.int64)

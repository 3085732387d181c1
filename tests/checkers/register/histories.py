"""Histories of registers for tests: all small ones, random ones, single operations by letter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, count, islice, product
from random import Random
from typing import Any

from checkers.register.operations import (
    CAS,
    NEVER,
    READ,
    WRITE,
    Operation,
)
from harness.protocols.runs import (
    FAIL,
    INFO,
    OK,
)
from tests.fixtures.budget import examples

EXAMPLES = examples(300, 10_000)
"""How many random histories are tried; from 10,000 on (`make e2e`), all small ones too."""

History = tuple[Operation, ...]


def r(value: int, begin: int, end: int, process: int = 0) -> Operation:
    """An `ok` read."""
    return Operation(READ, value, process=process, invoke_ns=begin, complete_ns=end)


def w(value: int, begin: int, end: int, process: int = 0) -> Operation:
    """An `ok` write."""
    return Operation(WRITE, value, process=process, invoke_ns=begin, complete_ns=end)


def c(expected: int, value: int, begin: int, end: int, process: int = 0) -> Operation:
    """An `ok` compare-and-set."""
    return Operation(CAS, value, expected, process=process, invoke_ns=begin, complete_ns=end)


def info(one: Operation) -> Operation:
    """The same without an answer."""
    return one._replace(type=INFO)


def fail(one: Operation) -> Operation:
    """The same, refused."""
    return one._replace(type=FAIL)


@dataclass(frozen=True)
class Domain:
    """What operations of enumerated histories do: values are 0 (the initial one) and up."""

    values: int = 2
    cas: bool = True
    info: bool = True
    same: bool = False
    fail: bool = False

    def kinds(self) -> list[Operation]:
        """Every operation, without its time."""
        values = range(self.values)
        writes = [Operation(WRITE, value) for value in values]
        pairs = product(values, values) if self.cas else ()
        writes += [
            Operation(CAS, value, expected)
            for expected, value in pairs
            if self.same or expected != value
        ]
        kinds = [Operation(READ, value) for value in values] + writes
        kinds += [info(one) for one in writes] if self.info else []
        kinds += [fail(writes[-1]), info(kinds[0])] if self.fail else []
        return kinds


def intervals(operations: int) -> Iterator[list[tuple[int, int, int]]]:
    """Every way in which operations can overlap, once: begin, end, and how many have these.

    An interval order has one representation by closed intervals between the fewest integers, in
    which every integer is the end of one interval and the begin of one (Fishburn, "Interval Orders
    and Interval Graphs", 1985). What touches is concurrent there, so these histories are full of
    equal times. There are 1, 2, 5, 15, 53 of one to five operations.
    """
    for size in range(1, operations + 1):
        cells = [(begin, end) for begin in range(size) for end in range(begin, size)]
        for counts in _sums(len(cells), operations):
            used = [(*cell, many) for cell, many in zip(cells, counts, strict=True) if many]
            if all(any(one[place] == at for one in used) for at in range(size) for place in (0, 1)):
                yield used


def _sums(places: int, total: int) -> Iterator[tuple[int, ...]]:
    if places == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _sums(places - 1, total - first):
            yield (first, *rest)


def overlapping(operations: int, domain: Domain, share: int) -> Iterator[History]:
    """Every history of so many operations, or one in so many, each on its own process, once:
    operations with the same interval are interchangeable."""
    kinds = domain.kinds()
    every = (
        (used, chosen)
        for used in intervals(operations)
        for chosen in product(*(combinations_with_replacement(kinds, many) for *_, many in used))
    )
    for used, chosen in islice(every, 0, None, share):
        process = count()
        yield tuple(
            one._replace(invoke_ns=begin, complete_ns=end, process=next(process))
            for (begin, end, _), group in zip(used, chosen, strict=True)
            for one in group
        )


def by_process(operations: int, domain: Domain, share: int) -> Iterator[History]:
    """Every history of so many operations, or one in so many, that processes do one after the
    other, once: processes that do the same are interchangeable."""
    return (
        tuple(
            one._replace(process=process, invoke_ns=place, complete_ns=place)
            for process, line in enumerate(line for group in chosen for line in group)
            for place, one in enumerate(line)
        )
        for chosen in islice(_lines(operations, domain.kinds()), 0, None, share)
    )


def _lines(operations: int, kinds: list[Operation]) -> Iterator[Any]:
    for lengths in _partitions(operations, operations):
        groups = [(length, lengths.count(length)) for length in sorted(set(lengths))]
        choices = (
            combinations_with_replacement(list(product(kinds, repeat=length)), many)
            for length, many in groups
        )
        yield from product(*choices)


def _partitions(total: int, most: int) -> Iterator[list[int]]:
    if not total:
        yield []
    for first in range(min(total, most), 0, -1):
        for rest in _partitions(total - first, first):
            yield [first, *rest]


def drawn(random: Random, size: int, *, values: int = 3) -> History:
    """A random history of one key with the initial value 0: a register that some operations take
    effect on at a random instant, with a few answers changed, and times that often touch."""
    clocks = [0] * random.randint(1, 4)
    rows: list[tuple[int, Operation]] = []
    for _ in range(size):
        process = random.randrange(len(clocks))
        begin = clocks[process] + random.choice([0, 0, 1, 2])
        end = begin + random.choice([0, 1, 2, 4, 7])
        clocks[process] = end + random.choice([0, 1])
        f = random.choice([READ, READ, WRITE, CAS])
        kind = random.choice([OK] * 6 + [INFO, INFO, FAIL])
        value, expected = random.randrange(values), random.randrange(values)
        one = Operation(f, value, expected, kind, process, begin, end)
        rows.append((random.randint(begin, end + (9 if kind == INFO else 0)), one))
    return _answered(random, rows)


def _answered(random: Random, rows: Sequence[tuple[int, Operation]]) -> History:
    state, answered = 0, [one for _, one in rows]
    for at in sorted(range(len(rows)), key=lambda place: rows[place][0]):
        one = rows[at][1]
        if one.f == READ and random.random() < 0.9:
            answered[at] = one._replace(value=state)
        elif one.f == CAS and random.random() < 0.9:
            answered[at] = one._replace(expected=state)
        happened = one.type == OK or (one.type == INFO and random.random() < 0.5)
        if one.f != READ and happened:
            state = one.value
    for at, one in enumerate(answered):
        if one.type == INFO and random.random() < 0.5:
            answered[at] = one._replace(complete_ns=NEVER)
    return tuple(answered)

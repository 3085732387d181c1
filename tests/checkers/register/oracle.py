"""What the checker of registers is held against: every order of every choice of `info` writes is
tried, on rows. It shares nothing with the checker but the words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from checkers.register.operations import (
    CAS,
    READ,
    Operation,
)
from harness.protocols.runs import (
    FAIL,
    INFO,
    NULL,
    OK,
)

Precedes = Callable[[int, int], bool]


def linearizable(rows: Sequence[Operation], initial: int = NULL) -> bool:
    """Whether a key's rows have a linearization."""

    def precedes(first: int, second: int) -> bool:
        return rows[first].complete_ns < rows[second].invoke_ns

    return _ordered(rows, initial, precedes)


def sequential(rows: Sequence[Operation], initial: int = NULL) -> bool:
    """Whether a key's rows have a legal order that keeps the order of each process."""

    def precedes(first: int, second: int) -> bool:
        one, two = rows[first], rows[second]
        if one.process != two.process:
            return False
        return (one.invoke_ns, one.complete_ns, first) < (two.invoke_ns, two.complete_ns, second)

    return _ordered(rows, initial, precedes)


def _ordered(rows: Sequence[Operation], initial: int, precedes: Precedes) -> bool:
    sure = [at for at, row in enumerate(rows) if row.type == OK]
    maybe = [at for at, row in enumerate(rows) if row.type == INFO and row.f != READ]
    before = {
        at: frozenset(one for one in sure if one != at and precedes(one, at)) for at in sure + maybe
    }

    def tried(left: frozenset[int], spare: frozenset[int], state: int) -> bool:
        if not left:
            return True
        for at in left | spare:
            if before[at] & left or (after := step(state, rows[at])) is None:
                continue
            if tried(left - {at}, spare - {at}, after):
                return True
        return False

    return tried(frozenset(sure), frozenset(maybe), initial)


def step(state: int, one: Operation) -> int | None:
    """What a register holds after an operation; None where it cannot be."""
    needs = {READ: one.value, CAS: one.expected}.get(one.f, state)
    if needs != state:
        return None
    return state if one.f == READ else one.value


def is_legal(
    rows: Sequence[Operation], order: Iterable[int], initial: int, *, in_real_time: bool
) -> bool:
    """Whether an order of some of a key's rows is legal and keeps what must be kept."""
    state: int | None = initial
    placed: list[int] = []
    for at in order:
        state = step(state, rows[at]) if state is not None else None
        for earlier in placed if in_real_time else ():
            if rows[at].type == OK and rows[at].complete_ns < rows[earlier].invoke_ns:
                return False
        placed.append(at)
    return state is not None and len(set(placed)) == len(placed)


def ages(rows: Sequence[Operation], initial: int = NULL) -> dict[int, tuple[int, int] | str]:
    """Of each `ok` read that is stale its age in versions and nanoseconds; of others without an age
    the reason."""
    found: dict[int, tuple[int, int] | str] = {}
    for at, read in enumerate(rows):
        if read.type != OK or read.f != READ:
            continue
        same = [row for row in rows if row.key == read.key and row.type != FAIL]
        writers = [row for row in same if _stores(row) and row.value == read.value]
        count = len(writers) + (read.value == initial)
        if count != 1:
            found[at] = "undated" if count else "unwritten"
            continue
        known = None if not writers else min(_known(same, read.value), default=0)
        newer = [
            row.complete_ns
            for row in same
            if row.type == OK
            and _stores(row)
            and (known is None or row.invoke_ns > known)
            and row.complete_ns < read.invoke_ns
        ]
        if newer:
            found[at] = len(newer), read.invoke_ns - min(newer)
    return found


def _stores(row: Operation) -> bool:
    return row.f != READ and not (row.f == CAS and row.expected == row.value)


def _known(rows: Iterable[Operation], value: int) -> Iterator[int]:
    for row in rows:
        consumes = {READ: row.value, CAS: row.expected}.get(row.f)
        if row.type == OK and (consumes == value or (_stores(row) and row.value == value)):
            yield row.complete_ns

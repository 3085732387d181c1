"""The operations of registers, as columns: what was requested, what was answered, and when.

An operation is a read, a write or a compare-and-set of one key. What it may have done follows from
its type:

    ok      it took effect at one instant between its invocation and its completion, both included
    fail    it had no effect, and is ignored. That holds for a failed compare-and-set too: a refusal
            would be an observation ("the value differs"), but only where it is proven to be the
            register's own answer to the only attempt, which the types do not tell
    info    a write or compare-and-set took effect at some instant after its invocation (the time of
            its completion says nothing), or never; a read is ignored

An operation precedes another in real time when it completes *before* the other is invoked. Two that
touch (one completes at the instant at which the other is invoked) are concurrent: intervals are
closed, as in Porcupine (anishathalye/porcupine, `model.go`). Those of a recorded history never
touch: the order of its rows distinguishes what a clock may not (`pairing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

READ, WRITE, CAS = 0, 1, 2
"""The codes of the functions."""

OK, FAIL, INFO = 0, 1, 2
"""The codes of the types."""

NULL: Final = -(2**63)
"""Stands for no value: a register that was never written holds it, and a read of it returns it."""

NEVER: Final = 2**63 - 1
"""The completion of an operation that never completed."""


class Operation(NamedTuple):
    """One row. `value`: what a write or compare-and-set would store, what a read returned;
    `expected`: what a compare-and-set would replace."""

    f: int
    value: int = NULL
    expected: int = NULL
    type: int = OK
    process: int = 0
    invoke_ns: int = 0
    complete_ns: int = NEVER
    key: int = 0


@dataclass(frozen=True)
class Operations:
    """The columns, of one length; keys are codes. Raises ValueError for rows that cannot be."""

    f: Ints
    value: Ints
    expected: Ints
    type: Ints
    process: Ints
    invoke_ns: Ints
    complete_ns: Ints
    key: Ints

    def __post_init__(self) -> None:
        if len({len(getattr(self, column.name)) for column in fields(self)}) != 1:
            raise ValueError("the columns of operations differ in length; give one row each")
        for name in ("f", "type"):
            codes = getattr(self, name)
            if ((codes < 0) | (codes > 2)).any():
                raise ValueError(f"an operation's {name} is not one of 0, 1, 2; use the codes")
        ok = self.type == OK
        if (ok & (self.complete_ns == NEVER)).any():
            raise ValueError("an operation is ok but never completed; such a one is info")
        if (ok & (self.complete_ns < self.invoke_ns)).any():
            raise ValueError("an operation completed before its invocation; compare the clocks")

    def __len__(self) -> int:
        return len(self.key)

    def __iter__(self) -> Iterator[Operation]:
        columns = (getattr(self, column.name).tolist() for column in fields(self))
        return map(Operation._make, zip(*columns, strict=True))

    @classmethod
    def of(cls, rows: Iterable[Operation]) -> Operations:
        """Columns of rows."""
        table = np.array([tuple(row) for row in rows], np.int64).reshape(-1, len(fields(cls)))
        return cls(*table.T)

    def take(self, rows: Ints | Bools) -> Operations:
        """Some of the rows."""
        return Operations(*(getattr(self, column.name)[rows] for column in fields(self)))

    def changed(self, **columns: Ints) -> Operations:
        """The same rows with other columns."""
        return replace(self, **columns)


def by_key(operations: Operations) -> Iterator[tuple[int, Ints]]:
    """Each key, in order, with the places of its rows in their order."""
    order = np.argsort(operations.key, kind="stable")
    held = operations.key[order]
    keys, begins = np.unique(held, return_index=True)
    ends = np.searchsorted(held, keys, side="right")
    for key, begin, end in zip(keys.tolist(), begins, ends, strict=True):
        yield key, order[begin:end]

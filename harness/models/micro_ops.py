"""What a transaction did, as four integers a micro-operation.

The column `elements` of a row holds them one after the other: kind, key, offset, value.
Of the model `transaction`:

    SEND        a value was sent to the log `key`; its offset, or NULL where it is not known
    POLL        a poll returned a record: one for each record, in the order returned
    ASSIGNED    `assign` or `subscribe`: the process polls this key from now on
    REBALANCED  while the operation ran, the logs of its process were reassigned, this key
                among them
    ABORT       the transaction is to be aborted, whatever becomes of its sends
    END         the log `key` is to be read from its start to its end, once no transaction is open
                in it; of a completion: it was, and `offset` is that end
    WHOLE       the same by another reader, which gets all that the log holds, whatever committed
    STORED      a record that this reader found, which has committed by what the log itself says
    DISCARDED   another that it found, which was aborted
    CONSUME     the transaction begins with a poll for the process's group, of at most `value`
                records, and sends one value for each; of a completion: it got so many
    OFFSETS     how far the process has consumed is stored: within the transaction, or by itself
    COMMIT      the commit is requested; implied where a transaction has no other end
    FENCE       a second instance of the producer takes over, and the first one continues
    CRASH       the process ends here; after COMMIT: before it knows the answer
    UNCOMMITTED of an invocation: the poll is to be one of read_uncommitted; of a completion: such a
                poll returned a record, whatever becomes of its transaction

Of the models `list-append` and `rw-register`, in the order in which the transaction did them:

    APPEND      `value` was appended to the list `key`
    WRITE       `value` was written to the register `key`
    READ        `key` was read; `offset` is how many values it held: NULL, nothing is known of what
                was read; 0, the empty list or a register without a value. `value` is a register's
    HELD        the next values of the list that the READ before returned: up to three of them, and
                NULL in the places that are left

An invocation has the steps that the process is about to take, in their order, its sends without
offsets; its completion has all that is known. Where a completion has nothing (a client that
raised), that of its invocation counts. What a micro-operation has not is NULL.

A key is the number of a log (a partition), and a value an integer below TEXT. What is a text in a
history from outside has the number TEXT + its place in `Facts.texts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harness.protocols.runs import NULL

SEND, POLL, ASSIGNED, REBALANCED, ABORT, END = range(6)
WHOLE, STORED, DISCARDED = range(6, 9)
CONSUME, OFFSETS, COMMIT, FENCE, CRASH, UNCOMMITTED = range(9, 15)
APPEND, WRITE, READ, HELD = range(15, 19)

WIDTH: Final = 4
"""Integers of one micro-operation."""

TEXT: Final = 2**62
"""From here on numbers stand for texts."""


class MicroOp(NamedTuple):
    """One micro-operation."""

    kind: int
    key: int = NULL
    offset: int = NULL
    value: int = NULL


def micro_ops(elements: Sequence[int]) -> Iterator[MicroOp]:
    """The micro-operations of a column `elements`."""
    return (MicroOp(*elements[begin : begin + WIDTH]) for begin in range(0, len(elements), WIDTH))


def elements_of(*micro: MicroOp) -> tuple[int, ...]:
    """Micro-operations as a column `elements` holds them."""
    return tuple(number for each in micro for number in each)


Step = tuple[str, str, int | None]
"""A step of a transaction as clients get it: ("append", key, value), ("w", key, value) or
("r", key, None)."""

Read = Sequence[int] | int | None
"""What a step "r" returns: a list, or the value of a register (`None`: it has none)."""

STEPS: Final = {APPEND: "append", WRITE: "w", READ: "r"}


def steps_of(elements: Sequence[int]) -> list[Step]:
    """The steps that an invocation requests."""
    return [
        (STEPS[kind], str(key), None if kind == READ else value)
        for kind, key, _, value in micro_ops(elements)
    ]


def answered(elements: Sequence[int], reads: Sequence[Read]) -> tuple[int, ...]:
    """The same with what the reads returned, in their order."""
    found, rest = list[int](), iter(reads)
    for micro in micro_ops(elements):
        found += micro if micro.kind != READ else read_of(micro.key, next(rest))
    return tuple(found)


def read_of(key: int, read: Read) -> list[int]:
    """The micro-operations of a read."""
    if read is None or isinstance(read, int):
        return [READ, key, int(read is not None), NULL if read is None else read]
    found = [READ, key, len(read), NULL]
    for begin in range(0, len(read), WIDTH - 1):
        part = read[begin : begin + WIDTH - 1]
        found += HELD, *part, *[NULL] * (WIDTH - 1 - len(part))
    return found

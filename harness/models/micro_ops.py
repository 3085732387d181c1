"""What an operation of the model `transaction` did, as four integers a micro-operation.

The column `elements` of a row holds them one after the other: kind, key, offset, value.

    SEND        a value was sent to the log `key`; its offset, or NULL where it is not known
    POLL        a poll returned a record: one for each record, in the order returned
    ASSIGNED    `assign` or `subscribe`: the process polls this key from now on
    REBALANCED  while the operation ran, the logs of its process were dealt out again, this key
                among them

An invocation has what the process is about to do: its sends, without offsets; its completion has
all that is known. Where a completion has nothing (a client that raised), that of its invocation
counts. What a micro-operation has not is NULL.

A key is the number of a log (a partition), and a value an integer below TEXT. What is a text in a
history from outside has the number TEXT + its place in `Facts.texts`.
"""

from __future__ import annotations

from typing import Final

SEND, POLL, ASSIGNED, REBALANCED = range(4)

WIDTH: Final = 4
"""Integers of one micro-operation."""

TEXT: Final = 2**62
"""From here on numbers stand for texts."""

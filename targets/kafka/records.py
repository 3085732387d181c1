"""Records as a consumer hands them over, as columns of `harness.history.READS`.

A key is what was written: null, or text. What cannot have been written by a workload gets a value
that none writes, a negative one, which is never attempted and so counts as unexpected: a value that
is not a number as `producers` writes them, a null or empty one, and any value whose key is not
UTF-8; that key is shown with its bytes escaped.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harness.history import READS

DIGITS, MOST_DIGITS = 10, 18
"""How many digits a value has: ten, or as many more as it needs."""

_ZERO = ord("0")
_Numbers = TypeVar("_Numbers", int, NDArray[np.int64])


@dataclass
class Columns:
    """Records in the order in which they came; `leader_epoch` is -1 if the library reports none."""

    partition: array[int] = field(default_factory=lambda: array("i"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    key: list[str | None] = field(default_factory=list)
    value: array[int] = field(default_factory=lambda: array("q"))
    leader_epoch: array[int] = field(default_factory=lambda: array("i"))
    time_ns: array[int] = field(default_factory=lambda: array("q"))

    def add(
        self, partition: int, offset: int, key: bytes | None, raw: bytes | None, epoch: int | None
    ) -> None:
        """One record, read now."""
        value = value_of(raw, offset)
        if key is None:
            self.key.append(None)
        else:
            text, ours = key_of(key)
            self.key.append(text)
            value = value if ours else never(offset)
        self.partition.append(partition)
        self.offset.append(offset)
        self.value.append(value)
        self.leader_epoch.append(-1 if epoch is None else epoch)
        self.time_ns.append(time.monotonic_ns())

    def extend(self, more: Columns) -> None:
        """Records that came later."""
        for name, column in vars(self).items():
            column.extend(getattr(more, name))

    def offsets(self, partition: int) -> NDArray[np.int64]:
        """Those of one partition, in the order in which they came."""
        every = np.frombuffer(self.offset, dtype=np.int64)
        chosen: NDArray[np.int64] = every[np.frombuffer(self.partition, np.int32) == partition]
        return chosen

    def table(self, reader: str) -> pa.Table:
        """Rows of READS without their run."""
        rows = len(self.offset)
        epochs = np.frombuffer(self.leader_epoch, dtype=np.int32)
        columns = {
            "reader": pa.array([reader] * rows, pa.string()).cast(READS.field("reader").type),
            "key": pa.array(self.key, pa.string()).cast(READS.field("key").type),
            "partition": pa.array(np.frombuffer(self.partition, dtype=np.int32)),
            "offset": pa.array(np.frombuffer(self.offset, dtype=np.int64)),
            "value": pa.array(np.frombuffer(self.value, dtype=np.int64)),
            "leader_epoch": pa.array(epochs, mask=epochs < 0),
            "time_ns": pa.array(np.frombuffer(self.time_ns, dtype=np.int64)),
        }
        return pa.table(columns)


def key_of(raw: bytes) -> tuple[str, bool]:
    """A key as text, and whether it is one that a workload may write."""
    try:
        return raw.decode(), True
    except UnicodeDecodeError:
        return raw.decode(errors="backslashreplace"), False


def value_of(raw: bytes | None, offset: int) -> int:
    """The number, if it is written as ackloss writes numbers: ten digits, or more without a zero
    in front."""
    if raw and raw.isdigit():
        digits = len(raw)
        if digits == DIGITS or (DIGITS < digits <= MOST_DIGITS and raw[0] != _ZERO):
            return int(raw)
    return never(offset)


def never(offset: _Numbers) -> _Numbers:
    """A value that no workload writes, one for each offset."""
    return -1 - offset

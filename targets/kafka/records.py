"""Records as a consumer hands them over, as columns of `harness.history.READS`.

A key is what was written: null, or text. What cannot have been written by a workload gets a value
that none writes, a negative one, which is never attempted and so counts as unexpected: a value that
is not a number as `producers` writes them, a null or empty one, and any value whose key is no
UTF-8; that key is shown with its bytes escaped.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harness.history import READS

_DIGITS, _MOST_DIGITS = 10, 18
_ZERO = ord("0")


@dataclass
class Columns:
    """Records in the order in which they came; `leader_epoch` is -1 where the library tells
    none."""

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
        value = _value(raw, offset)
        if key is None:
            self.key.append(None)
        else:
            try:
                self.key.append(key.decode())
            except UnicodeDecodeError:
                self.key.append(key.decode(errors="backslashreplace"))
                value = _never(offset)
        self.partition.append(partition)
        self.offset.append(offset)
        self.value.append(value)
        self.leader_epoch.append(-1 if epoch is None else epoch)
        self.time_ns.append(time.monotonic_ns())

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


def _value(raw: bytes | None, offset: int) -> int:
    """The number, if it is written as ackloss writes numbers: ten digits, or more without a zero
    in front."""
    if raw and raw.isdigit():
        digits = len(raw)
        if digits == _DIGITS or (_DIGITS < digits <= _MOST_DIGITS and raw[0] != _ZERO):
            return int(raw)
    return _never(offset)


def _never(offset: int) -> int:
    """A value that no workload writes, one for each offset."""
    return -1 - offset

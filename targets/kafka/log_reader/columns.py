"""Records as columns of `harness.history.READS`: keys and values read as `targets.kafka.records`
reads them one by one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harness.history import READS
from targets.kafka.log_reader.numbers import Bytes, Ints
from targets.kafka.log_reader.records import Records, Texts
from targets.kafka.records import DIGITS, MOST_DIGITS, key_of, never

_COLUMNS: Final = pa.schema([one for one in READS if one.name not in ("run_id", "reader")])
_KEY: Final = READS.field("key").type


@dataclass
class Chunks:
    """Records in the order in which they came, a table a chunk."""

    tables: list[pa.Table] = field(default_factory=list)

    def add(self, partition: int, records: Records, *, first: int) -> None:
        """Those of one partition that are at the offset `first` or after it, read now."""
        value = values(records.buffer, records.value, records.offset)
        key, strange = keys(records.buffer, records.key)
        value = np.where(strange, never(records.offset), value)
        rows, epoch = len(value), records.leader_epoch.astype(np.int32)
        table = pa.table(
            {
                "key": key,
                "partition": np.full(rows, partition, np.int32),
                "offset": records.offset,
                "value": value,
                "leader_epoch": pa.array(epoch, mask=epoch < 0),
                "time_ns": np.full(rows, time.monotonic_ns()),
            },
            schema=_COLUMNS,
        )
        wanted = records.offset >= first
        self.tables.append(table if wanted.all() else table.filter(pa.array(wanted)))

    def offsets(self, partition: int) -> NDArray[np.int64]:
        """Those of one partition, in the order in which they came."""
        there = (
            np.empty(0, np.int64),
            *(
                table["offset"].to_numpy()
                for table in self.tables
                if table.num_rows and table["partition"][0].as_py() == partition
            ),
        )
        return np.concatenate(there)

    def table(self, reader: str) -> pa.Table:
        """Rows of READS without their run."""
        rows = pa.concat_tables([_COLUMNS.empty_table(), *self.tables])
        of = np.zeros(rows.num_rows, np.int32)
        return rows.append_column("reader", pa.DictionaryArray.from_arrays(of, pa.array([reader])))


def values(buffer: Bytes, text: Texts, offset: Ints) -> Ints:
    """The numbers, where they are written as ackloss writes numbers; else what none writes."""
    value = never(offset)
    for digits in range(DIGITS, MOST_DIGITS + 1):
        chosen = np.flatnonzero(text.size == digits)
        if not chosen.size:
            continue
        at, number = text.at[chosen], np.zeros(len(chosen), np.int64)
        right = np.ones(len(chosen), np.bool_)
        for place in range(digits):
            digit = buffer[at + place] - np.uint8(ord("0"))
            right &= digit < 10
            number = number * 10 + digit
            if place == 0 and digits > DIGITS:
                right &= digit != 0
        value[chosen[right]] = number[right]
    return value


def keys(buffer: Bytes, text: Texts) -> tuple[pa.DictionaryArray, NDArray[np.bool_]]:
    """The keys, and which of them are none that a workload writes."""
    strange = np.zeros(len(text.size), np.bool_)
    if (text.size < 0).all():
        return pa.nulls(len(strange), _KEY), strange
    size = text.size.clip(min=0)
    ends = np.cumsum(size)
    taken = np.arange(ends[-1]) + np.repeat(text.at - (ends - size), size)
    starts = np.concatenate([[0], ends])
    raw = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(size),
        [None, pa.py_buffer(starts.tobytes()), pa.py_buffer(buffer[taken].tobytes())],
    ).dictionary_encode()
    read = [key_of(key) for key in raw.dictionary.to_pylist()]
    names = {name: code for code, name in enumerate(dict.fromkeys(name for name, _ in read))}
    codes = np.array([names[name] for name, _ in read], np.int32)[raw.indices.to_numpy()]
    strange = np.array([not ours for _, ours in read])[raw.indices.to_numpy()] & (text.size >= 0)
    indices = pa.array(codes, mask=text.size < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), pa.string())), strange

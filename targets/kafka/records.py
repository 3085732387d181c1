"""Records as a consumer hands them over, as columns of `harness.history.READS`.

A key is what was written: null, or text. What cannot have been written by a workload gets a value
that none writes, a negative one, which is never attempted and so counts as unexpected: a value that
is not a number as `producers` writes them, a null or empty one, and any value whose key is not
UTF-8; that key is shown with its bytes escaped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harness.history import READS
from targets.kafka.record_sets import NO_EPOCH, NO_TIME, Bytes, Ints, Records, Span, Texts

DIGITS, MOST_DIGITS = 10, 18
"""How many digits a value has: ten, or as many more as it needs."""

_Numbers = TypeVar("_Numbers", int, Ints)
_COLUMNS: Final = pa.schema([one for one in READS if one.name not in ("run_id", "reader")])
_KEY: Final = READS.field("key").type


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
        if digits == DIGITS or (DIGITS < digits <= MOST_DIGITS and raw[0] != ord("0")):
            return int(raw)
    return never(offset)


def never(offset: _Numbers) -> _Numbers:
    """A value that no workload writes, one for each offset."""
    return -1 - offset


class Message(NamedTuple):
    """A record as a client library hands it over."""

    offset: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int | None


def of_messages(messages: Sequence[Message]) -> Records:
    """The same, as what a broker stores is decoded."""
    texts = [message.key for message in messages] + [message.value for message in messages]
    size = np.array([-1 if text is None else len(text) for text in texts], np.int64)
    at, rows = np.cumsum(size.clip(min=0)) - size.clip(min=0), len(messages)
    offsets = np.array([message.offset for message in messages], np.int64)
    return Records(
        buffer=np.frombuffer(b"".join(text or b"" for text in texts), np.uint8),
        offset=offsets,
        timestamp_ms=np.full(rows, NO_TIME),
        leader_epoch=np.array([NO_EPOCH if e is None else e for *_, e in messages], np.int64),
        key=Texts(at[:rows], size[:rows]),
        value=Texts(at[rows:], size[rows:]),
        next_offset=int(offsets[-1]) + 1,
    )


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


@dataclass
class Reading:
    """One reader's progress from `starts` to `goals`, offsets by partition: the records that it has
    read, in the order in which they came, the next offset, and the first error of each partition.
    `spans`: batches of transactions, of a reader that hands them over; one may come twice.
    `brokers`: which ones records came from, of a reader that knows."""

    starts: Mapping[int, int]
    goals: Mapping[int, int]
    tables: list[pa.Table] = field(default_factory=list)
    position: dict[int, int] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    spans: dict[int, list[Span]] = field(default_factory=dict)
    brokers: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.position = dict(self.starts)

    def add(self, partition: int, records: Records, *, first: int) -> None:
        """Records of one partition that are at the offset `first` or after it, read now."""
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

    def reach(self, partition: int, offset: int) -> None:
        """The next offset to be read is this, or a later one."""
        self.position[partition] = max(offset, self.position[partition])

    def fail(self, partition: int | None, error: str) -> None:
        """It met an error; null: one that names no partition."""
        for each in self.starts if partition is None else [partition]:
            self.errors.setdefault(each, error)

    def offsets(self, partition: int) -> NDArray[np.int64]:
        """Those of one partition, in the order in which they came."""
        there = (
            table["offset"].to_numpy()
            for table in self.tables
            if table.num_rows and table["partition"][0].as_py() == partition
        )
        return np.concatenate([np.empty(0, np.int64), *there])

    def table(self, reader: str) -> pa.Table:
        """All records as rows of READS without their run."""
        rows = pa.concat_tables([_COLUMNS.empty_table(), *self.tables])
        of = np.zeros(rows.num_rows, np.int32)
        return rows.append_column("reader", pa.DictionaryArray.from_arrays(of, pa.array([reader])))

    def ended(self) -> bool:
        """Whether there is nothing to wait for: each partition is at its goal, or has an error."""
        return all(
            self.position[partition] >= goal or partition in self.errors
            for partition, goal in self.goals.items()
        )

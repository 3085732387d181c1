"""What both kinds of format have in common: decoded records, and the header that each begins with.

Formats: https://kafka.apache.org/documentation/#messageformat (2), the same of 0.10.2 (0 and 1).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from targets.kafka.log_reader.numbers import Bytes, Ints, NotARecord

NO_EPOCH: Final = -1
NO_TIME: Final = -1

LOG_OVERHEAD: Final = 12
"""Bytes of a batch or message that its length does not count: its offset and the length."""
CODEC: Final = 0x07
APPEND_TIME: Final = 0x08
_MAGIC_AT: Final = 16
_SMALLEST: Final = {0: 14, 1: 22, 2: 49}
"""Bytes that a message or batch without anything in it has after its length, by its format."""


class Damaged(Exception):
    """A record set cannot be read on: at which offset, and why."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"offset {offset}: {why}")
        self.offset = offset


class Span(NamedTuple):
    """A batch of a transaction: its producer, the offsets that it takes, and, of a marker,
    whether it says that the producer's transaction commits; `None`: it has records."""

    producer: int
    first: int
    behind: int
    commits: bool | None


class Texts(NamedTuple):
    """Bytes of each record: where they begin in the buffer, and how many; -1: null."""

    at: Ints
    size: Ints


@dataclass(frozen=True, kw_only=True)
class Records:
    """Records in the order of the log, `NO_EPOCH` and `NO_TIME` where the format has none.
    `next_offset`: the one after the last batch, which may be beyond its last record. `controls`:
    how many markers of transactions were left out; `spans`: the batches of transactions, markers
    too, in the order of the log."""

    buffer: Bytes
    offset: Ints
    timestamp_ms: Ints
    leader_epoch: Ints
    key: Texts
    value: Texts
    next_offset: int
    controls: int = 0
    spans: tuple[Span, ...] = ()


def format_at(raw: bytes, at: int) -> int | None:
    """The format of the batch or message there; null where it is not complete. Raises
    NotARecord."""
    if len(raw) - at <= _MAGIC_AT:
        return None
    offset, length = struct.unpack_from(">qi", raw, at)
    magic = raw[at + _MAGIC_AT]
    if offset < 0:
        raise NotARecord("its offset is negative")
    if magic not in _SMALLEST:
        raise NotARecord(f"it has the message format {magic}, which is not known")
    if length < _SMALLEST[magic]:
        raise NotARecord(f"its length, {length}, is too small")
    return magic if length <= len(raw) - at - LOG_OVERHEAD else None


def text(size: Ints, at: Ints, end: Ints) -> tuple[Texts, Ints]:
    """Bytes of these sizes that begin there, and the place after them. Raises NotARecord."""
    behind = at + size.clip(min=0)
    if (size < -1).any() or (behind > end).any():
        raise NotARecord("a key or a value goes on behind its record")
    return Texts(at, size), behind


def joined(raw: bytes, unpacked: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join([raw, *unpacked]) if unpacked else raw, np.uint8)

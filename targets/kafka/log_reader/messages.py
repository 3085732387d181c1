"""Messages of the formats 0 and 1, and messages within compressed ones.

Formats: https://kafka.apache.org/0102/documentation.html#messageformat
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from targets.kafka.log_reader.codecs import decompressed
from targets.kafka.log_reader.numbers import NotARecord, int32s
from targets.kafka.log_reader.records import (
    APPEND_TIME,
    CODEC,
    LOG_OVERHEAD,
    NO_EPOCH,
    NO_TIME,
    Damaged,
    Records,
    format_at,
    joined,
    text,
)

_MESSAGE: Final = struct.Struct(">qiIbb")
_CHECKED_AT: Final = 16


@dataclass
class Messages:
    """Messages of the formats 0 and 1, or messages within compressed ones."""

    raw: bytes
    unpacked: list[bytes] = field(default_factory=list)
    room: int = 0
    places: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    times_ms: array[int] = field(default_factory=lambda: array("q"))
    next_offset: int = 0

    def take(self, at: int) -> int:
        """The message there, and where the next one begins. Raises NotARecord,
        Incompressible."""
        offset, magic, attributes, fields, end = _message(self.raw, at)
        time_ms = _time_ms(self.raw, at) if magic else NO_TIME
        if codec := attributes & CODEC:
            by_broker = time_ms if magic and attributes & APPEND_TIME else None
            self._take_inner(_packed(self.raw, fields, end), codec, magic, offset, by_broker)
        else:
            self._add(fields, end, offset, time_ms)
        self.next_offset = offset + 1
        return end

    def _add(self, fields: int, end: int, offset: int, time_ms: int) -> None:
        self.places.append(fields)
        self.ends.append(end)
        self.offsets.append(offset)
        self.times_ms.append(time_ms)

    def _take_inner(
        self, packed: bytes, codec: int, magic: int, last: int, by_broker: int | None
    ) -> None:
        """The messages within a compressed one, whose offset is that of its `last`: in format 1
        they count from any offset."""
        unpacked = decompressed(codec, packed, magic=magic)
        base, at, inner = len(self.raw) + self.room, 0, list[tuple[int, int, int, int]]()
        while at < len(unpacked):
            if format_at(unpacked, at) not in (0, 1):
                raise NotARecord("a message within it is cut off, or not of its format")
            offset, own, attributes, fields, end = _message(unpacked, at)
            if attributes & CODEC:
                raise NotARecord("a message within it is compressed again")
            time_ms = _time_ms(unpacked, at) if own else NO_TIME
            inner.append((base + fields, base + end, offset, time_ms))
            at = end
        shift = last - inner[-1][2] if inner and magic else 0
        for fields, end, offset, time_ms in inner:
            self._add(fields, end, offset + shift, time_ms if by_broker is None else by_broker)
        self.unpacked.append(unpacked)
        self.room += len(unpacked)

    def records(self) -> Iterator[Records]:
        """What was taken. Raises Damaged where lengths contradict each other."""
        buffer = joined(self.raw, self.unpacked)
        at, end, offset, time_ms = (
            np.frombuffer(column, np.int64)
            for column in (self.places, self.ends, self.offsets, self.times_ms)
        )
        try:
            key, at = text(int32s(buffer, at), at + 4, end)
            value, at = text(int32s(buffer, at), at + 4, end)
            if (at != end).any():
                raise NotARecord("a message is longer than its key and value")
        except NotARecord as error:
            raise Damaged(int(offset[0]), f"at or behind it, {error}") from error
        yield Records(
            buffer=buffer,
            offset=offset,
            timestamp_ms=time_ms,
            leader_epoch=np.full(len(offset), NO_EPOCH),
            key=key,
            value=value,
            next_offset=self.next_offset,
        )


def _message(raw: bytes, at: int) -> tuple[int, int, int, int, int]:
    """A message's offset, format and attributes, where its key begins and where it ends. Raises
    NotARecord."""
    offset, length, checksum, magic, attributes = _MESSAGE.unpack_from(raw, at)
    end = at + LOG_OVERHEAD + length
    if zlib.crc32(memoryview(raw)[at + _CHECKED_AT : end]) != checksum:
        raise NotARecord("its checksum is wrong")
    return offset, magic, attributes, at + _MESSAGE.size + (8 if magic else 0), end


def _time_ms(raw: bytes, at: int) -> int:
    (time_ms,) = struct.unpack_from(">q", raw, at + _MESSAGE.size)
    return int(time_ms)


def _packed(raw: bytes, at: int, end: int) -> bytes:
    """The value of a compressed message. Raises NotARecord."""
    (key,) = struct.unpack_from(">i", raw, at)
    at += 4 + max(0, key)
    if at + 4 > end:
        raise NotARecord("a message's key goes on behind it")
    (size,) = struct.unpack_from(">i", raw, at)
    if size < 0 or at + 4 + size != end:
        raise NotARecord("a compressed message is longer than its key and value")
    return raw[at + 4 : end]

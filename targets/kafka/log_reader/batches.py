"""Batches of format 2.

One step a batch, where its checksum is verified, and one a record, where its length is read;
everything else is done for all records at once (`numbers`). Records of one length follow each
other mostly, so the places of a run of them come from one comparison.

Format: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from crc32c import crc32c

from targets.kafka.log_reader.codecs import decompressed
from targets.kafka.log_reader.numbers import NotARecord, varint, varints
from targets.kafka.log_reader.records import (
    APPEND_TIME,
    CODEC,
    LOG_OVERHEAD,
    Damaged,
    Records,
    Span,
    joined,
    text,
)

_MARKER: Final = struct.Struct(">hh")
_BATCH: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED_AT: Final = 21
_MOST: Final = 2**63 - 1
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_COMMITS: Final = {0: False, 1: True}
"""What markers say, by the type of their key."""

_ALIKE: Final = 32
"""So many records of one length, one after the other, make a run likely."""
_WINDOW: Final = 256


@dataclass
class Batches:
    """Batches of format 2, one after the other in `raw`; what was decompressed is added to it."""

    raw: bytes
    unpacked: list[bytes] = field(default_factory=list)
    room: int = 0
    places: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    headers: list[tuple[int, int, int, int, bool]] = field(default_factory=list)
    next_offset: int = 0
    controls: int = 0
    spans: list[Span] = field(default_factory=list)

    def take(self, at: int) -> int:
        """The batch there, and where the next one begins. Raises NotARecord, Incompressible."""
        header = _BATCH.unpack_from(self.raw, at)
        offset, length, epoch, _, checksum, attributes, last_delta, first_ms, most_ms = header[:9]
        count, end = header[12], at + LOG_OVERHEAD + length
        if crc32c(memoryview(self.raw)[at + _CHECKED_AT : end]) != checksum:
            raise NotARecord("its checksum is wrong")
        if count < 0 or last_delta < 0 or offset + last_delta >= _MOST:
            raise NotARecord(f"it has {count} records up to {last_delta} behind its offset")
        if attributes & _CONTROL:
            self.controls += count
        elif count:
            self._take_records(at + _BATCH.size, end, count, attributes & CODEC)
            by_broker = bool(attributes & APPEND_TIME)
            self.headers.append(
                (count, offset, epoch, most_ms if by_broker else first_ms, by_broker)
            )
        self.next_offset = offset + last_delta + 1
        if attributes & _TRANSACTIONAL:
            marker = self._commits(at + _BATCH.size, end) if attributes & _CONTROL else None
            self.spans.append(Span(header[9], offset, self.next_offset, marker))
        return int(end)

    def _commits(self, at: int, end: int) -> bool:
        """What a marker says: the key of its one record is a version and a type, 16 bits each.
        Raises NotARecord."""
        _, at = varint(self.raw, at)
        at += 1  # its attributes
        for _ in ("time", "offset", "size of the key"):
            _, at = varint(self.raw, at)
        if at + _MARKER.size > end:
            raise NotARecord("a marker goes on behind its batch")
        _, kind = _MARKER.unpack_from(self.raw, at)
        if kind not in _COMMITS:
            raise NotARecord(f"its marker has the type {kind}, which is not known")
        return _COMMITS[kind]

    def _take_records(self, at: int, end: int, count: int, codec: int) -> None:
        found, base = array("q"), 0
        if codec:
            unpacked = decompressed(codec, self.raw[at:end], magic=2)
            base, end = len(self.raw) + self.room, len(unpacked)
            walk(unpacked, 0, end, count, found)
            self.unpacked.append(unpacked)
            self.room += end
            found = array("q", (np.frombuffer(found, np.int64) + base).tobytes())
        else:
            walk(self.raw, at, end, count, found)
        self.places.extend(found)
        self.ends.append(base + end)

    def records(self) -> Iterator[Records]:
        """What was taken. Raises Damaged where lengths contradict each other."""
        buffer = joined(self.raw, self.unpacked)
        headers = np.array(self.headers, np.int64).reshape(-1, 5)
        count, offset, epoch, time_ms, by_broker = headers.T
        place = np.frombuffer(self.places, np.int64)
        end = np.repeat(np.frombuffer(self.ends, np.int64), count)
        _, offset, epoch, time_ms, by_broker = np.repeat(headers, count, axis=0).T
        try:
            size, at = varints(buffer, place)
            end = np.minimum(end, at + size)
            delta_ms, at = varints(buffer, at + 1)  # behind the attributes, one byte
            delta, at = varints(buffer, at)
            key, at = text(*varints(buffer, at), end)
            value, _ = text(*varints(buffer, at), end)
        except NotARecord as error:
            raise Damaged(int(offset[0]), f"at or behind it, {error}") from error
        yield Records(
            buffer=buffer,
            offset=offset + delta,
            timestamp_ms=np.where(by_broker != 0, time_ms, time_ms + delta_ms),
            leader_epoch=epoch,
            key=key,
            value=value,
            next_offset=self.next_offset,
            controls=self.controls,
            spans=tuple(self.spans),
        )


def walk(raw: bytes, at: int, end: int, count: int, places: array[int]) -> None:
    """Append the places of `count` records that lie between `at` and `end`, each of which begins
    with its length. Raises NotARecord unless they fill that exactly."""
    left, size_before, alike = count, -1, 0
    while left and at < end:
        byte = raw[at]
        if byte < 0x80 and not byte & 1:
            size = 1 + (byte >> 1)
        elif byte >= 0x80 and at + 1 < end and (second := raw[at + 1]) < 0x80 and not byte & 1:
            size = 2 + (((byte & 0x7F) | second << 7) >> 1)
        else:
            length, behind = varint(raw, at)
            if length < 0:
                raise NotARecord(f"a record has the length {length}")
            size = behind - at + length
        alike = alike + 1 if size == size_before else 0
        size_before = size
        if alike < _ALIKE:
            places.append(at)
            at += size
            left -= 1
            continue
        run = _run(raw, at, size, min(left, (end - at) // size))
        if not run:
            break
        places.frombytes(np.arange(at, at + run * size, size).tobytes())
        at += run * size
        left -= run
        alike = 0
    if left or at != end:
        raise NotARecord(f"its {count} records do not fill it exactly")


def _run(raw: bytes, at: int, size: int, most: int) -> int:
    """How many records, `most` of them at most, begin with the length that the one at `at` has: of
    `size` bytes each."""
    run, window, leads = 0, _WINDOW, 1
    while raw[at + leads - 1] >= 0x80:
        leads += 1
    buffer = np.frombuffer(raw, np.uint8)
    while run < most:
        number = min(window, most - run)
        begin, behind = at + run * size, at + (run + number) * size
        same = np.ones(number, np.bool_)
        for lead in range(leads):
            same &= buffer[begin + lead : behind : size] == raw[at + lead]
        if not same.all():
            return run + int(same.argmin())
        run += number
        window *= 4
    return run

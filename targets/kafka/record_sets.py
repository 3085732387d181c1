"""Decodes what a broker stores and a Fetch returns, by numpy, not one record at a time: batches
(format 2), or messages (formats 0 and 1, compressed ones too).

A log is read some 20 to 50 times as fast as by a client library, which makes an object of each
record (`python -m bench.final_read`). Checksums and compression are libraries'; ours is the way
through a record set. Formats: https://kafka.apache.org/documentation/#messageformat (2), the same
of 0.10.2 (0 and 1). Varints are those of Protocol Buffers: seven bits a byte, the least significant
first, zigzag-encoded (https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_VARINT_BYTES: Final = 10
_NO_END: Final = "a number of more than ten bytes"


class NotARecord(ValueError):
    """Bytes that are not records: what is wrong with them, in words."""


def varints(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The varint at each place, and the place after them. Raises NotARecord."""
    byte = _bytes(buffer, at)
    value, behind = (byte & 0x7F).astype(np.uint64), at + 1
    going_on = np.flatnonzero(byte & 0x80)
    for number in range(1, _VARINT_BYTES):
        if not going_on.size:
            return _unzigzagged(value), behind
        byte = _bytes(buffer, behind[going_on])
        value[going_on] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        behind[going_on] += 1
        going_on = going_on[byte & 0x80 != 0]
    if going_on.size:
        raise NotARecord(_NO_END)
    return _unzigzagged(value), behind


def varint(buffer: bytes | bytearray, at: int) -> tuple[int, int]:
    """One varint and the place after it. Raises NotARecord."""
    value, at = _unsigned(buffer, at)
    return (value >> 1) ^ -(value & 1), at


def _unsigned(buffer: bytes | bytearray, at: int) -> tuple[int, int]:
    value = 0
    for number in range(_VARINT_BYTES):
        if at >= len(buffer):
            raise NotARecord("a record goes on behind its batch")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, at
    raise NotARecord(_NO_END)


def int32s(buffer: Bytes, at: Ints) -> Ints:
    """The big-endian integer of four bytes at each place. Raises NotARecord."""
    return _bytes(buffer, at[:, None] + np.arange(4)).view(">i4")[:, 0].astype(np.int64)


def _bytes(buffer: Bytes, at: Ints) -> Bytes:
    if at.size and (at.min() < 0 or at.max() >= len(buffer)):
        raise NotARecord("a record goes on behind its batch")
    byte: Bytes = buffer[at]
    return byte


def _unzigzagged(value: NDArray[np.uint64]) -> Ints:
    return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)


# Decompression. Arrow's libraries do it; ours are the frames that only Kafka has. Snappy comes in
# blocks with a header (xerial's snappy-java) or, from some clients, as one block. LZ4 comes in
# frames; in message format 0 their header has a wrong checksum (KAFKA-3160), and the right one, of
# one byte, is found by trial.

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_STREAMS: Final = {_GZIP: "gzip", _LZ4: "lz4", _ZSTD: "zstd"}
_HAS_SIZE: Final = 0x08
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_BYTES: Final = 16


def decompressed(codec: int, packed: bytes, *, magic: int) -> bytes:
    """The bytes that were compressed, in message format `magic`. Raises NotARecord, also where the
    codec is not known."""
    try:
        if codec == _SNAPPY:
            return _snappy(packed)
        if codec == _LZ4 and magic == 0:
            return _old_lz4(packed)
        if codec in _STREAMS:
            return _stream(_STREAMS[codec], packed)
    except (OSError, ValueError, pa.ArrowException, struct.error, IndexError) as error:
        raise NotARecord(f"it cannot be decompressed: {error}") from error
    raise NotARecord(f"it is compressed by a codec that is not known, {codec}")


def _stream(name: str, packed: bytes) -> bytes:
    with pa.input_stream(pa.py_buffer(packed), compression=name) as stream:
        unpacked: bytes = stream.read()
        return unpacked


def _old_lz4(frame: bytes) -> bytes:
    """The place of the header's checksum depends on whether it contains the content's size."""
    place = 14 if frame[4] & _HAS_SIZE else 6
    for checksum in range(256):
        with suppress(OSError):
            return _stream("lz4", frame[:place] + bytes([checksum]) + frame[place + 1 :])
    raise ValueError("no LZ4 frame")


def _snappy(packed: bytes) -> bytes:
    if not packed.startswith(_XERIAL):
        return _snappy_block(packed)
    blocks, at = [], _XERIAL_BYTES
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        at += 4
        if not 0 <= size <= len(packed) - at:
            raise ValueError("a block of snappy goes on behind its end")
        blocks.append(_snappy_block(packed[at : at + size]))
        at += size
    return b"".join(blocks)


def _snappy_block(packed: bytes) -> bytes:
    """A block begins with its size when unpacked, as a varint that is not zigzag-encoded."""
    size, _ = _unsigned(packed, 0)
    unpacked: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    return unpacked


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
    `next_offset`: the one after the last batch, which may be beyond its last record. Markers of
    transactions are left out; `spans`: the batches of transactions, markers too, in the order of
    the log."""

    buffer: Bytes
    offset: Ints
    timestamp_ms: Ints
    leader_epoch: Ints
    key: Texts
    value: Texts
    next_offset: int
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


_MESSAGE: Final = struct.Struct(">qiIbb")
_CRC_FROM: Final = 16


class Messages:
    """Messages of the formats 0 and 1, one after the other in `raw`; what was decompressed is
    behind that in the buffer."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.next_offset = raw, 0
        self._buffer, self._rows = bytearray(raw), array("q")

    def take(self, at: int) -> int:
        """The message there, and where the next one begins. Raises NotARecord."""
        offset, magic, attributes, time_ms, fields, end = _message(self.raw, at)
        if codec := attributes & CODEC:
            by_broker = time_ms if magic and attributes & APPEND_TIME else None
            self._take_inner(_packed(self.raw, fields, end), codec, magic, offset, by_broker)
        else:
            self._rows.extend((fields, end, offset, time_ms))
        self.next_offset = offset + 1
        return end

    def _take_inner(
        self, packed: bytes, codec: int, magic: int, last: int, by_broker: int | None
    ) -> None:
        """The messages within a compressed one, whose offset is that of its `last`: in format 1
        they count from any offset."""
        unpacked = decompressed(codec, packed, magic=magic)
        base, at, inner = len(self._buffer), 0, list[tuple[int, int, int, int]]()
        while at < len(unpacked):
            if format_at(unpacked, at) not in (0, 1):
                raise NotARecord("a message within it is cut off, or not of its format")
            offset, _, attributes, time_ms, fields, at = _message(unpacked, at)
            if attributes & CODEC:
                raise NotARecord("a message within it is compressed again")
            inner.append((base + fields, base + at, offset, time_ms))
        shift = last - inner[-1][2] if inner and magic else 0
        for fields, end, offset, time_ms in inner:
            made_ms = time_ms if by_broker is None else by_broker
            self._rows.extend((fields, end, offset + shift, made_ms))
        self._buffer += unpacked

    def records(self) -> Records:
        """What was taken. Raises Damaged where lengths contradict each other."""
        buffer = np.frombuffer(self._buffer, np.uint8)
        at, end, offset, time_ms = np.frombuffer(self._rows, np.int64).reshape(-1, 4).T
        try:
            key, at = text(int32s(buffer, at), at + 4, end)
            value, at = text(int32s(buffer, at), at + 4, end)
            if (at != end).any():
                raise NotARecord("a message is longer than its key and value")
        except NotARecord as error:
            raise Damaged(int(offset[0]), f"at or behind it, {error}") from error
        return Records(
            buffer=buffer,
            offset=offset,
            timestamp_ms=time_ms,
            leader_epoch=np.full(len(offset), NO_EPOCH),
            key=key,
            value=value,
            next_offset=self.next_offset,
        )


def _message(raw: bytes, at: int) -> tuple[int, int, int, int, int, int]:
    """A message's offset, format, attributes and time, where its key begins and where it ends.
    Raises NotARecord."""
    offset, length, checksum, magic, attributes = _MESSAGE.unpack_from(raw, at)
    end = at + LOG_OVERHEAD + length
    if zlib.crc32(memoryview(raw)[at + _CRC_FROM : end]) != checksum:
        raise NotARecord("its checksum is wrong")
    fields, time_ms = at + _MESSAGE.size, NO_TIME
    if magic:
        (time_ms,) = struct.unpack_from(">q", raw, fields)
        fields += 8
    return offset, magic, attributes, time_ms, fields, end


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


# Batches of format 2. One step a batch, where its checksum is verified, and one a record, where its
# length is read; everything else is done for all records at once. Records of one length follow each
# other mostly, so the places of a run of them come from one comparison.

_MARKER: Final = struct.Struct(">hh")
BATCH: Final = struct.Struct(">qiibIhiqqqhii")
CHECKED_AT: Final = 21
_MOST: Final = 2**63 - 1
_TRANSACTIONAL, CONTROL = 0x10, 0x20
_COMMITS: Final = {0: False, 1: True}
"""What markers say, by the type of their key."""

_ALIKE: Final = 32
"""So many records of one length, one after the other, make a run likely."""
_WINDOW: Final = 256


class Batch(NamedTuple):
    """A batch as its header has it, where it lies, and its length. A message of format 0 or 1 is
    one too, without an epoch."""

    first: int
    last: int
    epoch: int
    checksum: int
    attributes: int
    place: int
    size_bytes: int


def batches(raw: bytes) -> list[Batch]:
    """The complete batches, up to the end or to the first other bytes. No checksum is verified."""
    found, at = list[Batch](), 0
    while at + _MESSAGE.size <= len(raw):
        last, length, checksum, magic, attributes = _MESSAGE.unpack_from(raw, at)
        first, epoch, size = last, NO_EPOCH, LOG_OVERHEAD + length
        least = BATCH.size if magic == 2 else _MESSAGE.size + 8  # the lengths of key and value
        if magic not in (0, 1, 2) or not least <= size <= len(raw) - at:
            break
        if magic == 2:
            first, _, epoch, _, checksum, attributes, delta = BATCH.unpack_from(raw, at)[:7]
            last = first + delta
        elif attributes & CODEC and found:  # it has the offset of the last one in it
            first = found[-1].last + 1
        found.append(Batch(first, last, epoch, checksum, attributes, at, size))
        at += size
    return found


def marker(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """The type of the one record of a control batch, and where its value begins: its key is a
    version and the type, 16 bits each. Raises NotARecord."""
    _, at = varint(raw, at)
    at += 1  # its attributes
    for _ in ("time", "offset", "size of the key"):
        _, at = varint(raw, at)
    if at + _MARKER.size > end:
        raise NotARecord("a marker goes on behind its batch")
    _, kind = _MARKER.unpack_from(raw, at)
    return int(kind), varint(raw, at + _MARKER.size)[1]


class Batches:
    """Batches of format 2, one after the other in `raw`; what was decompressed is behind that in
    the buffer."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.next_offset, self.spans = raw, 0, list[Span]()
        self._buffer, self._places = bytearray(raw), array("q")
        self._headers = list[tuple[int, int, int, int, int, bool]]()

    def take(self, at: int) -> int:
        """The batch there, and where the next one begins. Raises NotARecord."""
        header = BATCH.unpack_from(self.raw, at)
        offset, length, epoch, _, checksum, attributes, last_delta, first_ms, most_ms = header[:9]
        count, first, end = header[12], at + BATCH.size, at + LOG_OVERHEAD + length
        if crc32c(memoryview(self.raw)[at + CHECKED_AT : end]) != checksum:
            raise NotARecord("its checksum is wrong")
        if count < 0 or last_delta < 0 or offset + last_delta >= _MOST:
            raise NotARecord(f"it has {count} records up to {last_delta} behind its offset")
        if count and not attributes & CONTROL:
            begin, behind = first, end
            if codec := attributes & CODEC:
                begin = len(self._buffer)
                self._buffer += decompressed(codec, self.raw[first:end], magic=2)
                behind = len(self._buffer)
            self._places += walk(self._buffer, begin, behind, count)
            by_broker = bool(attributes & APPEND_TIME)
            time_ms = most_ms if by_broker else first_ms
            self._headers.append((count, behind, offset, epoch, time_ms, by_broker))
        self.next_offset = offset + last_delta + 1
        if attributes & _TRANSACTIONAL:
            commits = self._commits(first, end) if attributes & CONTROL else None
            self.spans.append(Span(header[9], offset, self.next_offset, commits))
        return int(end)

    def _commits(self, at: int, end: int) -> bool:
        """What a marker says. Raises NotARecord."""
        kind, _ = marker(self.raw, at, end)
        if kind not in _COMMITS:
            raise NotARecord(f"its marker has the type {kind}, which is not known")
        return _COMMITS[kind]

    def records(self) -> Records:
        """What was taken. Raises Damaged where lengths contradict each other."""
        buffer, place = np.frombuffer(self._buffer, np.uint8), np.frombuffer(self._places, np.int64)
        headers = np.array(self._headers, np.int64).reshape(-1, 6)
        _, end, offset, epoch, time_ms, by_broker = np.repeat(headers, headers[:, 0], axis=0).T
        try:
            size, at = varints(buffer, place)
            end = np.minimum(end, at + size)
            delta_ms, at = varints(buffer, at + 1)  # behind the attributes, one byte
            delta, at = varints(buffer, at)
            key, at = text(*varints(buffer, at), end)
            value, _ = text(*varints(buffer, at), end)
        except NotARecord as error:
            raise Damaged(int(offset[0]), f"at or behind it, {error}") from error
        return Records(
            buffer=buffer,
            offset=offset + delta,
            timestamp_ms=np.where(by_broker != 0, time_ms, time_ms + delta_ms),
            leader_epoch=epoch,
            key=key,
            value=value,
            next_offset=self.next_offset,
            spans=tuple(self.spans),
        )


def walk(raw: bytes | bytearray, at: int, end: int, count: int) -> array[int]:
    """The places of `count` records that lie between `at` and `end`, each of which begins with its
    length. Raises NotARecord unless they fill that exactly."""
    places, left, size_before, alike = array("q"), count, -1, 0
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
    return places


def _run(raw: bytes | bytearray, at: int, size: int, most: int) -> int:
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


def records(raw: bytes) -> Iterator[Records]:
    """The records of all complete batches and messages, those of one format after the other; what
    is cut off at the end is left out. Raises Damaged, after all that comes before the damage."""
    taken: Batches | Messages | None = None
    at, damage = 0, None
    try:
        while (magic := format_at(raw, at)) is not None:
            kind = Batches if magic == 2 else Messages
            if not isinstance(taken, kind):
                if taken is not None:
                    yield taken.records()
                taken = kind(raw)
            at = taken.take(at)
    except NotARecord as error:
        (offset,) = struct.unpack_from(">q", raw, at)
        damage = Damaged(offset, str(error))
    if taken is not None:
        yield taken.records()
    if damage is not None:
        raise damage

"""Decompression of record sets. Arrow's libraries do it; ours are the frames that only Kafka has.

Snappy comes in blocks with a header (xerial's snappy-java) or, from some clients, as one block.
LZ4 comes in frames; in message format 0 their header has a wrong checksum (KAFKA-3160), and the
right one, of one byte, is found by trial.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final

import pyarrow as pa

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_STREAMS: Final = {_GZIP: "gzip", _LZ4: "lz4", _ZSTD: "zstd"}
_HAS_SIZE: Final = 0x08
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_BYTES: Final = 16


class Incompressible(ValueError):
    """Bytes that cannot be decompressed, or a codec that is not known."""


def decompressed(codec: int, packed: bytes, *, magic: int) -> bytes:
    """The bytes that were compressed, in message format `magic`. Raises Incompressible."""
    try:
        if codec == _SNAPPY:
            return _snappy(packed)
        if codec == _LZ4 and magic == 0:
            return _old_lz4(packed)
        if codec in _STREAMS:
            return _stream(_STREAMS[codec], packed)
    except (OSError, ValueError, pa.ArrowException, struct.error, IndexError) as error:
        raise Incompressible(f"it cannot be decompressed: {error}") from error
    raise Incompressible(f"it is compressed by a codec that is not known, {codec}")


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
    """A block begins with its size when unpacked, as a varint."""
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    unpacked: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    return unpacked

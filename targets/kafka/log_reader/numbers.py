"""Integers at many places of a buffer at once.

Kafka's varints are those of Protocol Buffers: seven bits a byte, the least significant first,
zigzag-encoded (https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_MOST_BYTES: Final = 10
_NO_END: Final = "a number of more than ten bytes"


class NotARecord(ValueError):
    """Bytes that are not records: what is wrong with them, in words."""


def varints(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The varint at each place, and the place after them. Raises NotARecord."""
    byte = _bytes(buffer, at)
    value, behind = (byte & 0x7F).astype(np.uint64), at + 1
    going_on = np.flatnonzero(byte & 0x80)
    for number in range(1, _MOST_BYTES):
        if not going_on.size:
            return _unzigzagged(value), behind
        byte = _bytes(buffer, behind[going_on])
        value[going_on] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        behind[going_on] += 1
        going_on = going_on[byte & 0x80 != 0]
    if going_on.size:
        raise NotARecord(_NO_END)
    return _unzigzagged(value), behind


def varint(buffer: bytes, at: int) -> tuple[int, int]:
    """One varint and the place after it. Raises NotARecord."""
    value = 0
    for number in range(_MOST_BYTES):
        if at >= len(buffer):
            raise NotARecord("a record goes on behind its batch")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise NotARecord(_NO_END)


def int32s(buffer: Bytes, at: Ints) -> Ints:
    """The big-endian integer of four bytes at each place. Raises NotARecord."""
    value = np.zeros(len(at), np.uint32)
    for number in range(4):
        value = value << np.uint32(8) | _bytes(buffer, at + number)
    return value.view(np.int32).astype(np.int64)


def _bytes(buffer: Bytes, at: Ints) -> Bytes:
    if at.size and (at.min() < 0 or at.max() >= len(buffer)):
        raise NotARecord("a record goes on behind its batch")
    byte: Bytes = buffer[at]
    return byte


def _unzigzagged(value: NDArray[np.uint64]) -> Ints:
    return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

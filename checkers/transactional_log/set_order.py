"""The order in which Clojure iterates over a set: which of several values at one offset Jepsen
takes.

Where one offset holds several values, Jepsen's order of the log has the first of them as Clojure's
hash set gives them (`jepsen.tests.kafka/version-orders`), and no place of the others. No value is
better than another there; this one is taken so that answers can be compared. A set is a trie by
five bits of a value's hash, lowest first; the hash is Murmur3 (Appleby 2008, x86, 32 bits). Texts
come after numbers, in the order in which they were met: whether Jepsen had them as strings or
keywords, whose hashes differ, JSON does not say.
"""

from __future__ import annotations

from typing import Final

from harness.models.micro_ops import TEXT

_BITS: Final = 32
_MASK: Final = 2**_BITS - 1
_CHUNK: Final = 5


def rank(number: int) -> int:
    """The place of a value in a set: of two, the one of the lower rank is first."""
    if number >= TEXT:
        return number
    hashed = _of_number(number)
    place = 0
    for shift in range(0, _BITS, _CHUNK):
        place = place << _CHUNK | (hashed >> shift & 31)
    return place


def _of_number(number: int) -> int:
    if number == 0:
        return 0
    mixed = _mix(_mix(0, number & _MASK), number >> _BITS & _MASK)
    return _finish(mixed, 8)


def _rotated(number: int, by: int) -> int:
    return (number << by | number >> (_BITS - by)) & _MASK


def _mix(hashed: int, word: int) -> int:
    word = _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_rotated(hashed ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _finish(hashed: int, length: int) -> int:
    hashed ^= length
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16

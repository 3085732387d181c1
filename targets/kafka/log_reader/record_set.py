"""What a broker stores and a Fetch returns: batches (format 2), or messages (formats 0 and 1)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from targets.kafka.log_reader.batches import Batches
from targets.kafka.log_reader.codecs import Incompressible
from targets.kafka.log_reader.messages import Messages
from targets.kafka.log_reader.numbers import NotARecord
from targets.kafka.log_reader.records import Damaged, Records, format_at


def records(raw: bytes) -> Iterator[Records]:
    """The records of all complete batches and messages, those of one format after the other; what
    is cut off at the end is left out. Raises Damaged, after all that comes before the damage."""
    for taken in _taken(raw):
        yield from taken.records()


def _taken(raw: bytes) -> Iterator[Batches | Messages]:
    """The same, taken but not decoded."""
    taken: Batches | Messages | None = None
    at, damage = 0, None
    while True:
        try:
            magic = format_at(raw, at)
            if magic is None:
                break
            kind = Batches if magic == 2 else Messages
            if not isinstance(taken, kind):
                if taken is not None:
                    yield taken
                taken = kind(raw)
            at = taken.take(at)
        except (NotARecord, Incompressible) as error:
            damage = Damaged(_offset(raw, at), str(error))
            break
    if taken is not None:
        yield taken
    if damage is not None:
        raise damage


def _offset(raw: bytes, at: int) -> int:
    (offset,) = struct.unpack_from(">q", raw, at)
    return int(offset)

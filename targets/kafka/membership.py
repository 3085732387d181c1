"""Which member of a group a librdkafka consumer is, by the bytes that it hands to others.

They are its magic, the generation or member epoch (32 bits, little endian), the group and the
member, each with a 0 after it (`rd_kafka_consumer_group_metadata_write` in rdkafka_cgrp.c).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("<i")


class Membership(NamedTuple):
    """A member of a group; a generation below 0: not a member yet."""

    generation: int
    group: str
    member: str


def membership(metadata: object) -> Membership | None:
    """What `Consumer.consumer_group_metadata` states; `None` for anything else."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_MAGIC):
        return None
    (generation,) = _GENERATION.unpack_from(metadata, len(_MAGIC))
    group, member, *_ = metadata[len(_MAGIC) + _GENERATION.size :].split(b"\0")
    return Membership(generation, group.decode(), member.decode())

"""What a producer's `acks` means: which replicas must have a write before it is acknowledged.

Read in one place, since two decide by it: a client what it requests, and a checker whether an `ok`
acknowledges a write. A client library may read more than is meant: librdkafka takes 0.0, 00 and
0abc for 0, with which no broker acknowledges writes.
"""

from __future__ import annotations

from typing import Final

NOBODY: Final = "0"
LEADER: Final = "1"
ALL: Final = "all"
SPELLINGS: Final = "0, 1, -1 or all"

_MEANS: Final = {"0": NOBODY, "1": LEADER, "-1": ALL, "all": ALL}


def acks_of(value: object) -> str | None:
    """`NOBODY`, `LEADER` or `ALL`; null for what is not one of `SPELLINGS`, as a whole number or as
    text."""
    whole = isinstance(value, int | str)  # True and False are, and none of the spellings
    return _MEANS.get(str(value).strip().lower()) if whole else None

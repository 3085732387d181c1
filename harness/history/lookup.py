"""Where many values stand among others that are in order."""

from __future__ import annotations

from typing import Final

import numpy as np

from harness.protocols.runs import Bools, Ints

_AT_ONCE: Final = 2**22
"""So many are looked up together: their order takes memory, too."""


def places(ordered: Ints, values: Ints) -> Ints:
    """The first place at which each value stands among those in order, or would stand (as
    `np.searchsorted`). They are looked up in their own order: in any other each is a walk through
    all of memory, and millions among millions take two to ten times as long."""
    found = np.empty(len(values), np.int64)
    for begin in range(0, len(values), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        order = np.argsort(values[part])
        found[part][order] = np.searchsorted(ordered, values[part][order])
    return found


def among(values: Ints, ordered: Ints) -> Bools:
    """Which of the values are among those in order."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    found: Bools = ordered[places(ordered, values).clip(max=len(ordered) - 1)] == values
    return found

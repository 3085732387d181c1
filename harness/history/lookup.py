"""Where many values stand among others that are in order."""

from __future__ import annotations

import numpy as np

from harness.protocols.runs import Bools, Ints


def places(ordered: Ints, values: Ints) -> Ints:
    """The first place at which each value stands among those in order, or would stand (as
    `np.searchsorted`). They are looked up in their own order: in any other each is a walk through
    all of memory, and millions among millions take two to ten times as long."""
    order = np.argsort(values)
    found = np.empty(len(values), np.int64)
    found[order] = np.searchsorted(ordered, values[order])
    return found


def among(values: Ints, ordered: Ints) -> Bools:
    """Which of the values are among those in order."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    found: Bools = ordered[places(ordered, values).clip(max=len(ordered) - 1)] == values
    return found

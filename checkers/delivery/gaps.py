"""The longest time in which a group processed nothing while writes were acknowledged."""

from __future__ import annotations

import numpy as np

from checkers.delivery.columns import GroupRows
from harness.protocols.groups import KINDS
from harness.protocols.runs import Ints


def longest_gap_s(rows: GroupRows) -> float | None:
    """Of the complete group; `None` where nothing was acknowledged."""
    return _longest_s(rows.written.time_ns, rows.did[KINDS.process].time_ns)


def longest_partition_gap_s(rows: GroupRows) -> float | None:
    """Of one partition, the longest: a dead member shows here, and not in the complete group."""
    processed, written = rows.did[KINDS.process], rows.written
    found = [
        _longest_s(
            written.time_ns[written.partition == partition],
            processed.time_ns[processed.partition == partition],
        )
        for partition in range(len(rows.log.start))
    ]
    return max((each for each in found if each is not None), default=None)


def _longest_s(acknowledged_ns: Ints, processed_ns: Ints) -> float | None:
    """The longest interval between two processings that follow each other, from the first
    acknowledgement to the last, in which a write was acknowledged."""
    if not len(acknowledged_ns):
        return None
    first, last = int(acknowledged_ns.min()), int(acknowledged_ns.max())
    inside = processed_ns[(processed_ns > first) & (processed_ns < last)]
    edges = np.unique(np.concatenate([[first], inside, [last]]))
    if len(edges) < 2:
        return 0.0
    acknowledged = np.sort(acknowledged_ns)
    begun = np.searchsorted(acknowledged, edges[:-1], side="left")
    behind = np.searchsorted(acknowledged, edges[1:], side="right")
    return float((np.diff(edges) * (behind > begun)).max() / 1e9)

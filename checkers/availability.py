"""How available the cluster was to the clients of a run, from the rows of its writes.

Latency is counted from the instant at which a write was due, as on the page: a stall cannot hide
behind clients that wait for it (coordinated omission). Lateness is how long after that the write
was begun. Percentiles are the smallest delay that no less than that share does not exceed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from checkers.rows import INVOKED, OK, Ints, Writes, within
from harness.journal import FaultWindow


@dataclass(frozen=True, kw_only=True)
class Availability:
    """What clients saw of one run, null where nothing tells; `attempted_in_fault`: whether an
    operation was begun, or was due, while a fault was on: none begins while all clients are
    dead."""

    longest_gap_s: float | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    lateness_p99_ms: float | None = None
    attempted_in_fault: bool = False


@dataclass(frozen=True)
class Timeline:
    """When writes were begun and acknowledged, gathered part by part."""

    begun: list[Ints] = field(default_factory=list)
    begun_late: list[Ints] = field(default_factory=list)
    acknowledged: list[Ints] = field(default_factory=list)
    latency: list[Ints] = field(default_factory=list)

    def add(self, rows: Writes) -> None:
        """Note some writes."""
        for mark, times, delays in (
            (INVOKED, self.begun, self.begun_late),
            (OK, self.acknowledged, self.latency),
        ):
            chosen = rows.mark == mark
            times.append(rows.time_ns[chosen])
            delays.append(rows.time_ns[chosen] - rows.intended_ns[chosen])

    def availability(self, windows: Sequence[FaultWindow]) -> Availability:
        """What clients saw, when all writes are noted."""
        begun, acknowledged = _joined(self.begun), np.sort(_joined(self.acknowledged))
        latency, late = _joined(self.latency), _joined(self.begun_late)
        return Availability(
            longest_gap_s=_longest_gap_s(begun, acknowledged),
            latency_p50_ms=_percentile_ms(latency, 0.5),
            latency_p99_ms=_percentile_ms(latency, 0.99),
            lateness_p99_ms=_percentile_ms(late, 0.99),
            attempted_in_fault=any(
                within(window, times).any() for window in windows for times in (begun, begun - late)
            ),
        )


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _longest_gap_s(begun: Ints, acknowledged: Ints) -> float | None:
    """The longest time without an acknowledgement between the first and the last attempt."""
    if not begun.size:
        return None
    last_ns = max([begun.max(), *acknowledged[-1:]])
    points = np.concatenate([[begun.min()], acknowledged, [last_ns]])
    return round(int(np.diff(points).max()) / 1e9, 6)


def _percentile_ms(delays_ns: Ints, share: float) -> float | None:
    if not delays_ns.size:
        return None
    place = math.ceil(share * delays_ns.size) - 1
    return round(int(np.partition(delays_ns, place)[place]) / 1e6, 3)

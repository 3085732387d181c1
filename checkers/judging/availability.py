"""How available the cluster was to the clients of a run, from the rows of its writes.

Latency is counted from the instant at which a write was due, as on the page: a stall cannot hide
behind clients that wait for it (coordinated omission). Lateness is how long after that the write
was begun. Percentiles are the smallest delay that no less than that share does not exceed.

Recovery is counted from the instant at which the last fault was undone to the first acknowledgement
from which on no two of them, up to the last attempt, lie further apart than what this load showed
before the first fault (or a second, where that is longer). So a first answer that is followed by
another stall is no recovery. Where the load ended before the fault did, nothing tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from harness.history.rows import within
from harness.protocols import FaultWindow, Ints, Operations, Writes
from harness.protocols.runs import INVOKED, OK

_CALM_GAP_NS: Final = 1_000_000_000
"""A time without an acknowledgement that is no longer than this is no gap, whatever the load."""


@dataclass(frozen=True, kw_only=True)
class Availability:
    """What clients saw of one run, null where nothing tells.

    `fault_s`: how long a proven fault was on while there was load; `recovered`: whether the cluster
    was itself again after the last fault; `ops_begun`: for each window, how many writes were begun
    in it. One that was due in it and begun later has not met the fault.
    """

    longest_gap_s: float | None = None
    fault_s: float | None = None
    recovered: bool | None = None
    recovery_s: float | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    lateness_p99_ms: float | None = None
    ops_begun: tuple[int, ...] = ()


@dataclass(frozen=True)
class Timeline:
    """When writes were begun and acknowledged, gathered part by part."""

    begun: list[Ints] = field(default_factory=list)
    begun_late: list[Ints] = field(default_factory=list)
    acknowledged: list[Ints] = field(default_factory=list)
    latency: list[Ints] = field(default_factory=list)

    def add(self, rows: Writes | Operations, *, until_ns: int | None = None) -> None:
        """Note some writes: those that were due before `until_ns`, where it is given."""
        for mark, times, delays in (
            (INVOKED, self.begun, self.begun_late),
            (OK, self.acknowledged, self.latency),
        ):
            chosen = rows.mark == mark
            if until_ns is not None:
                chosen &= rows.intended_ns < until_ns
            times.append(np.compress(chosen, rows.time_ns))
            delays.append(times[-1] - np.compress(chosen, rows.intended_ns))

    def availability(self, windows: Sequence[FaultWindow]) -> Availability:
        """What clients saw, when all writes are noted."""
        begun, acknowledged = _joined(self.begun), np.sort(_joined(self.acknowledged))
        latency, late = _joined(self.latency), _joined(self.begun_late)
        load = _load(begun, acknowledged)
        return Availability(
            longest_gap_s=_longest_gap_s(load, acknowledged) if load else None,
            fault_s=_fault_s(windows, load) if load else None,
            **(_recovery(windows, load, acknowledged)._asdict() if load else {}),
            latency_p50_ms=_percentile_ms(latency, 0.5),
            latency_p99_ms=_percentile_ms(latency, 0.99),
            lateness_p99_ms=_percentile_ms(late, 0.99),
            ops_begun=tuple(int(within(window, begun).sum()) for window in windows),
        )


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


class _Load(NamedTuple):
    """From the first attempt to the last, or to the last acknowledgement if that came later."""

    from_ns: int
    attempted_until_ns: int
    to_ns: int


def _load(begun: Ints, acknowledged: Ints) -> _Load | None:
    if not begun.size:
        return None
    last_ns = int(begun.max())
    return _Load(int(begun.min()), last_ns, max([last_ns, *acknowledged[-1:].tolist()]))


def _gaps_ns(*points_ns: Ints | list[int]) -> Ints:
    gaps_ns: Ints = np.diff(np.concatenate([np.asarray(each, np.int64) for each in points_ns]))
    return gaps_ns


def _longest_gap_s(load: _Load, acknowledged: Ints) -> float:
    """The longest time without an acknowledgement between the first and the last attempt."""
    return _seconds(int(_gaps_ns([load.from_ns], acknowledged, [load.to_ns]).max()))


def _fault_s(windows: Sequence[FaultWindow], load: _Load) -> float:
    """How long one proven fault or more was on while there was load; overlaps count once."""
    spans = sorted(
        (
            max(round(window.from_s * 1e9), load.from_ns),
            load.to_ns if window.to_s is None else min(round(window.to_s * 1e9), load.to_ns),
        )
        for window in windows
        if window.proven and window.from_s is not None
    )
    on_ns, until_ns = 0, load.from_ns
    for from_ns, to_ns in spans:
        on_ns += max(0, to_ns - max(from_ns, until_ns))
        until_ns = max(until_ns, to_ns)
    return _seconds(on_ns)


class _Recovery(NamedTuple):
    recovered: bool | None = None
    recovery_s: float | None = None


def _recovery(windows: Sequence[FaultWindow], load: _Load, acknowledged: Ints) -> _Recovery:
    on_s = [window.from_s for window in windows if window.from_s is not None]
    ends_s = [window.to_s for window in windows if window.from_s is not None]
    undone_s = [end_s for end_s in ends_s if end_s is not None]
    if not ends_s or len(undone_s) < len(ends_s):
        return _Recovery()
    undone_ns = round(max(undone_s) * 1e9)
    if undone_ns >= load.attempted_until_ns:
        return _Recovery()
    first, after = np.searchsorted(acknowledged, [round(min(on_s) * 1e9), undone_ns])
    calm_ns = int(_gaps_ns(acknowledged[:first]).max(initial=_CALM_GAP_NS))
    late = np.flatnonzero(_gaps_ns(acknowledged[after:], [load.to_ns]) > calm_ns)
    place = after + (int(late[-1]) + 1 if late.size else 0)
    if place >= acknowledged.size:
        return _Recovery(recovered=False)
    return _Recovery(True, _seconds(int(acknowledged[place]) - undone_ns))


def _seconds(span_ns: int) -> float:
    return round(span_ns / 1e9, 6)


def _percentile_ms(delays_ns: Ints, share: float) -> float | None:
    if not delays_ns.size:
        return None
    place = math.ceil(share * delays_ns.size) - 1
    return round(int(np.partition(delays_ns, place)[place]) / 1e6, 3)

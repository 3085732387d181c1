"""How available the cluster was to the clients of a run, from the rows of its writes.

Latency is counted from the instant at which a write was due, as on the page: a stall cannot hide
behind clients that wait for it (coordinated omission). Lateness is how long after that the write
was begun. A percentile is the smallest delay that at least that share of the delays does not
exceed.

Recovery is counted from the instant at which the last fault was undone to the first acknowledgement
from which on no two of them, up to the last attempt, lie further apart than what this load showed
before the first fault was begun (or a second, where that is longer). So a first answer that is
followed by another stall is not a recovery. The last fault is the last that is proven, or that an
operator claims; the first is the first of which any act was begun: what a node does while it stops
is no part of the load without faults. Where the load ended before the fault did, it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from checkers.judging.instants import Delays, Instants, longest_gap_ns
from harness.history.rows import bounds_ns
from harness.protocols import FaultWindow, Ints, Operations, Writes
from harness.protocols.runs import INVOKED, OK

_CALM_GAP_NS: Final = 1_000_000_000
"""A time without an acknowledgement that is no longer than this is not a gap, whatever the load."""


@dataclass(frozen=True, kw_only=True)
class Availability:
    """What clients saw of one run, null where it is unknown.

    `fault_s`: how long a proven fault was on while there was load; `recovered`: whether the cluster
    recovered after the last fault; `ops_begun`: for each window, how many writes were begun in it
    (one that was due in it and begun later has not met the fault); `ops_acknowledged`: how many
    were acknowledged in it, whenever they were begun.
    """

    longest_gap_s: float | None = None
    fault_s: float | None = None
    recovered: bool | None = None
    recovery_s: float | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    lateness_p99_ms: float | None = None
    ops_begun: tuple[int, ...] = ()
    ops_acknowledged: tuple[int, ...] = ()


class Timeline:
    """When writes were begun and acknowledged, gathered part by part: those that were due before
    `until_ns`, where it is given. Of any number of them it needs the same memory."""

    def __init__(self, windows: Sequence[FaultWindow] = (), *, until_ns: int | None = None) -> None:
        self._windows = [window for window in windows if not window.control]
        self._until_ns = until_ns
        self._begun: tuple[int, int] | None = None
        self._from_ns, self._to_ns = bounds_ns(windows)
        self._begun_in = np.zeros(len(windows), np.int64)
        self._acknowledged_in = np.zeros(len(windows), np.int64)
        undone_ns = _undone_ns(self._windows)
        self._acknowledged = Instants([] if undone_ns is None else [undone_ns])
        self._acks = 0
        self._latency, self._late = Delays(), Delays()

    def add(self, rows: Writes | Operations) -> None:
        """Note some writes."""
        begun_ns, late = self._of(rows, INVOKED)
        self._late.add(late)
        if begun_ns.size:
            ends = (int(begun_ns.min()), int(begun_ns.max()))
            first, last = self._begun or ends
            self._begun = (min(first, ends[0]), max(last, ends[1]))
        acknowledged_ns, latency = self._of(rows, OK)
        self._begun_in += self._in_windows(begun_ns)
        self._acknowledged_in += self._in_windows(acknowledged_ns)
        self._latency.add(latency)
        self._acknowledged.add(acknowledged_ns)
        self._acks += len(acknowledged_ns)

    def _in_windows(self, times_ns: Ints) -> Ints:
        """How many of these instants lie in each window, both its ends included. (A night has some
        hundred windows: a pass for each would take most of the time. Rows are in order as a rule.)
        """
        in_order = bool((times_ns[1:] >= times_ns[:-1]).all())
        ordered = times_ns if in_order else np.sort(times_ns)
        found: Ints = np.searchsorted(ordered, self._to_ns, side="right")
        found -= np.searchsorted(ordered, self._from_ns, side="left")
        return found

    def availability(self, again: Callable[[], Iterable[Writes | Operations]]) -> Availability:
        """What clients saw, when all writes are noted. `again` reads them once more: that is
        done if no gap is longer than what was kept of very many of them shows."""
        acknowledged, load = self._acknowledged.ordered(), None
        if self._begun is not None:
            load = _Load(*self._begun, max([self._begun[1], *acknowledged[-1:].tolist()]))
        return Availability(
            longest_gap_s=self._longest_gap_s(load, acknowledged, again) if load else None,
            fault_s=_fault_s(self._windows, load) if load else None,
            **(_recovery(self._windows, load, acknowledged)._asdict() if load else {}),
            latency_p50_ms=self._latency.percentile_ms(0.5),
            latency_p99_ms=self._latency.percentile_ms(0.99),
            lateness_p99_ms=self._late.percentile_ms(0.99),
            ops_begun=tuple(self._begun_in.tolist()),
            ops_acknowledged=tuple(self._acknowledged_in.tolist()),
        )

    def _of(self, rows: Writes | Operations, mark: int) -> tuple[Ints, Ints]:
        """When rows with this mark happened, and how long after they were due."""
        chosen = rows.mark == mark
        if self._until_ns is not None:
            chosen &= rows.intended_ns < self._until_ns
        times_ns = np.compress(chosen, rows.time_ns)
        return times_ns, times_ns - np.compress(chosen, rows.intended_ns)

    def _longest_gap_s(
        self,
        load: _Load,
        acknowledged: Ints,
        again: Callable[[], Iterable[Writes | Operations]],
    ) -> float:
        """The longest time without an acknowledgement between the first and the last attempt."""
        gap_ns = int(_gaps_ns([load.from_ns], acknowledged, [load.to_ns]).max())
        if gap_ns <= self._acknowledged.width_ns:
            first_ns = min([load.from_ns, *acknowledged[:1].tolist()])
            gap_ns = longest_gap_ns(
                lambda: (self._of(rows, OK)[0] for rows in again()),
                first_ns,
                load.to_ns,
                self._acks,
            )
        return _seconds(gap_ns)


class _Load(NamedTuple):
    """From the first attempt to the last, or to the last acknowledgement if that came later."""

    from_ns: int
    attempted_until_ns: int
    to_ns: int


def _gaps_ns(*points_ns: Ints | list[int]) -> Ints:
    gaps_ns: Ints = np.diff(np.concatenate([np.asarray(each, np.int64) for each in points_ns]))
    return gaps_ns


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
    undone_ns = _undone_ns(windows)
    if undone_ns is None or undone_ns >= load.attempted_until_ns:
        return _Recovery()
    begun_s = [w.from_s if w.begun_s is None else w.begun_s for w in windows]
    first_s = min(at_s for at_s in begun_s if at_s is not None)
    first, after = np.searchsorted(acknowledged, [round(first_s * 1e9), undone_ns])
    calm_ns = int(_gaps_ns(acknowledged[:first]).max(initial=_CALM_GAP_NS))
    late = np.flatnonzero(_gaps_ns(acknowledged[after:], [load.to_ns]) > calm_ns)
    place = after + (int(late[-1]) + 1 if late.size else 0)
    if place >= acknowledged.size:
        return _Recovery(recovered=False)
    return _Recovery(True, _seconds(int(acknowledged[place]) - undone_ns))


def _undone_ns(windows: Sequence[FaultWindow]) -> int | None:
    """When the last fault that is proven or claimed was undone; None where there was none, or any
    fault that came into force never was."""
    in_force = [window for window in windows if window.from_s is not None]
    if any(window.to_s is None for window in in_force):
        return None
    undone_s = [w.to_s for w in in_force if w.to_s is not None and (w.proven or w.claimed)]
    return round(max(undone_s) * 1e9) if undone_s else None


def _seconds(span_ns: int) -> float:
    return round(span_ns / 1e9, 6)

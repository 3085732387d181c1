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

When something happened, and how long it took, for any number of operations in bounded memory.

Up to some millions of numbers are kept unchanged. Of more, only what the results need is kept:

- Of instants, those that bound a gap longer than `width_ns`: the first and the last of each stretch
  of that length. Every longer gap between neighbours is there, exactly, and none that is not.
- Of delays, how many there are of each microsecond, in which they are given. Half a microsecond is
  counted apart: which way it is rounded is left to `round`.

The error codes with which unacknowledged writes of a run ended, and how many writes ended with
each.

Eight hundred unknown writes are one sentence; eight hundred INVALID_TIMESTAMP are an explanation.

The rows of a run, and what they say beside any checker: availability, the errors' codes, and how
many writes there are.

Reading Parquet is most of the cost of judging. So all are gathered while a checker reads the rows;
only where none has read all of them, they are read once more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.judging.results import Tally
from harness.faults.journal import affected_nodes
from harness.history import MEMBERS, documents
from harness.history.parquet_reader import integers, texts
from harness.history.parquet_writer import one_batch
from harness.history.rows import Holding, Rows, bounds_ns
from harness.history.run_folder import RunDir
from harness.models import MODELS
from harness.protocols import CLIENT_ROLE, Facts, FaultWindow, Ints, Operations, Writes
from harness.protocols.runs import FAIL, INFO, INVOKED, OK

# Which leaders each fault met: evidence beside a verdict, not part of it.
#
# Of the observer's rows an answer counts while no answer before it has had a higher leader epoch,
# as in `analysis.timeline`. The leader at an instant is the one of the last such answer.

_COLUMNS = ["time_ns", "partition", "leader", "leader_epoch", MEMBERS]


def leaders_of_run(
    rundir: RunDir, faults: Sequence[dict[str, Any]], footers: Mapping[Path, Any] | None = None
) -> dict[str, Any]:
    """`leaders` and `cautions` of result.json: each fault of nodes that was in force compared with
    who led meanwhile, and a sentence for each family of proven faults that met no leader, though
    its nodes hold what is led. Faults of clients or of consumers meet no leader.

    `footers`: of Parquet files that were opened before, by path.
    """
    nodes = rundir.read_json(rundir.run).get("nodes") or []
    data = [each["name"] for each in nodes if CLIENT_ROLE not in (each.get("roles") or ())]
    observed, affected = _observed(rundir, footers or {}), affected_nodes(rundir.faults)
    # Where nodes were not recorded, all faults are taken to be faults of nodes.
    in_force = [
        fault
        for fault in faults
        if fault["from_s"] is not None and (not nodes or not set(data).isdisjoint(fault["nodes"]))
    ]
    on = {fault["id"]: affected.get(fault["id"], set(fault["nodes"])) for fault in in_force}
    leaders = [_met(observed.leads, fault, on[fault["id"]]) for fault in in_force]
    families: dict[str, dict[str, bool | None]] = {}
    for fault, each in zip(in_force, leaders, strict=True):
        if (fault["proven"] or fault["claimed"]) and observed.holders & on[fault["id"]]:
            families.setdefault(fault["nemesis"], {})[fault["id"]] = each["met"]
    cautions = [
        f"no fault of the family {family} met a leader ({', '.join(met)}): "
        "this run does not show what such a fault does to one"
        for family, met in families.items()
        if not any(each is not False for each in met.values())
    ]
    return {"leaders": leaders, "cautions": cautions}


class _Observed(NamedTuple):
    """By partition who led from when on, in seconds since the run's start; and the nodes that were
    leaders or in-sync members at any time."""

    leads: dict[int, list[tuple[float, str | None]]]
    holders: frozenset[str]


def _met(
    leads: Mapping[int, Sequence[tuple[float, str | None]]],
    fault: dict[str, Any],
    affected: Collection[str],
) -> dict[str, Any]:
    """Who led when a fault was begun, or while it was in force, and whether it met one of them;
    `None` if no leader is known. `moved_to`: who led next, until it was healed, where the one that
    it affected led, or had led last."""
    until_s = fault["to_s"] if fault["to_s"] is not None else float("inf")
    # A leader may be replaced before the act that met it is complete.
    since_s = fault["from_s"] if fault.get("begun_s") is None else fault["begun_s"]
    led: dict[str, None] = {}
    partitions, moved_to = [], dict[str, None]()
    for partition, answers in leads.items():
        before = [leader for at_s, leader in answers if at_s <= since_s]
        during = [leader for at_s, leader in answers if since_s < at_s <= until_s]
        own = {leader: None for leader in (*before[-1:], *during) if leader is not None}
        led |= own
        if not own.keys().isdisjoint(affected):
            partitions.append(partition)
        named = [leader for leader in before if leader is not None]
        if named and named[-1] in affected:
            moved_to |= dict.fromkeys(n for n in during if n not in (None, named[-1]))
    met = bool(partitions) if led else None
    who = {"leaders": list(led), "moved_to": list(moved_to)}
    which = None if len(leads) == 1 else partitions
    return {"fault": fault["id"], **who, "met": met, "partitions": which}


def _observed(rundir: RunDir, footers: Mapping[Path, Any]) -> _Observed:
    """What the observer's files hold; nothing if one of them is damaged."""
    parts = rundir.parts(rundir.observations)
    try:
        files = (pq.ParquetFile(part, metadata=footers.get(part)) for part in parts)
        tables = [file.read(_COLUMNS).select(_COLUMNS) for file in files]
    except (OSError, KeyError, pa.ArrowException):
        tables = []
    if not tables:
        return _Observed({}, frozenset())
    table = pa.concat_tables(tables)
    table = table.filter(pc.is_valid(table["partition"])).sort_by("time_ns")
    rows = one_batch(table)
    times, partitions, epochs = (integers(rows, name) for name in _COLUMNS[:2] + _COLUMNS[3:4])
    leaders = texts(rows, "leader").objects()
    found: dict[int, list[tuple[float, str | None]]] = {}
    for partition in np.unique(partitions).tolist():
        own = partitions == partition
        newest = epochs[own] == np.maximum.accumulate(epochs[own])
        pairs = zip((times[own][newest] / 1e9).tolist(), leaders[own][newest], strict=True)
        found[partition] = [next(same) for _, same in groupby(pairs, key=itemgetter(1))]
    members = pc.unique(pc.list_flatten(table[MEMBERS])).to_pylist()
    return _Observed(found, frozenset({*members, *table["leader"].unique().to_pylist()} - {None}))


NO_CODE: Final = "NO_CODE"
"""The client named no code."""

NO_ANSWER: Final = "NO_ANSWER"
"""The write was begun, and the history does not show how it ended."""


@dataclass
class ErrorCodes:
    _failed: Counter[str] = field(default_factory=Counter)
    _unknown: Counter[str] = field(default_factory=Counter)
    _open: int = 0

    def add(self, rows: Writes | Operations) -> None:
        begun = int((rows.mark == INVOKED).sum())
        self._open += begun - (len(rows.mark) - begun)
        _count(self._failed, rows, FAIL)
        _count(self._unknown, rows, INFO)

    def document(self) -> dict[str, dict[str, int]]:
        """`{"unknown": {code: writes}, "failed": {code: writes}}`, the most frequent first."""
        unknown = Counter(self._unknown)
        if self._open > 0:
            unknown[NO_ANSWER] += self._open
        return {"unknown": dict(unknown.most_common()), "failed": dict(self._failed.most_common())}


def _count(codes: Counter[str], rows: Writes | Operations, mark: int) -> None:
    places = rows.error.codes[rows.mark == mark]
    numbers = np.bincount(places + 1, minlength=1 + len(rows.error.names))
    for name, number in zip([NO_CODE, *rows.error.names], numbers.tolist(), strict=False):
        if number:
            codes[name] += number


KEPT: Final = 2**23
"""This many instants are kept; of a night's instants, they show every gap longer than 34 ms."""

FOLDED: Final = 2**20
"""This many delays are kept until they are counted."""

WIDEST_NS: Final = 2**29
"""Stretches are at most as long as this: half a second, so two instants a second are kept in any
case, and they distinguish every gap of a second from shorter ones."""

_PAGE: Final = 2**12
"""This many neighbouring counts are one array, which is made when one of them is needed."""


_SHORT: Final = 2**20
"""Delays with a lower code, a third of a second, are the most."""


@dataclass
class Instants:
    """Instants, in any order; the first at or after each of `marks_ns` is kept whatever `width_ns`
    is. 0: all are there."""

    marks_ns: Sequence[int] = ()
    width_ns: int = 0
    _parts: list[Ints] = field(default_factory=list)
    _size: int = 0
    _marked: dict[int, int] = field(default_factory=dict)

    def add(self, times_ns: Ints) -> None:
        for mark in self.marks_ns:
            later = times_ns[times_ns >= mark]
            if later.size:
                self._marked[mark] = min(int(later.min()), self._marked.get(mark, int(later[0])))
        part = _ends_of_stretches(np.sort(times_ns), self.width_ns) if self.width_ns else times_ns
        self._parts.append(part)
        self._size += len(part)
        if self._size > KEPT:
            self._thin()

    def ordered(self) -> Ints:
        """Those that were kept, in order; some may be there twice."""
        marked = np.array(list(self._marked.values()), np.int64)
        return np.sort(_joined([*self._parts, marked] if self.width_ns else self._parts))

    def _thin(self) -> None:
        ordered = np.sort(_joined(self._parts))
        while len(ordered) > KEPT // 2 and self.width_ns < WIDEST_NS:
            self.width_ns = max(2 * self.width_ns, 1)
            ordered = _ends_of_stretches(ordered, self.width_ns)
        self._parts, self._size = [ordered], len(ordered)


def _ends_of_stretches(ordered: Ints, width_ns: int) -> Ints:
    """The first and the last of each stretch of so many nanoseconds. (Stretches of twice the length
    are made of complete ones.)"""
    changes = np.diff(ordered // width_ns) != 0
    ends = np.ones(len(ordered), np.bool_)
    ends[1:-1] = changes[1:] | changes[:-1]
    return np.compress(ends, ordered)


def longest_gap_ns(
    instants: Callable[[], Iterable[Ints]], from_ns: int, to_ns: int, number: int
) -> int:
    """The longest time without one of these instants, of which there are about so many, from one
    that is before them all to one after them. Reads them again for each stretch of time that has
    some millions of them."""
    pieces = 1 + number // (4 * KEPT)
    borders = [from_ns + (to_ns + 1 - from_ns) * piece // pieces for piece in range(pieces + 1)]
    longest, last = 0, from_ns
    for low, high in pairwise(borders):
        inside = [part[(part >= low) & (part < high)] for part in instants()]
        here = np.sort(_joined([np.array([last]), *inside, np.empty(0, np.int64)]))
        longest, last = max(longest, int(np.diff(here).max(initial=0))), int(here[-1])
    return max(longest, to_ns - last)


@dataclass
class Delays:
    _parts: list[Ints] = field(default_factory=list)
    _size: int = 0
    _folded: int = 0
    _pages: dict[int, Ints] = field(default_factory=dict)

    def add(self, delays_ns: Ints) -> None:
        self._parts.append(delays_ns)
        self._size += len(delays_ns)
        if self._size - self._folded > FOLDED:
            self._fold()

    def percentile_ms(self, share: float) -> float | None:
        """The smallest delay that at least this share does not exceed; None if there is none."""
        if not self._size:
            return None
        place = math.ceil(share * self._size) - 1
        if not self._folded:
            delays_ns = _joined(self._parts)
            return _ms(int(np.partition(delays_ns, place)[place]))
        self._fold()
        for page in sorted(self._pages):
            before, place = place, place - int(self._pages[page].sum())
            if place < 0:
                upto = np.cumsum(self._pages[page])
                return _ms(_of_code(page * _PAGE + int(np.searchsorted(upto, before, "right"))))
        raise AssertionError("as many are counted as were added")

    def _fold(self) -> None:
        """Count what is kept; the few long ones in order, which takes longer."""
        codes = _codes(_joined(self._parts))
        short = (codes >= 0) & (codes < _SHORT)
        pages = np.bincount(np.compress(short, codes), minlength=_SHORT).reshape(-1, _PAGE)
        for number in np.flatnonzero(pages.any(axis=1)).tolist():
            self._count(number, pages[number])
        others = np.sort(codes[~short])
        page = others // _PAGE
        first = np.flatnonzero(np.diff(page, prepend=page[:1] - 1)).tolist()
        for begin, behind in pairwise([*first, len(others)]):
            number = int(page[begin])
            on_page = others[begin:behind] - number * _PAGE
            self._count(number, np.bincount(on_page, minlength=_PAGE))
        self._parts, self._folded = [], self._size

    def _count(self, number: int, counts: Ints) -> None:
        total = counts + self._pages.get(number, 0)
        self._pages[number] = total.astype(np.uint32) if total.max() < 2**32 else total


def _codes(delays_ns: Ints) -> Ints:
    """Three numbers for each microsecond: less than half of it, half, and more."""
    microseconds = delays_ns // 1_000
    rest = delays_ns - 1_000 * microseconds
    return 3 * microseconds + (rest >= 500) + (rest > 500)


def _of_code(code: int) -> int:
    """A delay with this code: all of them are rounded to the same microsecond."""
    microseconds, third = divmod(code, 3)
    return 1_000 * microseconds + (0, 500, 750)[third]


def _ms(delay_ns: int) -> float:
    return round(delay_ns / 1e6, 3)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


_CALM_GAP_NS: Final = 1_000_000_000
"""A time without an acknowledgement that is no longer than this is not a gap, whatever the load."""


@dataclass(frozen=True, kw_only=True)
class Availability(documents.Availability):
    """What clients saw of one run, null where it is unknown.

    `fault_s`: how long a proven fault was on while there was load; `recovered`: whether the cluster
    recovered after the last fault; `ops_begun`: for each window, how many writes were begun in it
    (one that was due in it and begun later has not met the fault); `ops_acknowledged`: how many
    were acknowledged in it, whenever they were begun.
    """

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
        recovered, recovery_s = (
            _recovery(self._windows, load, acknowledged) if load else (None, None)
        )
        return Availability(
            longest_gap_s=self._longest_gap_s(load, acknowledged, again) if load else None,
            fault_s=_fault_s(self._windows, load) if load else None,
            recovered=recovered,
            recovery_s=recovery_s,
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
        self, load: _Load, acknowledged: Ints, again: Callable[[], Iterable[Writes | Operations]]
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


def _recovery(
    windows: Sequence[FaultWindow], load: _Load, acknowledged: Ints
) -> tuple[bool | None, float | None]:
    """Whether the cluster recovered, and how long that took."""
    undone_ns = _undone_ns(windows)
    if undone_ns is None or undone_ns >= load.attempted_until_ns:
        return None, None
    begun_s = [w.from_s if w.begun_s is None else w.begun_s for w in windows]
    first_s = min(at_s for at_s in begun_s if at_s is not None)
    first, after = np.searchsorted(acknowledged, [round(first_s * 1e9), undone_ns])
    calm_ns = int(_gaps_ns(acknowledged[:first]).max(initial=_CALM_GAP_NS))
    late = np.flatnonzero(_gaps_ns(acknowledged[after:], [load.to_ns]) > calm_ns)
    place = after + (int(late[-1]) + 1 if late.size else 0)
    if place >= acknowledged.size:
        return False, None
    return True, _seconds(int(acknowledged[place]) - undone_ns)


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


Part = TypeVar("Part", Writes, Operations)


class Noted(NamedTuple):
    timeline: Timeline
    errors: ErrorCodes
    tally: Tally


class WatchedRows(Rows):
    """Rows that are noted by the first pass that reads all of them: the writes where a model
    has nothing else, else the operations."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._of = MODELS[facts.promises.model]
        self._only_writes = self._of.writes == self._of.functions
        self._noted: Noted | None = None

    def noted(self) -> Noted:
        if self._noted is None:
            for _ in self._rows():
                pass
        assert self._noted is not None
        return self._noted

    def availability(self) -> Availability:
        """What clients saw; nothing where rows do not have times."""
        noted = self.noted()
        return noted.timeline.availability(self._rows) if self.facts.timed else Availability()

    def _rows(self) -> Iterator[Writes | Operations]:
        return self.writes() if self._only_writes else self.operations()

    def _read_writes(self, holding: Holding | None = None) -> Iterator[Writes]:
        rows = super()._read_writes(holding)
        watched = self._only_writes and self._noted is None and holding is None
        return self._watched(rows) if watched else rows

    def operations(self) -> Iterator[Operations]:
        rows = super().operations()
        return rows if self._only_writes or self._noted is not None else self._watched(rows)

    def _watched(self, rows: Iterator[Part]) -> Iterator[Part]:
        timeline = Timeline(self.facts.windows, until_ns=self.facts.final_from_ns)
        noted = Noted(timeline, ErrorCodes(), Tally(self._of))
        for part in rows:
            noted.timeline.add(part)
            noted.errors.add(part)
            noted.tally.add(part)
            yield part
        self._noted = noted

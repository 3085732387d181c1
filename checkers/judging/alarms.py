"""Would an alarm have fired in a run, and when? Pure, over the metrics that its nodes reported.

A monitoring system looks once in every period of its scrape, and nobody knows at which moment of
it a fault begins: a rule is evaluated for sixty phases of the period. `chance` is the share of them
in which it fires, `fired_s` when it does: the median over these. `held_s` is when its condition
first held, looked at twice a second. As Prometheus does it, each series that a rule is about waits
for itself (`for`), and a node that does not answer has no value at all. Before its first operation
the run is taken to have been as it was then: how a cluster that was just started came up is not
counted. A rule about what has happened in a range of time is followed beyond the end of the run,
after which nothing more happens.

That nothing of a fault keeps the monitoring system from a node that lives is assumed.
"""

from __future__ import annotations

import operator
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from harness.history.documents import LOST_KINDS, Alarm
from harness.history.metrics import PERIOD_S, Floats, Metrics, canonical

PHASES: Final = 60
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Labels = Mapping[str, str]


class Row(NamedTuple):
    """One series at the times of a look: phases of the scrape, times in each."""

    labels: Labels
    values: Floats


Vector = list[Row]


@dataclass(frozen=True)
class Look:
    """The metrics of a run as a scrape of this period sees them, with a row of times a phase."""

    metrics: Metrics
    times_s: Floats
    step_s: float
    end_s: float

    @classmethod
    def every(
        cls, metrics: Metrics, step_s: float, phases: int, range_s: float = 0.0, more_s: float = 0.0
    ) -> Look:
        """From `range_s` before the run until `more_s` after its end."""
        before, end_s = np.ceil(range_s / step_s), metrics.end_s + more_s
        starts = (np.arange(phases) / phases - before) * step_s
        times_s = starts[:, None] + np.arange(int(before + end_s // step_s) + 1) * step_s
        return cls(metrics, times_s, step_s, end_s)

    def select(self, name: str, fits: Callable[[Labels], bool] = lambda _: True) -> Vector:
        """The series of a metric. Raises Absent where no node ever had it."""
        series = self.metrics.series.get(canonical(name), ())
        if not series:
            raise Absent(f"no node reports {name}")
        times_s = np.where(self.times_s <= self.end_s, np.maximum(self.times_s, 0.0), -np.inf)
        return [Row(each.labels, each.at(times_s)) for each in series if fits(each.labels)]

    def over(self, vector: Vector, range_s: float, function: str) -> Vector:
        """A function of the samples in the last `range_s` seconds, as Prometheus has it."""
        k = max(1, int(np.ceil(range_s / self.step_s)))
        kind = RANGES[function]
        return [Row(each, kind(Windows(v, k, range_s, self.step_s))) for each, v in vector]


class Absent(Exception):
    """What a rule is about is not among the metrics of a run; its text says what."""


@dataclass(frozen=True)
class Windows:
    """For each time the samples until then, at most `k`, in as much memory as `values` take: an
    hour, of which a rule may say that it looks back so far, has thousands of samples."""

    values: Floats
    k: int
    range_s: float = 0.0
    step_s: float = 0.0

    @cached_property
    def valid(self) -> Bools:
        return ~np.isnan(self.values)

    @cached_property
    def places(self) -> Ints:
        return np.broadcast_to(np.arange(self.values.shape[-1]), self.values.shape)

    def sum(self, each: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Of a number for each sample."""
        total = np.cumsum(each, -1)
        total[..., self.k :] -= total[..., : -self.k].copy()
        return total

    @cached_property
    def count(self) -> Ints:
        return self.sum(self.valid.astype(np.int64))

    @cached_property
    def first(self) -> Ints:
        """The place of the first sample, or any place where there is none."""
        after = np.where(self.valid, self.places, self.places.shape[-1] - 1)
        after = np.minimum.accumulate(after[..., ::-1], -1)[..., ::-1]
        return np.take_along_axis(after, np.maximum(self.places - self.k + 1, 0), -1)

    @cached_property
    def last(self) -> Ints:
        """The place of the last sample, or any place where there is none."""
        return np.maximum(np.maximum.accumulate(np.where(self.valid, self.places, -1), -1), 0)

    @cached_property
    def steps(self) -> Floats:
        """By how much each sample differs from the one before it; 0 where there is none."""
        filled = np.take_along_axis(self.values, self.last, -1)
        return np.nan_to_num(np.diff(filled, axis=-1, prepend=np.nan))

    def between(self, each: npt.NDArray[Any]) -> Floats:
        """The sum of what each step has, of the steps between two samples."""
        between: Floats = self.sum(each) - np.take_along_axis(each, self.first, -1)
        return between

    def known(self, values: npt.NDArray[Any], at_least: int = 1) -> Floats:
        """These values where there are so many samples."""
        return np.where(self.count >= at_least, values, np.nan)

    def reduced(self, function: np.ufunc) -> Floats:
        before = np.full((*self.values.shape[:-1], self.k - 1), np.nan)
        every = sliding_window_view(np.concatenate([before, self.values], -1), self.k, axis=-1)
        reduced: Floats = function.reduce(every, -1)
        return reduced


def _delta(of: Windows, *, counter: bool = False) -> Floats:
    """Prometheus' `delta` and `increase`: extrapolated to the range, or half a step beyond what it
    holds; a counter that falls has begun again, and does not reach below 0."""
    steps = of.steps
    with np.errstate(all="ignore"):
        if counter:
            steps = np.where(steps < 0, np.nan_to_num(of.values), steps)
        total = of.between(steps)
        span = (of.last - of.first) * of.step_s
        mean = span / (of.count - 1)
        begin = of.range_s - (of.places - of.first) * of.step_s
        begin = np.where(begin >= 1.1 * mean, mean / 2, begin)
        if counter:
            start = np.take_along_axis(of.values, of.first, -1)
            begin = np.where(total > 0, np.minimum(begin, span * start / total), begin)
        end = (of.places - of.last) * of.step_s
        end = np.where(end >= 1.1 * mean, mean / 2, end)
        return of.known(total * (span + begin + end) / span, 2)


def _increase(of: Windows) -> Floats:
    return _delta(of, counter=True)


def _sum(of: Windows) -> Floats:
    return of.known(of.sum(np.nan_to_num(of.values)))


RANGES: Final[Mapping[str, Callable[[Windows], Floats]]] = {
    "increase": _increase,
    "rate": lambda of: _increase(of) / of.range_s,
    "delta": _delta,
    "changes": lambda of: of.known(of.between((of.steps != 0) * 1.0)),
    "resets": lambda of: of.known(of.between((of.steps < 0) * 1.0)),
    "max_over_time": lambda of: of.reduced(np.fmax),
    "min_over_time": lambda of: of.reduced(np.fmin),
    "sum_over_time": _sum,
    "avg_over_time": lambda of: _sum(of) / np.maximum(of.count, 1),
    "count_over_time": lambda of: of.known(of.count),
}


def aggregated(vector: Vector, how: str, by: Callable[[Labels], Labels]) -> Vector:
    """One series for each group of labels."""
    groups: dict[tuple[tuple[str, str], ...], list[Floats]] = {}
    for labels, values in vector:
        groups.setdefault(tuple(sorted(by(labels).items())), []).append(values)
    of_all = RANGES[f"{how}_over_time"]
    return [
        Row(dict(key), of_all(Windows(np.stack(each, -1), len(each)))[..., -1])
        for key, each in groups.items()
    ]


COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def compared(values: Floats, sign: str, other: Floats | float) -> Floats:
    """The values for which a comparison holds; those for which it does not are none."""
    holds = COMPARISONS[sign](values, other) & ~np.isnan(values) & ~np.isnan(other)
    return np.where(holds, values, np.nan)


Condition = Callable[[Look], Vector]
"""What a rule says: wherever there is a value, it holds. Raises Absent."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An alarm rule. Its condition must hold for `for_s`, and is looked at every `scrape_s`;
    `range_s` is the longest time that it looks back."""

    name: str
    source: str
    condition: Condition
    for_s: float = 0.0
    scrape_s: float = 15.0
    range_s: float = 0.0


def alarm(rule: Rule, metrics: Metrics, first_loss_s: float | None) -> Alarm:
    """What becomes of a rule. `first_loss_s`: when a write that is lost was first acknowledged."""
    known = Alarm(rule=rule.name, source=rule.source)
    try:
        range_s = rule.range_s
        held = _fired(replace(rule, for_s=0.0), Look.every(metrics, PERIOD_S, 1, range_s))
        more_s = range_s and range_s + rule.for_s + 2 * rule.scrape_s
        fires = _fired(rule, Look.every(metrics, rule.scrape_s, PHASES, range_s, more_s))
    except Absent as error:
        return replace(known, why_not=str(error))
    some = np.sort(fires[np.isfinite(fires)])
    fired_s = round(float(some[(len(some) - 1) // 2]), 3) if len(some) else None
    before = None if fired_s is None or first_loss_s is None else round(first_loss_s - fired_s, 3)
    return replace(
        known,
        held_s=None if np.isinf(held[0]) else round(float(held[0]), 3),
        fired_s=fired_s,
        chance=round(len(some) / PHASES, 3),
        before_first_loss_s=before,
    )


def _fired(rule: Rule, look: Look) -> Floats:
    """When it first fires, in each phase; infinite where it does not."""
    first, place = np.full(len(look.times_s), np.inf), np.arange(look.times_s.shape[1])
    for _, values in rule.condition(look):
        holds = ~np.isnan(values) & (look.times_s >= 0)
        since = np.maximum.accumulate(np.where(holds, -1, place), 1) + 1
        began = np.take_along_axis(look.times_s, np.minimum(since, place[-1]), 1)
        fires = holds & (look.times_s - began >= rule.for_s - 1e-9)
        first = np.minimum(first, np.where(fires, look.times_s, np.inf).min(1))
    return first


def published(file: Path) -> list[Rule]:
    """The rules of a target's file, which executors have in the archive of the code. It is ours:
    what is wrong with it raises KeyError."""
    archive = next((each for each in file.parents if zipfile.is_zipfile(each)), None)
    inside = file if archive is None else zipfile.Path(archive, str(file.relative_to(archive)))
    document = tomllib.loads(inside.read_text(encoding="utf-8"))
    default = document["scrape_s"]
    return [
        Rule(
            name=each["name"],
            source=each["source"],
            condition=_condition(each),
            for_s=each.get("for_s", 0.0),
            range_s=each.get("over_s", 0.0),
            scrape_s=each.get("scrape_s", default),
        )
        for each in document["rules"]
    ]


_SCOPES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "max": ("max", ()),
    "min": ("min", ()),
    "sum": ("sum", ()),
    "per partition": ("min", ("topic", "partition")),
}


def _condition(given: Mapping[str, Any]) -> Condition:
    def condition(look: Look) -> Vector:
        vector = look.select(given["metric"])
        if over_s := given.get("over_s"):
            vector = look.over(vector, over_s, "increase")
        if only := given.get("only"):
            vector = [Row(each, _held(values, only)) for each, values in vector]
        if (scope := given.get("scope", "any node")) != "any node":
            how, by = _SCOPES[scope]
            vector = aggregated(vector, how, lambda labels: {name: labels[name] for name in by})
        return [Row(each, _held(values, given["when"])) for each, values in vector]

    return condition


def _held(values: Floats, comparison: str) -> Floats:
    sign, number = comparison.split()
    return compared(values, sign, float(number))


def first_loss_s(found: pa.Table | None) -> float | None:
    """When a write that is lost was first acknowledged, by what a check has found; `None` where
    none was lost."""
    if found is None:
        return None
    pairs = zip(found["kind"].to_pylist(), found["complete_ns"].to_pylist(), strict=True)
    known = [at_ns for kind, at_ns in pairs if kind in LOST_KINDS and at_ns is not None]
    return min(known) / 1e9 if known else None

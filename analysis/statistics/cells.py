"""One cell: the verdict class of each of its runs, the numbers of the conclusive ones, and what
they show, with intervals, as campaign.json holds it.

Each run is in exactly one of six classes:

    loss             it has the primary finding of its check (`analysis.primary`): where the model
                     is a log, acknowledged writes are lost
    none             the verdict is `valid`
    wrong            the verdict is `invalid` for another reason: failed writes that were found,
                     unexpected values, duplicates
    vacuous          the verdict is `unknown` only because nothing was put to the test
    unknown          the verdict is `unknown` for any other reason: not read completely, starved,
                     interrupted, ...; or the result cannot be read
    harness_failure  the harness or its setup failed, so the cluster was not tested

The class of a run does not decide whether it counts: `is_conclusive` does. Shares,
rates and tests cover the conclusive runs of either verdict; a `wrong` run counts as one without
loss, which here stands for any primary finding. The other runs are reported beside them: their
number, the number that lost writes, and bounds over all runs of the cell. A loss that was found
counts as a loss in both bounds, since no later event can undo it. Every other run that does not
count is a run without loss in the best case, and a run with loss in the worst case.

Which runs count: eligibility first, outcome second (truth rule 9).

A run is eligible because of its circumstances, never because of its losses: it is complete, every
scripted fault is proven and was met by load, and the load was as the plan requests. A run is
*conclusive* when it is eligible and its verdict is `valid` or `invalid`.

A doubt prevents the verdict `valid` but not `invalid`. If a lossy run under doubt counted, and the
same run without loss did not, shares would be too high where doubts are frequent. Therefore no
run under doubt is conclusive. The losses of the other runs are reported beside the shares, and the
bounds cover all runs.

What checkers count besides their primary finding, over the conclusive runs of a cell.

A checker declares its measures (`harness.protocols.Count.of`): a count, as a share of another.
Each run has one such share, and is one observation, however much was counted in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeGuard

import numpy as np

from analysis.primary import Measure, WhyLost, measures_of, of_result, why_lost
from analysis.statistics.contrasts import Shared, SharedResult
from analysis.statistics.intervals import (
    Estimate,
    Floats,
    Share,
    Spread,
    chosen_by_outcome,
    ratio_estimate,
    share_estimate,
    share_in_words,
    spread,
)
from harness.history.documents import CONCLUSIVE, RunResult
from harness.protocols import DOUBTS, INVALID, VALID, Number


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A run without a usable result.json, and the error. `unread`: it was judged, but its result
    cannot be read."""

    run_id: str
    error: str | None = None
    unread: bool = False


Outcome = RunResult | FailedRun
"""The end of a run."""


def is_eligible(outcome: Outcome) -> bool:
    """Whether a run may count, decided without its losses."""
    return isinstance(outcome, RunResult) and bool(outcome.eligible)


def is_conclusive(outcome: Outcome) -> TypeGuard[RunResult]:
    """Whether a run counts in shares, rates and tests."""
    return (
        isinstance(outcome, RunResult)
        and bool(outcome.eligible)
        and outcome.verdict in CONCLUSIVE
        and not outcome.doubts
    )


Counted = tuple[Floats, Floats]
"""A count and the one that it is a share of, of each run that has both."""
Measured = Mapping[Measure, Counted]


@dataclass(frozen=True, kw_only=True)
class MeasureStatistics:
    """A measure over runs: `count` of `whole` in total; `runs` have a count above 0, of `of_runs`,
    and `share_of_runs` has the interval of that; `rate` is the share in each run, and `pooled` that
    of all together."""

    head: str
    of: str
    count: int
    whole: int
    runs: int
    of_runs: int
    share_of_runs: Estimate
    rate: Spread
    pooled: Estimate


def measured(results: Iterable[RunResult]) -> Measured:
    """The measures of these runs; a run that lacks a count is left out of it."""
    pairs: dict[Measure, list[tuple[float, float]]] = {}
    for result in results:
        for measure, (part, whole) in counted(result).items():
            pairs.setdefault(measure, [])
            if part is not None and whole is not None:
                pairs[measure].append((part, whole))
    return {measure: _columns(each) for measure, each in pairs.items()}


def counted(result: RunResult) -> dict[Measure, tuple[Number, Number]]:
    """What one run has of each measure of its first check; `None`: not recorded."""
    counts = result.checks[0].counts if result.checks else {}
    return {
        measure: (counts.get(measure.part), counts.get(measure.whole))
        for measure in measures_of(result)
    }


def measure_statistics(measured: Measured) -> dict[str, MeasureStatistics]:
    """The statistics of each measure, by its name."""
    return {measure.part: _statistics(measure, *each) for measure, each in measured.items()}


def _statistics(measure: Measure, parts: Floats, wholes: Floats) -> MeasureStatistics:
    having = Share(int(np.count_nonzero(parts)), parts.size)
    some = wholes > 0
    return MeasureStatistics(
        head=measure.head,
        of=measure.of,
        count=int(parts.sum()),
        whole=int(wholes.sum()),
        runs=having.part,
        of_runs=having.whole,
        share_of_runs=share_estimate(having),
        rate=spread(parts[some] / wholes[some], bounded=False),
        pooled=ratio_estimate(parts, wholes),
    )


def _columns(pairs: list[tuple[float, float]]) -> Counted:
    parts, wholes = np.array(pairs, np.float64).reshape(-1, 2).T
    return parts, wholes


LOSS, NONE, WRONG = "loss", "none", "wrong"
VACUOUS, UNKNOWN, HARNESS_FAILURE = "vacuous", "unknown", "harness_failure"
SEVERAL_SETTINGS: Final = "the plan's own cells differ in settings, and no rate describes them all"
NO_RATE: Final = "no conclusive run has a loss rate"
CLASSES: Final = (LOSS, NONE, WRONG, VACUOUS, UNKNOWN, HARNESS_FAILURE)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The runs of one cell; arrays hold one number for each conclusive run.

    `lossy`: the runs with loss among the conclusive ones; `others`: the runs that lost writes among
    those that do not count; `head`: what such a run did; `clusters`: the runs of `lossy` by
    cluster, where the cluster is known; `shared`: the results in runs that other cells shared, by
    the id of the shared run.
    `lost` and `acknowledged` cover the runs without cells of the plan's own, and `fault_lost` and
    `fault_s` those of them in which a proven fault was in force; `why_no_rate`: why none has a loss
    rate; `None`: some have, or no run is conclusive. `recovery_s` is infinite for a run that had
    not recovered when its load ended. `measured`: what the first check of the runs has besides.
    """

    verdicts: Mapping[str, int]
    lossy: Share
    others: Share
    head: str
    clusters: Mapping[Hashable, Share]
    shared: Shared
    lost: Floats
    acknowledged: Floats
    loss_rate: Floats
    unacknowledged_success: Floats
    fault_lost: Floats
    fault_s: Floats
    why_no_rate: str | None
    longest_gap_s: Floats
    refused: Floats
    recovery_s: Floats
    measured: Measured

    @property
    def runs(self) -> int:
        """All runs, whatever their class."""
        return sum(self.verdicts.values())

    @property
    def chosen_by_outcome(self) -> bool:
        """Whether the conclusive share lies outside the bounds over all runs."""
        return chosen_by_outcome(self.lossy, self.others)

    @property
    def lossy_at_best(self) -> Share:
        """Runs with loss among all runs, if no run lost writes but those that were found to."""
        return Share(self.lossy.part + self.others.part, self.runs)

    @property
    def lossy_at_worst(self) -> Share:
        """Runs with loss among all runs, if every run that does not count is one with loss."""
        return Share(self.lossy.part + self.others.whole, self.runs)


def verdict_class(outcome: Outcome) -> str:
    """The class of a run."""
    if isinstance(outcome, FailedRun):  # one that was judged has tested the cluster
        return UNKNOWN if outcome.unread else HARNESS_FAILURE
    doubts = set(outcome.doubts or ())
    if outcome.verdict == INVALID:
        # Even if the run failed later: no later event can undo a counter-example.
        return LOSS if of_result(outcome).is_in(outcome.counter_examples or ()) else WRONG
    if DOUBTS.failed in doubts:
        return HARNESS_FAILURE
    if outcome.verdict == VALID:
        return NONE
    return VACUOUS if doubts == {DOUBTS.vacuous} else UNKNOWN


def sample_of(
    outcomes: Iterable[Outcome],
    clusters: Iterable[Hashable | None] = (),
    shared: Iterable[Hashable | None] = (),
) -> Sample:
    """The sample of these runs. `clusters` names the cluster of each run, where it is known, and
    `shared` the run that it shared with other cells, if it did."""
    every = list(outcomes)
    classes = [verdict_class(outcome) for outcome in every]
    counts = [each for each in every if is_conclusive(each)]
    lossy = sum(verdict_class(result) == LOSS for result in counts)
    rated = [result for result in counts if not result.cells]
    faulted = [result for result in rated if result.availability.fault_s]
    loss_rate = _floats(result.rates.loss for result in rated)
    return Sample(
        verdicts={name: classes.count(name) for name in CLASSES},
        lossy=Share(lossy, len(counts)),
        clusters=_by_cluster(every, clusters),
        shared=_by_shared_run(every, shared),
        others=Share(classes.count(LOSS) - lossy, len(every) - len(counts)),
        head=next((of_result(each).head for each in every if isinstance(each, RunResult)), "lost"),
        lost=_floats(result.counts.lost_acknowledged for result in rated),
        acknowledged=_floats(result.counts.acknowledged for result in rated),
        loss_rate=loss_rate,
        unacknowledged_success=_floats(result.rates.unacknowledged_success for result in counts),
        fault_lost=_floats(result.counts.lost_acknowledged for result in faulted),
        fault_s=_floats(result.availability.fault_s for result in faulted),
        why_no_rate=None if loss_rate.size else _why_no_rate(counts),
        longest_gap_s=_floats(result.availability.longest_gap_s for result in counts),
        refused=_floats(result.availability.refused for result in counts),
        recovery_s=_floats(_recovery_s(result) for result in counts),
        measured=measured(counts),
    )


def _why_no_rate(counts: Sequence[RunResult]) -> str | None:
    if not counts:
        return None
    return SEVERAL_SETTINGS if any(result.cells for result in counts) else NO_RATE


def _by_cluster(
    outcomes: Sequence[Outcome], clusters: Iterable[Hashable | None]
) -> dict[Hashable, Share]:
    lossy: dict[Hashable, list[bool]] = {}
    for outcome, cluster in zip(outcomes, clusters, strict=False):
        if cluster is not None and is_conclusive(outcome):
            lossy.setdefault(cluster, []).append(verdict_class(outcome) == LOSS)
    return {cluster: Share(sum(each), len(each)) for cluster, each in lossy.items()}


def _by_shared_run(
    outcomes: Sequence[Outcome], shared: Iterable[Hashable | None]
) -> dict[Hashable, SharedResult]:
    return {
        run: SharedResult(
            lossy=verdict_class(outcome) == LOSS,
            conclusive=is_conclusive(outcome),
            loss_rate=outcome.rates.loss if isinstance(outcome, RunResult) else None,
        )
        for outcome, run in zip(outcomes, shared, strict=False)
        if run is not None
    }


def _recovery_s(result: RunResult) -> float | None:
    seen = result.availability
    return np.inf if seen.recovered is False else seen.recovery_s


def _floats(numbers: Iterable[float | None]) -> Floats:
    known: Sequence[float] = [number for number in numbers if number is not None]
    return np.array(known, np.float64)


Key = Mapping[str, object]
"""The axis values of a cell: `{"unclean": "true", "min_isr": "1"}`."""


@dataclass(frozen=True, kw_only=True)
class LossyShare(Estimate):
    """The share of conclusive runs that lost writes, also as a sentence. `best_case` and
    `worst_case` cover all runs of the cell: a run that does not count is one without loss in the
    best case, unless it lost writes, and one with loss in the worst case.

    `shown`, `shown_low` and `shown_high` are what pages print: estimate and interval; or, if the
    outcome chose the runs that count (`chosen_by_outcome`: the estimate is below that of the best
    case), the bounds, from the lower limit of the best case to the upper one of the worst."""

    in_words: str
    chosen_by_outcome: bool
    shown: float | None
    shown_low: float | None
    shown_high: float | None
    best_case: Estimate
    worst_case: Estimate


@dataclass(frozen=True, kw_only=True)
class MedianAndMax:
    """A number over `runs` runs; `None` where no run has it."""

    median: float | None
    max: float | None
    runs: int


@dataclass(frozen=True, kw_only=True)
class Recovery(MedianAndMax):
    """Recovery times. A run that had not recovered when its load ended is slower than all others:
    `median` is `None` if it falls on such a run, and `max` is the slowest of the others."""

    not_recovered: int


@dataclass(frozen=True, kw_only=True)
class Silence:
    """In how many of the runs that lost writes, `of_runs`, an alarm rule did not fire; `share` has
    the interval of that."""

    runs: int
    of_runs: int
    share: Estimate


def silences(results: Iterable[RunResult]) -> dict[str, Silence]:
    """By rule: over these runs, as far as they lost writes and the rule was evaluated in them."""
    silent: dict[str, list[bool]] = {}
    for result in results:
        for alarm in result.alarms if result.counts.lost else ():
            if alarm.why_not is None:
                silent.setdefault(alarm.rule, []).append(not alarm.fires)
    return {
        rule: Silence(
            runs=sum(each), of_runs=len(each), share=share_estimate(Share(sum(each), len(each)))
        )
        for rule, each in silent.items()
    }


@dataclass(frozen=True, kw_only=True)
class CellStatistics(WhyLost):
    """The statistics of a cell. `verdicts` counts the classes of all runs, `conclusive` the runs
    that count, `..._lossy` the runs among them that lost acknowledged writes, `measures` what their
    first check counts besides, `silent_alarms` the rules that did not fire in those that lost."""

    key: Key
    runs: int
    verdicts: Mapping[str, int]
    conclusive: int
    conclusive_lossy: int
    inconclusive: int
    inconclusive_lossy: int
    lossy_share: LossyShare
    loss_rate: Spread
    unacknowledged_success_rate: Spread
    pooled_loss_rate: Estimate
    lost_per_fault_s: Estimate
    longest_gap_s: MedianAndMax
    refused: MedianAndMax
    recovery_s: Recovery
    measures: Mapping[str, MeasureStatistics]
    silent_alarms: Mapping[str, Silence]


def cell_of(key: Key, outcomes: Iterable[Outcome]) -> CellStatistics:
    """The statistics of these runs."""
    every = list(outcomes)
    sample = sample_of(every)
    none = sample.why_no_rate
    conclusive = [each for each in every if is_conclusive(each)]
    return CellStatistics(
        key=dict(key),
        runs=sample.runs,
        verdicts=dict(sample.verdicts),
        conclusive=sample.lossy.whole,
        conclusive_lossy=sample.lossy.part,
        inconclusive=sample.others.whole,
        inconclusive_lossy=sample.others.part,
        lossy_share=lossy_share(sample),
        loss_rate=spread(sample.loss_rate, bounded=True, none=none),
        unacknowledged_success_rate=spread(sample.unacknowledged_success, bounded=False, none=none),
        pooled_loss_rate=ratio_estimate(sample.lost, sample.acknowledged, none=none),
        lost_per_fault_s=ratio_estimate(sample.fault_lost, sample.fault_s, none=none),
        longest_gap_s=median_and_max(sample.longest_gap_s),
        refused=median_and_max(sample.refused),
        recovery_s=_recovery(sample.recovery_s),
        measures=measure_statistics(sample.measured),
        silent_alarms=silences(conclusive),
        **vars(why_lost(conclusive)),
    )


def lossy_share(sample: Sample) -> LossyShare:
    """The share of conclusive runs with loss, and the bounds over all runs."""
    seen, chosen = share_estimate(sample.lossy), sample.chosen_by_outcome
    best, worst = share_estimate(sample.lossy_at_best), share_estimate(sample.lossy_at_worst)
    return LossyShare(
        **asdict(seen),
        in_words=share_in_words(sample.lossy, sample.others, head=sample.head),
        chosen_by_outcome=chosen,
        shown=best.estimate if chosen else seen.estimate,
        shown_low=best.low if chosen else seen.low,
        shown_high=worst.high if chosen else seen.high,
        best_case=best,
        worst_case=worst,
    )


def median_and_max(values: Floats) -> MedianAndMax:
    """The median and the maximum of a number that each run has."""
    if not values.size:
        return MedianAndMax(median=None, max=None, runs=0)
    return MedianAndMax(median=float(np.median(values)), max=float(values.max()), runs=values.size)


def _recovery(values: Floats) -> Recovery:
    recovered = values[np.isfinite(values)]
    # The upper of two middle values: the mean of a time and "never" is "never".
    median = np.quantile(values, 0.5, method="inverted_cdf") if values.size else np.inf
    return Recovery(
        median=float(median) if np.isfinite(median) else None,
        max=float(recovered.max()) if recovered.size else None,
        runs=values.size,
        not_recovered=values.size - recovered.size,
    )

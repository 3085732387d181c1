"""Two or more campaigns compared: what changed in the cells that they share, and what that proves.

Two campaigns are two samples of runs. The comparison asks one question of each cell, so p-values
are corrected for the number of cells. Runs that are not conclusive prove nothing: a campaign in
which half of the runs are `unknown` is neither better nor worse for it.

The newest campaign is the current one, and the one before it the baseline. A cell is a `regression`
(more of its conclusive runs lost writes) or an `improvement` if the exact test is significant at
5 %, corrected over all cells, and the runs that do not count cannot have caused the difference. If
they can, the cell is `doubtful`, by the rule of `statistics.comparisons`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import combinations
from typing import Any, Final, TypeVar

from analysis.campaign import by_cell_of, metadata_of, refuse_mixed, results_of, versions_of
from analysis.primary import of_campaign
from analysis.statistics.cells import (
    CLASSES,
    LOSS,
    NONE,
    WRONG,
    LossyShare,
    MedianAndMax,
    Sample,
    lossy_share,
    median_and_max,
    sample_of,
)
from analysis.statistics.comparisons import Comparison, Tested, compared, corrected
from analysis.statistics.contrasts import (
    ALPHA,
    POWER,
    Equivalence,
    adjusted,
    equivalence,
    exact_test,
)
from analysis.statistics.intervals import Share
from analysis.wording import counted, do, has, of_them, unit
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress, Run
from harness.campaigns.plan import Campaign, Cell
from harness.errors import HistoryError
from harness.protocols import PrimaryFinding
from harness.protocols.checkers import points
from harness.protocols.systems import EXEC

CellId = frozenset[tuple[str, str]]
"""A cell's key, regardless of the order of its axes."""
Key = TypeVar("Key", bound=Hashable)
Samples = Mapping[Key, tuple[str, Sample]]
"""The name and the sample of each cell of a campaign, by what identifies the cell."""


@dataclass(frozen=True, kw_only=True)
class CampaignSummary:
    """An entry of `campaigns[]`. `runs` are results; `executions` counts a shared run once."""

    id: str
    folder: str
    name: str
    plan_hash: str
    started: str | None
    ended: str | None
    workers: int | None
    runs: int
    executions: int
    versions: Mapping[str, Sequence[str]]
    simulated: bool = False
    clients: Sequence[str] = ()
    """The commands of the user's clients (`--client`), for plans that have such."""


@dataclass(frozen=True)
class SampledCampaign:
    """A campaign with the runs that it has so far."""

    folder: CampaignDir
    campaign: Campaign
    progress: Progress
    cells: Mapping[CellId, Cell]
    samples: Mapping[CellId, Sample]
    versions: Mapping[str, Sequence[str]]
    clients: Sequence[str] = ()

    @property
    def id(self) -> str:
        return self.folder.path.resolve().name

    @property
    def named(self) -> Samples[CellId]:
        """Its cells, as a trend shows them."""
        return {key: (cell.name, self.samples[key]) for key, cell in self.cells.items()}

    def summary(self) -> CampaignSummary:
        """The campaign as the document names it."""
        return CampaignSummary(
            id=self.id,
            folder=str(self.folder.path),
            name=self.campaign.plan.name,
            plan_hash=self.campaign.digest,
            started=self.progress.started,
            ended=self.progress.ended,
            workers=self.progress.workers,
            runs=sum(sample.runs for sample in self.samples.values()),
            executions=self.progress.executed,
            versions=dict(self.versions),
            simulated=self.campaign.simulated,
            clients=self.clients,
        )


def sampled(folder: CampaignDir) -> SampledCampaign:
    """Read a campaign. Raises HistoryError or PlanError when its folder cannot be read."""
    campaign, progress = folder.campaign(), folder.progress()
    results = list(results_of(folder, progress))
    refuse_mixed(folder, campaign, results)
    by_cell = by_cell_of(campaign, results)
    cells = {frozenset(cell.key.items()): cell for cell in campaign.possible}
    return SampledCampaign(
        folder,
        campaign,
        progress,
        cells,
        {key: sample_of(by_cell[cell.name]) for key, cell in cells.items()},
        versions_of(folder, (run for run, _ in results)),
        _clients(folder, campaign, [run for run, _ in results]),
    )


def _clients(folder: CampaignDir, campaign: Campaign, runs: Sequence[Run]) -> list[str]:
    """The commands of the user's clients, as the metadata of the runs names them."""
    if all(cell.resolved.plan.workload.client != EXEC for cell in campaign.possible):
        return []
    return sorted(
        {metadata_of(folder.run(run.run_id)).own_client or "not recorded" for run in runs}
    )


DESCRIPTIVE: Final = frozenset({"name", "about", "expect", "yours"})
"""Keys of a plan that have no effect on a run."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One condition that differs; `None`: that campaign does not have it."""

    what: str
    key: str
    old: object
    new: object


def differences(baseline: SampledCampaign, current: SampledCampaign) -> list[Difference]:
    """All of them: the campaign's own keys, its axes, each key of the base plan, versions, the
    command of the user's client."""
    before, now = _conditions(baseline), _conditions(current)
    return [
        Difference(what=what, key=key, old=old, new=new)
        for what in ("campaign", "axis", "plan", "version", "client")
        for key, old, new in _differing(before[what], now[what])
    ]


def _conditions(sampled: SampledCampaign) -> dict[str, Mapping[str, object]]:
    campaign = sampled.campaign
    plan = campaign.plan.model_dump(mode="json")
    return {
        "campaign": {
            "plan_hash": campaign.digest,
            "workers": sampled.progress.workers,
            "cells_per_run": max(map(len, sampled.progress.executions.values()), default=None),
            **{key: plan[key] for key in ("name", "seed", "repetitions", "share", "exclude")},
        },
        "axis": {
            name: {label: choice.model_dump(mode="json") for label, choice in choices.items()}
            for name, choices in ((name, a.by_label()) for name, a in campaign.plan.axes.items())
        },
        "plan": {key: value for key, value in campaign.base.items() if key not in DESCRIPTIVE},
        "version": sampled.versions,
        "client": {"--client": list(sampled.clients)},
    }


def _differing(old: object, new: object, key: str = "") -> Iterator[tuple[str, object, object]]:
    """The deepest keys that differ; a list is one value."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield key, old, new
        return
    for name in dict.fromkeys([*old, *new]):
        inner = f'"{name}"' if "." in name else name
        yield from _differing(old.get(name), new.get(name), f"{key}.{inner}" if key else inner)


SCHEMA_VERSION: Final = 1
REGRESSION, IMPROVEMENT = "regression", "improvement"
DOUBTFUL, NOT_SHOWN, NOT_JUDGED = "doubtful", "no difference shown", "not judged"


def unit_of(campaigns: Iterable[CampaignSummary]) -> str:
    """What is counted in these campaigns: `run`, or `result` where cells of one shared runs."""
    units = {unit(each.runs, each.executions) for each in campaigns}
    return "result" if "result" in units else "run"


@dataclass(frozen=True, kw_only=True)
class Side:
    """A cell of one campaign. `judged` is the earlier name of `conclusive`; `loss_rate` is over the
    conclusive runs."""

    runs: int
    judged: int
    conclusive: int
    lossy: int
    inconclusive: int
    inconclusive_lossy: int
    verdicts: Mapping[str, int]
    lossy_share: LossyShare
    loss_rate: MedianAndMax


@dataclass(frozen=True, kw_only=True)
class TrendPoint(Side):
    """A cell of the campaign at index `campaign` of `campaigns[]`."""

    campaign: int


@dataclass(frozen=True, kw_only=True)
class Trend:
    """One cell over all campaigns that have it."""

    name: str
    campaigns: Sequence[TrendPoint]


@dataclass(frozen=True, kw_only=True)
class Equivalent(Equivalence):
    """Whether the shares are the same within a margin, with `p_adjusted` for all cells together.
    `doubtful`: the runs that do not count could refute it."""

    p_adjusted: float
    doubtful: bool


@dataclass(frozen=True, kw_only=True)
class ComparedCell(Tested):
    """One cell of both campaigns, tested: `old` in the baseline, `new` in the current one.

    `in_words` is the result of the test as a sentence. `p_least` is the smallest p-value that so
    many runs can have. `new_classes` and `vanished_classes` are the verdict classes that only one
    campaign has. `flaky` names the campaigns whose own runs disagree.
    """

    name: str
    key: Mapping[str, object]
    status: str
    old: Side
    new: Side
    p_unknown_against: float | None
    equivalence: Equivalent | None
    p_least: float | None
    new_classes: Sequence[str]
    vanished_classes: Sequence[str]
    flaky: Sequence[str]
    in_words: str = ""


@dataclass(frozen=True, kw_only=True)
class CampaignComparison:
    """What `campaign compare` reports; `finding` says what makes a run lossy."""

    campaigns: Sequence[CampaignSummary]
    baseline: str
    current: str
    differs: Sequence[Difference]
    cells: Sequence[ComparedCell]
    only_old: Sequence[str]
    only_new: Sequence[str]
    trend: Sequence[Trend]
    finding: PrimaryFinding
    conclusion: Sequence[str] = ()

    @property
    def simulated(self) -> bool:
        """Whether nothing real was tested: in all campaigns, or in none."""
        return any(campaign.simulated for campaign in self.campaigns)

    @property
    def unit(self) -> str:
        """What is counted: `run`, or `result` where cells of a campaign shared runs."""
        return unit_of(self.campaigns)

    @property
    def regressions(self) -> int:
        return sum(cell.status == REGRESSION for cell in self.cells)

    @property
    def improvements(self) -> int:
        return sum(cell.status == IMPROVEMENT for cell in self.cells)

    def json(self) -> Mapping[str, Any]:
        """The JSON document. `nights`, `night`, `old` and `new` are earlier names of `campaigns`,
        `campaign`, `baseline` and `current`."""
        document = asdict(self)
        for line in document["trend"]:
            line["nights"] = [{"night": each["campaign"], **each} for each in line["campaigns"]]
        return {
            "schema": SCHEMA_VERSION,
            **document,
            "simulated": self.simulated,
            "nights": document["campaigns"],
            "old": self.baseline,
            "new": self.current,
            "regressions": self.regressions,
            "improvements": self.improvements,
        }


def trend(campaigns: Sequence[Samples[Key]]) -> list[Trend]:
    """Every cell over all campaigns that have it, in their order; the cells of the last campaign
    come first."""
    names: dict[Key, str] = {}
    for campaign in reversed(campaigns):
        for key, (name, _) in campaign.items():
            names.setdefault(key, name)
    return [
        Trend(
            name=name,
            campaigns=[
                TrendPoint(campaign=place, **vars(side_of(campaign[key][1])))
                for place, campaign in enumerate(campaigns)
                if key in campaign
            ],
        )
        for key, name in names.items()
    ]


def side_of(sample: Sample) -> Side:
    """The counts and the share of a sample."""
    return Side(
        runs=sample.runs,
        judged=sample.lossy.whole,
        conclusive=sample.lossy.whole,
        lossy=sample.lossy.part,
        inconclusive=sample.others.whole,
        inconclusive_lossy=sample.others.part,
        verdicts=dict(sample.verdicts),
        lossy_share=lossy_share(sample),
        loss_rate=median_and_max(sample.loss_rate),
    )


Cells = Sequence[ComparedCell]


def cell_in_words(
    cell: ComparedCell, finding: PrimaryFinding, *, cells: int, unit: str = "run"
) -> str:
    """The result of one cell, which was tested together with all `cells`."""
    old, new = cell.old, cell.new
    shares = f"{_lossy(old, finding)} before, {_lossy(new, finding)} now"
    if cell.status == NOT_JUDGED or cell.p_adjusted is None or cell.difference is None:
        which = " and ".join(
            name for name, side in (("before", old), ("now", new)) if not side.conclusive
        )
        return f"cannot be compared: no conclusive {unit} {which}; {shares}"
    p = f"{_p(cell.p_adjusted)}, {cell.test}'s test{_corrected_for(cells)}"
    if cell.status == REGRESSION:
        return f"{finding.noun} more often: {shares} ({p}); {_interval(cell)}"
    if cell.status == IMPROVEMENT:
        return f"{finding.noun} less often: {shares} ({p}); {_interval(cell)}"
    if cell.status == DOUBTFUL:
        more = "more" if cell.difference > 0 else "less"
        others = old.inconclusive + new.inconclusive
        against = _p(1.0 if cell.p_unknown_against is None else cell.p_unknown_against)
        return (
            f"doubtful whether {finding.noun} are {more} frequent, since {counted(others, unit)} "
            f"that {do(others)} not count may explain the difference: {shares} ({p}; "
            f"{against} with those {unit}s counted against it)"
        )
    limits = f"{_interval(cell)}{_equivalent(cell, cells, unit)}{_more_runs(cell, cells, unit)}"
    return f"no difference shown: {shares} ({p}); {limits}"


def _conclusion(comparison: CampaignComparison) -> list[str]:
    """The sentences at the top: what changed, what else changed, and what remains open."""
    cells, finding, unit = comparison.cells, comparison.finding, comparison.unit
    by_status: dict[str, list[str]] = {}
    for cell in cells:
        by_status.setdefault(cell.status, []).append(cell.name)
    found, (baseline, current) = [], comparison.campaigns[-2:]
    if baseline.started and current.started and baseline.started > current.started:
        # `night-10` sorts before `night-9`.
        found.append(
            f"The baseline {baseline.id} began after {current.id}: if you mean the older one as "
            "the baseline, name it first"
        )
    result = f"No cell is shown to have {finding.noun} more often than in the baseline"
    if worse := by_status.get(REGRESSION):
        result = f"{_of(worse, cells, finding)} more often than in the baseline: {'; '.join(worse)}"
    found.append(result)
    if better := by_status.get(IMPROVEMENT):
        found.append(f"{_of(better, cells, finding)} less often: {'; '.join(better)}")
    if doubtful := by_status.get(DOUBTFUL):
        found.append(
            f"{unit.capitalize()}s that do not count leave a change in doubt: {'; '.join(doubtful)}"
        )
    if unjudged := by_status.get(NOT_JUDGED):
        found.append(
            f"Nothing is known of {'; '.join(unjudged)}: one of the two has no conclusive {unit}"
        )
    if gone := comparison.only_old:
        found.append(f"Only the baseline has {'; '.join(gone)}: nothing to compare")
    if new := comparison.only_new:
        found.append(f"Only the current campaign has {'; '.join(new)}: nothing to compare")
    found += _new_classes(comparison)
    found += _limits(comparison)
    found.append(_causes(comparison))
    return [f"{sentence}." for sentence in found]


def _of(names: Sequence[str], cells: Cells, finding: PrimaryFinding) -> str:
    of = counted(len(cells), "cell")
    return f"{len(names)} of {of} {has(len(names))} {finding.noun}"


def _new_classes(comparison: CampaignComparison) -> Iterable[str]:
    """New verdict classes, which the test of shares does not cover."""
    units, noun = f"{comparison.unit.capitalize()}s", comparison.finding.noun
    classes = {
        "wrong": f"{units} that are invalid for another reason than {noun} are new",
        "harness_failure": "Failures of the harness are new",
        "vacuous": f"{units} in which nothing was put to the test are new",
    }
    for name, sentence in classes.items():
        if names := [cell.name for cell in comparison.cells if name in cell.new_classes]:
            yield f"{sentence}: {'; '.join(names)}"


def _limits(comparison: CampaignComparison) -> Iterable[str]:
    """A difference that is not shown may still exist: how large it can be."""
    noun, unit = comparison.finding.noun, comparison.unit
    unshown = [cell for cell in comparison.cells if cell.status == NOT_SHOWN]
    if few := [cell.name for cell in unshown if _too_few(cell)]:
        yield (
            f"Too few {unit}s are conclusive in {'; '.join(few)}: no difference could be "
            f"significant, not even between no {unit} with {noun} and only such {unit}s"
        )
    enough = [cell for cell in unshown if not _too_few(cell)]
    if rises := [cell.shown_high for cell in enough if cell.shown_high is not None]:
        yield (
            "A difference that is not shown may still exist: in cells with enough conclusive "
            f"{unit}s, the share of {unit}s with {noun} may have risen by up to "
            f"{points(max(rises)).removeprefix('+')} points"
        )


def _causes(comparison: CampaignComparison) -> str:
    differs = [each for each in comparison.differs if each.key != "plan_hash"]
    if not differs and comparison.campaigns[-1].clients:
        return (
            "Plan, axes, versions and the command of your client are the same in both campaigns, "
            "so a change comes from your client if its program is another one, from the machine, "
            "or from chance"
        )
    if not differs:
        return (
            "Plan, axes and versions are the same in both campaigns, so a change comes from the "
            "machine, or from chance"
        )
    kinds = Counter(each.what for each in differs)
    nouns = {"plan": "key of the plan", "campaign": "key of the campaign"}
    counts = ", ".join(counted(number, nouns.get(kind, kind)) for kind, number in kinds.items())
    return (
        f"The campaigns also differ in their conditions ({counts}): a change may have any of these "
        "causes"
    )


def _more_runs(cell: ComparedCell, cells: int, unit: str) -> str:
    if _too_few(cell):
        return f"; so few {unit}s cannot show a difference"
    if cell.runs_needed is None:
        return ""
    single = f", before the correction for {cells} cells" if cells > 1 else ""
    return (
        f"; if these shares are true, {cell.runs_needed:,} {unit}s per campaign would show it with "
        f"{POWER * 100:.0f} % power{single}"
    )


def _too_few(cell: ComparedCell) -> bool:
    """Whether no result of so many runs is significant, whatever the other cells show: if all
    cells differ, the correction by Benjamini-Hochberg leaves the p-value as it is."""
    return cell.p_least is not None and cell.p_least > ALPHA


def _equivalent(cell: ComparedCell, cells: int, unit: str) -> str:
    """The equivalence within a margin, if it is shown."""
    test = cell.equivalence
    if test is None or not test.equivalent:
        return ""
    within = f"equivalent within {test.margin * 100:g} points"
    if test.doubtful:
        return f"; {within}, but doubtful: the {unit}s that do not count could refute it"
    return f"; {within} ({_p(test.p_adjusted)}, two one-sided exact tests{_corrected_for(cells)})"


def _interval(cell: ComparedCell) -> str:
    over = ", over all runs" if cell.chosen_by_outcome else ""
    low, high = points(cell.shown_low or 0.0), points(cell.shown_high or 0.0)
    return f"{low} to {high} points (95 %{over})"


def _lossy(side: Side, finding: PrimaryFinding) -> str:
    counted, others = f"{side.lossy} of {side.conclusive} with {finding.noun}", side.inconclusive
    if not others:
        return counted
    lossy = of_them(side.inconclusive_lossy, finding.noun)
    return f"{counted} and {others} that {do(others)} not count{lossy}"


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.0001 else "p < 0.0001"


def _corrected_for(cells: int) -> str:
    return f", corrected for {cells} cells" if cells > 1 else ""


def compare_campaigns(
    folders: Sequence[CampaignDir],
    *,
    earlier: Sequence[tuple[CampaignSummary, Samples[CellId]]] = (),
) -> CampaignComparison:
    """Compare at least two campaigns, oldest first; the trend begins with the `earlier` ones, whose
    folders may be gone.

    Raises HistoryError if a folder cannot be read, some are simulated and others real, two have a
    run in common, or the last two have no cell in common.
    """
    campaigns = [sampled(folder) for folder in folders]
    _refuse_mixed(campaigns)
    _refuse_same_runs(campaigns)
    baseline, current = campaigns[-2:]
    finding = of_campaign(*(each.campaign for each in campaigns))
    shown = [*earlier, *((each.summary(), each.named) for each in campaigns)]
    summaries = [summary for summary, _ in shown]
    cells = cells_compared(baseline, current, finding, unit_of(summaries))
    if not cells:
        raise HistoryError(
            "these two campaigns have no cell in common",
            file=f"{baseline.folder.path}, {current.folder.path}",
            hint="two cells are the same if their axes and values have the same names",
        )
    before, now = baseline.cells, current.cells
    comparison = CampaignComparison(
        campaigns=summaries,
        baseline=baseline.id,
        current=current.id,
        differs=differences(baseline, current),
        cells=cells,
        only_old=[before[key].name for key in before if key not in now],
        only_new=[now[key].name for key in now if key not in before],
        trend=trend([named for _, named in shown]),
        finding=finding,
    )
    return replace(comparison, conclusion=_conclusion(comparison))


def _refuse_mixed(campaigns: Sequence[SampledCampaign]) -> None:
    simulated = [str(each.folder.path) for each in campaigns if each.campaign.simulated]
    if 0 < len(simulated) < len(campaigns):
        raise HistoryError(
            "simulated and real campaigns are not compared: nothing real was tested in "
            + ", ".join(simulated),
            hint="compare simulated ones with simulated ones",
        )


def _refuse_same_runs(campaigns: Sequence[SampledCampaign]) -> None:
    """A run in two campaigns, such as of a copy that was continued, is one observation."""
    for one, other in combinations(campaigns, 2):
        if same := sorted(one.progress.executions.keys() & other.progress.executions.keys()):
            raise HistoryError(
                f"have {counted(len(same), 'run')} in common (the first is {same[0]}), and tests "
                "need campaigns that are independent",
                file=f"{one.folder.path}, {other.folder.path}",
                hint="is one a copy of the other, or its continuation? name campaigns that ran "
                "separately",
            )


def cells_compared(
    baseline: SampledCampaign, current: SampledCampaign, finding: PrimaryFinding, unit: str = "run"
) -> list[ComparedCell]:
    """Every cell that both campaigns have, tested and corrected over all of them."""
    common = [key for key in current.cells if key in baseline.cells]
    pairs = [(baseline.samples[key], current.samples[key]) for key in common]
    equivalent = _equivalences(pairs)
    tests = corrected(
        [
            compared(current.cells[key].key, old, current.cells[key].key, new)
            for key, (old, new) in zip(common, pairs, strict=True)
        ]
    )
    cells = [
        _cell(current.cells[key].name, old, new, test, same)
        for key, (old, new), test, same in zip(common, pairs, tests, equivalent, strict=True)
    ]
    in_words = partial(cell_in_words, finding=finding, cells=len(cells), unit=unit)
    return [replace(cell, in_words=in_words(cell)) for cell in cells]


def _cell(
    name: str, old: Sample, new: Sample, test: Comparison, same: Equivalent | None
) -> ComparedCell:
    tested = {field.name: getattr(test, field.name) for field in fields(Tested)}
    return ComparedCell(
        name=name,
        key=test.a,
        status=_status(test),
        old=side_of(old),
        new=side_of(new),
        **tested,
        p_unknown_against=test.bounds.p_against_adjusted,
        equivalence=same,
        # If no run of one campaign were lossy and every run of the other.
        p_least=exact_test(Share(0, old.lossy.whole), Share(new.lossy.whole, new.lossy.whole)).p,
        new_classes=[name for name in CLASSES if new.verdicts[name] and not old.verdicts[name]],
        vanished_classes=[
            name for name in CLASSES if old.verdicts[name] and not new.verdicts[name]
        ],
        flaky=[
            side
            for side, sample in (("old", old), ("new", new))
            if sum(bool(sample.verdicts[name]) for name in (LOSS, NONE, WRONG)) > 1
        ],
    )


def _status(test: Comparison) -> str:
    if test.p_adjusted is None or test.difference is None:
        return NOT_JUDGED
    if not test.is_significant:
        return NOT_SHOWN
    if test.doubtful:
        return DOUBTFUL
    return REGRESSION if test.difference > 0 else IMPROVEMENT


def _equivalences(pairs: Sequence[tuple[Sample, Sample]]) -> list[Equivalent | None]:
    """Whether the shares of each cell are the same within a margin, corrected for the number of
    cells as differences are. It is doubtful unless it also holds over all runs, with the runs that
    do not count as far apart as possible."""
    judged = [pair for pair in pairs if all(side.lossy.whole for side in pair)]
    tests = [equivalence(old.lossy, new.lossy) for old, new in judged]
    for_all = adjusted([test.p for test in tests])
    against = adjusted(
        [
            1.0 if p is None or p > ALPHA else _p_apart(*pair)
            for p, pair in zip(for_all, judged, strict=True)
        ]
    )
    found = iter(
        Equivalent(
            **{**vars(test), "equivalent": p <= ALPHA},
            p_adjusted=p,
            doubtful=p <= ALPHA < p_against,
        )
        for test, p, p_against in zip(tests, for_all, against, strict=True)
        if p is not None and p_against is not None
    )
    return [next(found) if all(side.lossy.whole for side in pair) else None for pair in pairs]


def _p_apart(old: Sample, new: Sample) -> float:
    """The p-value of the equivalence with the runs that do not count as far apart as possible."""
    extremes = (old.lossy_at_best, new.lossy_at_worst), (old.lossy_at_worst, new.lossy_at_best)
    return max(equivalence(*pair).p for pair in extremes)

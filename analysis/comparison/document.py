"""The cells of two campaigns tested against each other, and the trend over all given campaigns.

The newest campaign is the current one, and the one before it the baseline. A cell is a `regression`
(more of its conclusive runs lost writes) or an `improvement` if the exact test is significant at
5 %, corrected over all cells, and the runs that do not count cannot have caused the difference. If
they can, the cell is `doubtful`, by the rule of `statistics.comparisons`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import combinations

from analysis.comparison import sentences
from analysis.comparison.differences import differences
from analysis.comparison.model import (
    DOUBTFUL,
    IMPROVEMENT,
    NOT_JUDGED,
    NOT_SHOWN,
    REGRESSION,
    CampaignComparison,
    ComparedCell,
    Equivalent,
    unit_of,
)
from analysis.comparison.sampled import CellId, InTrend, SampledCampaign, sampled
from analysis.comparison.trend import side_of, trend
from analysis.primary import of_campaign
from analysis.statistics.comparisons import Comparison, Tested, compared, corrected
from analysis.statistics.contrasts import ALPHA, adjusted, exact_test
from analysis.statistics.equivalence import equivalence
from analysis.statistics.samples import CLASSES, LOSS, NONE, WRONG, Sample
from analysis.statistics.shares import Share
from analysis.wording import counted
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
from harness.protocols import PrimaryFinding


def compare_campaigns(
    folders: Sequence[CampaignDir], *, earlier: Sequence[InTrend[CellId]] = ()
) -> CampaignComparison:
    """Compare at least two campaigns, oldest first; the trend begins with the `earlier` ones.

    Raises HistoryError if a folder cannot be read, some are simulated and others real, two have a
    run in common, or the last two have no cell in common.
    """
    campaigns = [sampled(folder) for folder in folders]
    _refuse_mixed(campaigns)
    _refuse_same_runs(campaigns)
    baseline, current = campaigns[-2:]
    finding = of_campaign(*(each.campaign for each in campaigns))
    summaries = [each.summary() for each in (*earlier, *campaigns)]
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
        trend=trend((*earlier, *campaigns)),
        finding=finding,
    )
    return replace(comparison, conclusion=sentences.conclusion(comparison))


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
    in_words = partial(sentences.cell_in_words, finding=finding, cells=len(cells), unit=unit)
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
        p_least=_p_least(old.lossy, new.lossy),
        new_classes=[name for name in CLASSES if new.verdicts[name] and not old.verdicts[name]],
        vanished_classes=[
            name for name in CLASSES if old.verdicts[name] and not new.verdicts[name]
        ],
        flaky=[side for side, sample in (("old", old), ("new", new)) if _is_mixed(sample)],
    )


def _is_mixed(sample: Sample) -> bool:
    return sum(bool(sample.verdicts[name]) for name in (LOSS, NONE, WRONG)) > 1


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


def _p_least(old: Share, new: Share) -> float | None:
    """The p-value if no run of one campaign were lossy and every run of the other."""
    return exact_test(Share(0, old.whole), Share(new.whole, new.whole)).p

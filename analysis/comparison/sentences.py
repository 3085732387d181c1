"""What two campaigns prove, and what they do not, in sentences that the numbers support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from analysis.comparison.model import (
    DOUBTFUL,
    IMPROVEMENT,
    NOT_JUDGED,
    NOT_SHOWN,
    REGRESSION,
    CampaignComparison,
    ComparedCell,
    Side,
)
from analysis.statistics.contrasts import ALPHA, POWER
from analysis.wording import counted, do
from harness.percent import points
from harness.protocols import PrimaryFinding

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
        return f"{finding.does} more often: {shares} ({p}); {_interval(cell)}"
    if cell.status == IMPROVEMENT:
        return f"{finding.does} less often: {shares} ({p}); {_interval(cell)}"
    if cell.status == DOUBTFUL:
        more = "more" if cell.difference > 0 else "less"
        others = old.inconclusive + new.inconclusive
        against = _p(1.0 if cell.p_unknown_against is None else cell.p_unknown_against)
        return (
            f"doubtful whether it {finding.does} {more} often, since {counted(others, unit)} that "
            f"{do(others)} not count may explain the difference: {shares} ({p}; "
            f"{against} with those {unit}s counted against it)"
        )
    limits = f"{_interval(cell)}{_equivalent(cell, cells, unit)}{_more_runs(cell, cells, unit)}"
    return f"no difference shown: {shares} ({p}); {limits}"


def conclusion(comparison: CampaignComparison) -> list[str]:
    """The sentences at the top: what changed, what else changed, and what remains open."""
    cells, finding, unit = comparison.cells, comparison.finding, comparison.unit
    by_status: dict[str, list[str]] = {}
    for cell in cells:
        by_status.setdefault(cell.status, []).append(cell.name)
    found = list(_wrong_order(comparison))
    result = f"No cell is shown to {finding.can} more often than in the baseline"
    if worse := by_status.get(REGRESSION):
        result = f"{_of(worse, cells, finding)} more often than in the baseline: {_names(worse)}"
    found.append(result)
    if better := by_status.get(IMPROVEMENT):
        found.append(f"{_of(better, cells, finding)} less often: {_names(better)}")
    if doubtful := by_status.get(DOUBTFUL):
        found.append(
            f"{unit.capitalize()}s that do not count leave a change in doubt: {_names(doubtful)}"
        )
    if unjudged := by_status.get(NOT_JUDGED):
        found.append(
            f"Nothing is known of {_names(unjudged)}: one of the two has no conclusive {unit}"
        )
    found += _only_in_one(comparison)
    found += _new_classes(cells, finding, unit)
    found += _limits(by_status.get(NOT_SHOWN, []), cells, finding, unit)
    found.append(_causes(comparison))
    return [f"{sentence}." for sentence in found]


def _of(names: Sequence[str], cells: Cells, finding: PrimaryFinding) -> str:
    lose = finding.does if len(names) == 1 else finding.do
    return f"{len(names)} of {counted(len(cells), 'cell')} {lose}"


def _wrong_order(comparison: CampaignComparison) -> Iterable[str]:
    """A night's name sorts otherwise than its date: `night-10` before `night-9`."""
    baseline, current = comparison.campaigns[-2:]
    if baseline.started and current.started and baseline.started > current.started:
        yield (
            f"The baseline {baseline.id} began after {current.id}: if you mean the older one as "
            "the baseline, name it first"
        )


def _only_in_one(comparison: CampaignComparison) -> Iterable[str]:
    if gone := comparison.only_old:
        yield f"Only the baseline has {_names(gone)}: nothing to compare"
    if new := comparison.only_new:
        yield f"Only the current campaign has {_names(new)}: nothing to compare"


def _new_classes(cells: Cells, finding: PrimaryFinding, unit: str) -> Iterable[str]:
    """New verdict classes, which the test of shares does not cover."""
    units = f"{unit.capitalize()}s"
    classes = {
        "wrong": f"{units} that are invalid for another reason than {finding.noun} are new",
        "harness_failure": "Failures of the harness are new",
        "vacuous": f"{units} in which nothing was put to the test are new",
    }
    for name, sentence in classes.items():
        if names := [cell.name for cell in cells if name in cell.new_classes]:
            yield f"{sentence}: {_names(names)}"


def _limits(
    names: Sequence[str], cells: Cells, finding: PrimaryFinding, unit: str
) -> Iterable[str]:
    """A difference that is not shown may still exist: how large it can be."""
    unshown = [cell for cell in cells if cell.name in names]
    few = [cell.name for cell in unshown if _too_few(cell)]
    if few:
        yield (
            f"Too few {unit}s are conclusive in {_names(few)}: no difference could be significant, "
            f"not even between no {finding.adjective} {unit} and only {finding.adjective} {unit}s"
        )
    rises = [
        cell.shown_high for cell in unshown if cell.name not in few and cell.shown_high is not None
    ]
    if rises:
        yield (
            "A difference that is not shown may still exist: in cells with enough conclusive "
            f"{unit}s, the share of {finding.adjective} {unit}s may have risen by up to "
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
    counted = f"{side.lossy} of {side.conclusive} {finding.adjective}"
    if not side.inconclusive:
        return counted
    lossy = (
        f", {side.inconclusive_lossy} of them {finding.adjective}"
        if side.inconclusive_lossy
        else ""
    )
    return f"{counted} and {side.inconclusive} that {do(side.inconclusive)} not count{lossy}"


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.0001 else "p < 0.0001"


def _corrected_for(cells: int) -> str:
    return f", corrected for {cells} cells" if cells > 1 else ""


def _names(names: Iterable[str]) -> str:
    return "; ".join(names)

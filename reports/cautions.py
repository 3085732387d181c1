"""What weakens the conclusions of a campaign, a sentence each.

Too few runs, runs that do not count and what was found in them, failures of the harness, cells
without a conclusive run, doubtful differences, similar runs of one cluster, an unfinished campaign,
cells whose runs differ in their versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from analysis.campaign import CampaignCell, CampaignDocument
from analysis.statistics.clusters import Resemblance
from analysis.statistics.comparisons import Comparison
from analysis.statistics.contrasts import ALPHA
from analysis.statistics.samples import HARNESS_FAILURE, VACUOUS
from analysis.wording import counted, do, has, is_, them
from harness.protocols import PrimaryFinding
from reports.formatting import number

FEW_RUNS: Final = 20
"""With fewer conclusive runs, no loss in any of them still allows more than 16.8 % lossy runs."""
MANY: Final = 0.05
"""Runs that do not count deserve a caution beyond this share of a cell's runs."""

Cells = Sequence[CampaignCell]


def has_many_others(cell: CampaignCell) -> bool:
    """Whether so many runs do not count that the page must report the best and the worst case."""
    return cell.inconclusive > MANY * cell.runs


def differs(comparison: Comparison) -> bool:
    """Whether two cells differ in their share of lossy runs, beyond chance and beyond doubt."""
    return comparison.is_significant and not comparison.doubtful


def cautions(document: CampaignDocument) -> Iterator[str]:
    """The sentences."""
    cells = [cell for cell in document.cells if not cell.impossible]
    begun, unit = [cell for cell in cells if cell.conclusive], document.unit
    if document.runs < document.planned:
        yield (
            f"{number(document.runs)} of {number(document.planned)} planned {unit}s are finished: "
            "these numbers may still change."
        )
    if document.repetitions_raised:
        yield (
            f"The repetitions were raised to {number(document.repetitions_raised)} after results "
            "were seen: p-values do not allow for that, and are somewhat too small."
        )
    if document.runs and (silent := len(cells) - len(begun)):
        of = counted(silent, "cell")
        yield f"{of} {has(silent)} no conclusive {unit}: nothing is known of {them(silent)}."
    if few := [cell for cell in begun if cell.conclusive < FEW_RUNS]:
        yield (
            f"{counted(len(few), 'cell')} of {len(cells)} {has(len(few))} fewer than {FEW_RUNS} "
            f"conclusive {unit}s: too few to call a cell safe, or two cells equal."
        )
    yield from _others(cells, document.finding, unit)
    yield from _spared(cells)
    yield from _doubtful(document.comparisons, unit)
    yield from _similar(document.resemblance, document.finding)
    for name, versions in document.mixed_versions.items():
        yield f"Runs of one cell differ in their version of {name}: {', '.join(versions)}."


def _others(cells: Cells, finding: PrimaryFinding, unit: str) -> Iterator[str]:
    """Runs that do not count: the lossy ones, their number, and the reasons."""
    runs = sum(cell.runs for cell in cells)
    others = sum(cell.inconclusive for cell in cells)
    if lossy := sum(cell.inconclusive_lossy for cell in cells):
        yield (
            f"{number(lossy)} of the {number(others)} {unit}s that do not count {finding.some}: "
            f"they are in no share, and are {finding.adjective} in the best and the worst case."
        )
    if chosen := sum(cell.lossy_share.chosen_by_outcome for cell in cells):
        yield (
            f"In {counted(chosen, 'cell')} a larger share of the {unit}s that do not count "
            f"{finding.some} than of those that do, so {finding.noun} and whether a {unit} counts "
            f"go together: the bounds over all {unit}s stand there instead of the interval."
        )
    if many := [cell for cell in cells if has_many_others(cell)]:
        yield (
            f"{number(others)} of {number(runs)} {unit}s {do(others)} not count, more than "
            f"{MANY * 100:.0f} % of the {unit}s of {counted(len(many), 'cell')}: if "
            f"{finding.noun} affects whether a {unit} counts, the true share lies between the best "
            "and the worst case."
        )
    for name, one, many_, meaning in (
        (VACUOUS, "is vacuous", "are vacuous", "nothing was put to the test in them"),
        (HARNESS_FAILURE, "failed", "failed", "the harness failed, not the cluster"),
    ):
        here = [cell for cell in cells if cell.verdicts[name] > MANY * cell.runs]
        if here:
            count = sum(cell.verdicts[name] for cell in cells)
            yield (
                f"{number(count)} of {number(runs)} {unit}s {one if count == 1 else many_}, more "
                f"than {MANY * 100:.0f} % of those of {counted(len(here), 'cell')}: {meaning}."
            )


def _spared(cells: Cells) -> Iterator[str]:
    """Results whose leaders no fault, or none of a family of faults, met."""
    if spared := sum(cell.leader_not_met for cell in cells):
        where = counted(sum(cell.leader_not_met > 0 for cell in cells), "cell")
        yield (
            f"In {counted(spared, 'result')} of {where} no fault, or none of a family, met a "
            "leader: they count, and show only how the cell bears such faults of other nodes."
        )


def _doubtful(comparisons: Iterable[Comparison], unit: str) -> Iterator[str]:
    if doubted := sum(each.doubtful for each in comparisons):
        yield (
            f"{counted(doubted, 'difference')} between cells {is_(doubted)} doubtful: "
            f"significant, but {unit}s that do not count may explain {them(doubted)}."
        )


def _similar(
    resemblance: Mapping[str, Mapping[str, Resemblance]], finding: PrimaryFinding
) -> Iterator[str]:
    """Groups of runs that are more similar than chance explains, and the consequence."""
    for group, numbers in resemblance.items():
        for name, each in numbers.items():
            if each.p is not None and each.p <= ALPHA:
                what = {
                    "lossy": f"whether they {finding.do}",
                    "loss_rate": "how much they lose",
                }[name]
                # Cells of unequal variance bias the estimate, even below 0; they leave p alone.
                size = each.correlation
                known = size is not None and size > 0
                correlation = f"intraclass correlation {size:.2f}, " if known else ""
                yield (
                    f"Runs of one {group} are similar in {what} ({correlation}"
                    f"p = {each.p:.2g}, {each.groups} {group}s): intervals "
                    "assume independent runs, and are therefore too narrow."
                )

"""What follows from a campaign: one headline, three sentences, and cautions.

The rules that keep each sentence within its numbers:

1. Where was loss? Counts of cells and runs. The share of a cell comes with its own exact interval;
   shares of different cells are never pooled. A choice that all lossy cells have in common is named
   only if cells with another choice have conclusive runs, and none of those lost writes.
2. Where was none? "No loss was found" always comes with the share of lossy runs that is still
   possible. If many runs do not count, they are assumed to be lossy.
3. What did clients pay? Medians of runs, as ranges over cells with and without loss; no cause.

Loss stands for the primary finding of the campaign's checks, in whose words the sentences are. They
cover conclusive runs; the cautions (`reports.cautions`) report the others, and all that weakens a
sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from analysis.campaign import CampaignCell, CampaignDocument
from analysis.statistics.samples import WRONG
from analysis.statistics.shares import Estimate
from harness.protocols import PrimaryFinding
from reports.cautions import cautions, differs, has_many_others
from reports.formatting import number, share
from reports.wording import counted, do, is_, plural

_SAME: Final = 1.5
"""Bounds that differ by less than this factor are reported as one."""

Cells = Sequence[CampaignCell]


@dataclass(frozen=True)
class Conclusions:
    """The headline, the three sentences, and the cautions."""

    headline: str
    sentences: tuple[str, str, str]
    cautions: tuple[str, ...]


def conclusions(document: CampaignDocument) -> Conclusions:
    """What the document of a campaign supports."""
    cells = document.cells
    lossy = [cell for cell in cells if cell.conclusive_lossy]
    seen = [cell for cell in cells if cell.inconclusive_lossy and not cell.conclusive_lossy]
    rest = [cell for cell in cells if cell.conclusive and not cell.conclusive_lossy]
    clean = [cell for cell in rest if not cell.inconclusive_lossy]
    finding = document.finding
    return Conclusions(
        _headline(lossy, rest, finding) + _lost_in_others(lossy, seen, finding),
        (
            _where_lost(lossy, rest, _in_common([*lossy, *seen], clean), finding),
            _where_not([*lossy, *seen], clean, finding),
            _what_was_paid(lossy, clean, document),
        ),
        tuple(cautions(document)),
    )


def interval(estimate: Estimate) -> str:
    """The interval of a share as text, or the reason why there is none."""
    if estimate.low is None:
        return str(estimate.why)
    return f"{share(estimate.low)} to {share(estimate.high)}"


def _runs(cells: Iterable[CampaignCell]) -> int:
    return sum(cell.conclusive for cell in cells)


def _headline(lossy: Cells, clean: Cells, finding: PrimaryFinding) -> str:
    runs = _runs([*lossy, *clean])
    if not runs:
        return "No run is conclusive"
    if not lossy:
        return f"{finding.none} in {counted(runs, 'conclusive run')}"
    if len(lossy) + len(clean) == 1:
        number_of_runs = lossy[0].conclusive_lossy
        return f"{finding.found} in {number_of_runs} of {counted(runs, 'conclusive run')}"
    return f"{finding.found} in {len(lossy)} of {len(lossy) + len(clean)} cells"


def _lost_in_others(lossy: Cells, seen: Cells, finding: PrimaryFinding) -> str:
    """Cells in which only runs that do not count are lossy."""
    if not seen:
        return ""
    if lossy:
        return f", and in {len(seen)} more in runs that do not count"
    runs = sum(cell.inconclusive_lossy for cell in seen)
    return f"; {counted(runs, 'run')} that {do(runs)} not count {finding.some}"


def _where_lost(lossy: Cells, clean: Cells, in_common: str, finding: PrimaryFinding) -> str:
    cells, runs = len(lossy) + len(clean), _runs([*lossy, *clean])
    if not runs:
        return f"Nothing is known about {finding.noun}: no run is conclusive."
    if not lossy:
        of = f"{counted(runs, 'conclusive run')} in {counted(cells, 'cell')}"
        others = any(cell.inconclusive_lossy for cell in clean)
        none = f"No run that counts {finding.some}" if others else f"No {_bare(finding)} was found"
        return f"{none}: 0 of {of} {finding.one}."
    most = max(lossy, key=lambda cell: (_share(cell), cell.conclusive))
    of = counted(most.conclusive, "conclusive run")
    runs_of_most = f"{most.conclusive_lossy} of {of} ({_certainty(most)})"
    if cells == 1:
        return f"{finding.found} in {runs_of_most}."
    where = f"{finding.found} in {len(lossy)} of {cells} cells"
    if len(lossy) == 1:
        return f"{where}: {most.name}, in {runs_of_most}."
    equal = sum(_share(cell) == _share(most) for cell in lossy) - 1
    also = f" (also in {counted(equal, 'other cell')})" if equal else ""
    return f"{where}{in_common}; the highest share is {runs_of_most}, in {most.name}{also}."


def _bare(finding: PrimaryFinding) -> str:
    """Its noun without an article."""
    return finding.noun.removeprefix("a ")


def _share(cell: CampaignCell) -> float:
    return cell.lossy_share.estimate or 0.0


def _certainty(cell: CampaignCell) -> str:
    """The interval of a cell's share; if many runs do not count, from best to worst case."""
    lossy = cell.lossy_share
    if has_many_others(cell):
        low, high = share(lossy.best_case.low), share(lossy.worst_case.high)
        return f"95 % interval from best to worst case of all runs: {low} to {high}"
    return f"95 % interval: {interval(lossy)}"


def _in_common(lossy: Cells, clean: Cells) -> str:
    """The choices that all lossy cells share, if cells with another choice lost nothing."""
    if not lossy:
        return ""
    shared = [
        f"{axis}={label}"
        for axis, label in lossy[0].key.items()
        if all(cell.key[axis] == label for cell in lossy)
        and any(cell.key[axis] != label for cell in clean)
    ]
    if not shared:
        return ""
    return f", all of them with {' and '.join(shared)}"


def _where_not(lossy: Cells, clean: Cells, finding: PrimaryFinding) -> str:
    if not clean:
        return (
            f"No cell was without {finding.noun}."
            if lossy
            else "Nothing is known about safety either."
        )
    runs, allowed = sorted(cell.conclusive for cell in clean), sorted(map(_allowed, clean))
    of = f"{number(runs[0])} to {number(runs[-1])}" if runs[0] < runs[-1] else number(runs[0])
    runs_each = f"{of} conclusive {plural('run', runs[-1])}"
    where = f"{clean[0].name}, {runs_each}"
    if len(clean) > 1:
        where = f"{len(clean)} cells of {runs_each} each"
    up_to = f"up to {share(allowed[-1])} of runs"
    if allowed[-1] > _SAME * allowed[0]:
        up_to = (
            f"up to {share(allowed[0])} of runs in the cell with the most evidence, and up to "
            f"{share(allowed[-1])} in the one with the least,"
        )
    assumed = (
        f", with all other runs counted as {finding.adjective}"
        if any(map(has_many_others, clean))
        else ""
    )
    wrong = sum(cell.verdicts[WRONG] for cell in clean)
    but = (
        f"; {counted(wrong, 'run')} there {is_(wrong)} invalid for another reason" if wrong else ""
    )
    nothing = f"Nothing was {finding.head} in {where}"
    return f"{nothing}; {up_to} may still {finding.can} (95 %){assumed}{but}."


def _allowed(cell: CampaignCell) -> float:
    lossy = cell.lossy_share
    return (lossy.worst_case if has_many_others(cell) else lossy).high or 0.0


def _what_was_paid(lossy: Cells, clean: Cells, document: CampaignDocument) -> str:
    groups = [("without", clean), ("with", lossy)]
    known = [(name, cells) for name, cells in groups if _range(_gaps_s(cells))]
    if not known:
        return "No run recorded how long clients waited, or how many writes failed."
    (name, first), *others = known
    gap, failed = _range(_gaps_s(first)), _range(_failed(first))
    noun = document.finding.noun
    where = f"In cells {name} {noun} the" if len(document.cells) > 1 else "The"
    sentence = f"{where} median run went {gap} s without an acknowledgement"
    sentence += f" and had {failed} failed writes" if failed else ""
    for name, cells in others:
        sentence += f"; in cells {name} {noun}, {_range(_gaps_s(cells))} s"
        sentence += f" and {_range(_failed(cells))}" if failed else ""
    return f"{sentence}{_pairs(document)}."


def _gaps_s(cells: Cells) -> list[float | None]:
    return [cell.longest_gap_s.median for cell in cells]


def _failed(cells: Cells) -> list[float | None]:
    return [cell.refused.median for cell in cells]


def _pairs(document: CampaignDocument) -> str:
    """Among pairs that differ in one axis and in loss, those in which the safer cell waited
    longer."""
    gap_s = {tuple(cell.key.items()): cell.longest_gap_s.median for cell in document.cells}
    longer = []
    for pair in filter(differs, document.comparisons):
        a, b = gap_s[tuple(pair.a.items())], gap_s[tuple(pair.b.items())]
        if a is not None and b is not None and pair.difference is not None:
            longer.append(a > b if pair.difference > 0 else b > a)
    if not longer:
        return ""
    if len(longer) == 1:
        waited = "longer" if longer[0] else "no longer"
        return f"; in the one pair with a significant difference, the safer cell waited {waited}"
    return (
        f"; in {sum(longer)} of {len(longer)} pairs of cells that differ in one axis, and "
        f"significantly in {document.finding.noun}, the safer cell waited longer"
    )


def _range(medians: Iterable[float | None]) -> str:
    known = [median for median in medians if median is not None]
    if not known:
        return ""
    low, high = _short(min(known)), _short(max(known))
    return f"{low} to {high}" if low != high else low


def _short(value: float) -> str:
    return number(float(f"{value:.2g}")) if value < 100 else f"{value:,.0f}"

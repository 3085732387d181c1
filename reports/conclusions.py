"""What follows from a campaign: one headline, three sentences, and cautions.

The rules that keep each sentence within its numbers:

1. Where was loss? Counts of cells and runs. The share of a cell comes with its own exact interval;
   shares of different cells are never pooled. A choice that all lossy cells have in common is named
   only if cells with another choice have conclusive runs, and none of those lost writes.
2. Where was none? "Nothing was lost" always comes with the share of lossy runs that is still
   possible. If many runs do not count, they are assumed to be lossy.
3. What did clients pay? Medians of runs, as ranges over cells with and without loss; no cause.

The sentences cover conclusive runs; the cautions report the others. Everything that weakens a
sentence is a caution: too few runs, runs that do not count and their losses, failures of the
harness, cells without a conclusive run, doubtful differences, similar runs of one cluster, an
unfinished campaign, differing versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from analysis.campaign import CampaignCell, CampaignDocument
from analysis.statistics.clusters import Resemblance
from analysis.statistics.comparisons import Comparison
from analysis.statistics.contrasts import ALPHA
from analysis.statistics.samples import HARNESS_FAILURE, VACUOUS, WRONG
from analysis.statistics.shares import Estimate
from reports.formatting import number, share

FEW_RUNS: Final = 20
"""With fewer conclusive runs, no loss in any of them still allows more than 16.8 % lossy runs."""
_SAME: Final = 1.5
"""Bounds that differ by less than this factor are reported as one."""
MANY: Final = 0.05
"""Runs that do not count deserve a caution beyond this share of a cell's runs."""

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
    return Conclusions(
        _headline(lossy, rest) + _lost_in_others(lossy, seen),
        (
            _where_lost(lossy, rest, _in_common([*lossy, *seen], clean)),
            _where_not([*lossy, *seen], clean),
            _what_was_paid(lossy, clean, document),
        ),
        tuple(_cautions(document)),
    )


def has_many_others(cell: CampaignCell) -> bool:
    """Whether so many runs do not count that the page must report the best and the worst case."""
    return cell.inconclusive > MANY * cell.runs


def interval(estimate: Estimate) -> str:
    """The interval of a share as text, or the reason why there is none."""
    if estimate.low is None:
        return str(estimate.why)
    return f"{share(estimate.low)} to {share(estimate.high)}"


def differs(comparison: Comparison) -> bool:
    """Whether two cells differ in their share of lossy runs, beyond chance and beyond doubt."""
    return comparison.is_significant and not comparison.doubtful


def _runs(cells: Iterable[CampaignCell]) -> int:
    return sum(cell.conclusive for cell in cells)


def _headline(lossy: Cells, clean: Cells) -> str:
    runs = _runs([*lossy, *clean])
    if not runs:
        return "No run is conclusive"
    if not lossy:
        return f"No acknowledged write was lost in {_counted(runs, 'conclusive run')}"
    if len(lossy) + len(clean) == 1:
        lost = lossy[0].conclusive_lossy
        return f"Acknowledged writes were lost in {lost} of {_counted(runs, 'conclusive run')}"
    return f"Acknowledged writes were lost in {len(lossy)} of {len(lossy) + len(clean)} cells"


def _lost_in_others(lossy: Cells, seen: Cells) -> str:
    """Cells in which only runs that do not count lost writes."""
    if not seen:
        return ""
    if lossy:
        return f", and in {len(seen)} more in runs that do not count"
    runs = sum(cell.inconclusive_lossy for cell in seen)
    return f"; {_counted(runs, 'run')} that {_do(runs)} not count lost writes"


def _where_lost(lossy: Cells, clean: Cells, in_common: str) -> str:
    cells, runs = len(lossy) + len(clean), _runs([*lossy, *clean])
    if not runs:
        return "Nothing is known about loss: no run is conclusive."
    if not lossy:
        of = f"{_counted(runs, 'conclusive run')} in {_counted(cells, 'cell')}"
        others = any(cell.inconclusive_lossy for cell in clean)
        none = "No run that counts lost writes" if others else "No loss was found"
        return f"{none}: 0 of {of} lost an acknowledged write."
    most = max(lossy, key=lambda cell: (_share(cell), cell.conclusive))
    of = _counted(most.conclusive, "conclusive run")
    runs_of_most = f"{most.conclusive_lossy} of {of} ({_certainty(most)})"
    if cells == 1:
        return f"Acknowledged writes were lost in {runs_of_most}."
    where = f"Acknowledged writes were lost in {len(lossy)} of {cells} cells"
    if len(lossy) == 1:
        return f"{where}: {most.name}, in {runs_of_most}."
    equal = sum(_share(cell) == _share(most) for cell in lossy) - 1
    also = f" (also in {_counted(equal, 'other cell')})" if equal else ""
    return f"{where}{in_common}; the highest share is {runs_of_most}, in {most.name}{also}."


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


def _where_not(lossy: Cells, clean: Cells) -> str:
    if not clean:
        return "No cell was without loss." if lossy else "Nothing is known about safety either."
    runs, allowed = sorted(cell.conclusive for cell in clean), sorted(map(_allowed, clean))
    of = f"{number(runs[0])} to {number(runs[-1])}" if runs[0] < runs[-1] else number(runs[0])
    counted = f"{of} conclusive {_plural('run', runs[-1])}"
    where = f"{clean[0].name}, {counted}"
    if len(clean) > 1:
        where = f"{len(clean)} cells of {counted} each"
    up_to = f"up to {share(allowed[-1])} of runs"
    if allowed[-1] > _SAME * allowed[0]:
        up_to = (
            f"up to {share(allowed[0])} of runs in the cell with the most evidence, and up to "
            f"{share(allowed[-1])} in the one with the least,"
        )
    assumed = ", with all other runs counted as lossy" if any(map(has_many_others, clean)) else ""
    wrong = sum(cell.verdicts[WRONG] for cell in clean)
    but = (
        f"; {_counted(wrong, 'run')} there {_is(wrong)} invalid for another reason" if wrong else ""
    )
    return f"Nothing was lost in {where}; {up_to} may still lose writes (95 %){assumed}{but}."


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
    where = f"In cells {name} loss the" if len(document.cells) > 1 else "The"
    sentence = f"{where} median run went {gap} s without an acknowledgement"
    sentence += f" and had {failed} failed writes" if failed else ""
    for name, cells in others:
        sentence += f"; in cells {name} loss, {_range(_gaps_s(cells))} s"
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
        "significantly in loss, the safer cell waited longer"
    )


def _range(medians: Iterable[float | None]) -> str:
    known = [median for median in medians if median is not None]
    if not known:
        return ""
    low, high = _short(min(known)), _short(max(known))
    return f"{low} to {high}" if low != high else low


def _short(value: float) -> str:
    return number(float(f"{value:.2g}")) if value < 100 else f"{value:,.0f}"


def _cautions(document: CampaignDocument) -> Iterator[str]:
    cells = [cell for cell in document.cells if not cell.impossible]
    begun = [cell for cell in cells if cell.conclusive]
    if document.runs < document.planned:
        yield (
            f"{number(document.runs)} of {number(document.planned)} planned runs are finished: "
            "these results may still change."
        )
    if document.runs and (silent := len(cells) - len(begun)):
        of = _counted(silent, "cell")
        yield f"{of} {_has(silent)} no conclusive run: nothing is known of {_them(silent)}."
    if few := [cell for cell in begun if cell.conclusive < FEW_RUNS]:
        yield (
            f"{_counted(len(few), 'cell')} of {len(cells)} {_has(len(few))} fewer than {FEW_RUNS} "
            "conclusive runs: too few to call a cell safe, or two cells equal."
        )
    yield from _others(cells)
    yield from _doubtful(document.comparisons)
    yield from _similar(document.resemblance)
    for name, versions in document.versions.items():
        if len(versions) > 1:
            yield f"Runs differ in their version of {name}: {', '.join(versions)}."


def _others(cells: Cells) -> Iterator[str]:
    """Runs that do not count: their losses, their number, and the reasons."""
    runs = sum(cell.runs for cell in cells)
    others = sum(cell.inconclusive for cell in cells)
    if lossy := sum(cell.inconclusive_lossy for cell in cells):
        yield (
            f"{number(lossy)} of the {number(others)} runs that do not count lost writes: they are "
            "in no share, and are lossy in both the best and the worst case."
        )
    if many := [cell for cell in cells if has_many_others(cell)]:
        yield (
            f"{number(others)} of {number(runs)} runs {_do(others)} not count, more than "
            f"{MANY * 100:.0f} % of the runs of {_counted(len(many), 'cell')}: if losses affect "
            "whether a run counts, the true share lies between the best and the worst case."
        )
    for name, one, many_, meaning in (
        (VACUOUS, "is vacuous", "are vacuous", "nothing was put to the test in them"),
        (HARNESS_FAILURE, "failed", "failed", "the harness failed, not the cluster"),
    ):
        here = [cell for cell in cells if cell.verdicts[name] > MANY * cell.runs]
        if here:
            count = sum(cell.verdicts[name] for cell in cells)
            yield (
                f"{number(count)} of {number(runs)} runs {one if count == 1 else many_}, more than "
                f"{MANY * 100:.0f} % of the runs of {_counted(len(here), 'cell')}: {meaning}."
            )


def _doubtful(comparisons: Iterable[Comparison]) -> Iterator[str]:
    if doubted := sum(each.doubtful for each in comparisons):
        yield (
            f"{_counted(doubted, 'difference')} between cells {_is(doubted)} doubtful: "
            f"significant, but runs that do not count may explain {_them(doubted)}."
        )


def _similar(resemblance: Mapping[str, Mapping[str, Resemblance]]) -> Iterator[str]:
    """Groups of runs that are more similar than chance explains, and the consequence."""
    for group, numbers in resemblance.items():
        for name, each in numbers.items():
            if each.p is not None and each.p <= ALPHA:
                what = {"lossy": "whether they lose", "loss_rate": "how much they lose"}[name]
                yield (
                    f"Runs of one {group} are similar in {what} (intraclass correlation "
                    f"{each.correlation:.2f}, p = {each.p:.2g}, {each.groups} {group}s): intervals "
                    "assume independent runs, and are therefore too narrow."
                )


def _counted(count: int, noun: str) -> str:
    return f"{number(count)} {_plural(noun, count)}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _do(count: int) -> str:
    return "does" if count == 1 else "do"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"

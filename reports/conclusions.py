"""What follows from a campaign: one headline, three sentences, and cautions.

The rules that keep each sentence within its numbers:

1. Where was loss? Counts of cells and runs. The share of a cell comes with its own exact interval;
   shares of different cells are never pooled. A choice that all lossy cells have in common is named
   only if cells with another choice have conclusive runs, and none of those lost writes.
2. Where was none? "No loss was found" always comes with the share of lossy runs that is still
   possible. If many runs do not count, they are assumed to be lossy.
3. What did clients pay? Medians of runs, as ranges over cells with and without loss; no cause.

The closing sentence is about the two cells, of those that differ in one axis alone, whose shares
differ most: whether that is decided, with the corrected p-value; else how many runs of each would
do, with 80 % power at the observed shares and at the level that the correction leaves to it.

Loss stands for the primary finding of the campaign's checks, in whose words the sentences are. They
cover conclusive runs; the cautions report the others, and all that weakens
a sentence.

What weakens the conclusions of a campaign, a sentence each.

Too few runs, runs that do not count and what was found in them, failures of the harness, cells
without a conclusive run, doubtful differences, similar runs of one cluster, an unfinished campaign,
cells whose runs differ in their versions.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from analysis.campaign import CampaignCell, CampaignDocument
from analysis.statistics.cells import HARNESS_FAILURE, VACUOUS, WRONG
from analysis.statistics.comparisons import Comparison
from analysis.statistics.contrasts import ALPHA, Resemblance, pairs_needed, runs_needed
from analysis.statistics.intervals import Estimate
from analysis.wording import about, capitalised, counted, do, has, is_, plural, them
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress
from harness.campaigns.plan import Campaign
from harness.campaigns.scheduler import if_shared, left_s
from harness.protocols import PrimaryFinding
from reports.formatting import number, p_value, share

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
        seen = sum(cell.inconclusive_lossy > 0 and not cell.conclusive for cell in cells)
        known = f": no share is known of {them(silent)}"
        if seen:
            known += f", and {document.finding.noun} were seen in {seen:,}"
        yield f"{counted(silent, 'cell')} {has(silent)} no conclusive {unit}{known}."
    if few := [cell for cell in begun if cell.conclusive < FEW_RUNS]:
        yield (
            f"{counted(len(few), 'cell')} of {len(cells)} {has(len(few))} fewer than {FEW_RUNS} "
            f"conclusive {unit}s: too few to call a cell safe, or two cells equal."
        )
    yield from _others(cells, document.finding, unit)
    if spared := sum(cell.leader_not_met for cell in cells):
        where = counted(sum(cell.leader_not_met > 0 for cell in cells), "cell")
        yield (
            f"In {counted(spared, 'result')} of {where} no fault, or none of a family, met a "
            "leader: they count, and show only how the cell bears such faults of other nodes."
        )
    if doubted := sum(each.doubtful for each in document.comparisons):
        yield (
            f"{counted(doubted, 'difference')} between cells {is_(doubted)} doubtful: "
            f"significant, but {unit}s that do not count may explain {them(doubted)}."
        )
    yield from _similar(document.resemblance, document.finding)
    for name, versions in document.mixed_versions.items():
        yield f"Runs of one cell differ in their version of {name}: {', '.join(versions)}."


def _others(cells: Cells, finding: PrimaryFinding, unit: str) -> Iterator[str]:
    """Runs that do not count: the lossy ones, their number, and the reasons."""
    runs = sum(cell.runs for cell in cells)
    others = sum(cell.inconclusive for cell in cells)
    if lossy := sum(cell.inconclusive_lossy for cell in cells):
        yield (
            f"{number(lossy)} of the {number(others)} {unit}s that do not count have "
            f"{finding.noun}: they are in no share, but in the best and in the worst case."
        )
    if chosen := sum(cell.lossy_share.chosen_by_outcome for cell in cells):
        yield (
            f"In {counted(chosen, 'cell')} {finding.noun} are more frequent in the {unit}s that do "
            f"not count than in those that do, so they and whether a {unit} counts go together: "
            f"the bounds over all {unit}s stand there instead of the interval."
        )
    if many := [cell for cell in cells if has_many_others(cell)]:
        yield (
            f"{number(others)} of {number(runs)} {unit}s {do(others)} not count, more than "
            f"{MANY * 100:.0f} % of the {unit}s of {counted(len(many), 'cell')}: if "
            f"{finding.noun} affect whether a {unit} counts, the true share lies between the best "
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


def _similar(
    resemblance: Mapping[str, Mapping[str, Resemblance]], finding: PrimaryFinding
) -> Iterator[str]:
    """Groups of runs that are more similar than chance explains, and the consequence."""
    for group, numbers in resemblance.items():
        for name, each in numbers.items():
            if each.p is not None and each.p <= ALPHA:
                lossy = f"whether they have {finding.noun}"
                what = lossy if name == "lossy" else "how much they lose"
                # Cells of unequal variance bias the estimate, even below 0; they leave p alone.
                size = each.correlation
                known = size is not None and size > 0
                correlation = f"intraclass correlation {size:.2f}, " if known else ""
                yield (
                    f"Runs of one {group} are similar in {what} ({correlation}"
                    f"p = {each.p:.2g}, {each.groups} {group}s): intervals "
                    "assume independent runs, and are therefore too narrow."
                )


_SAME: Final = 1.5
"""Bounds that differ by less than this factor are reported as one."""


@dataclass(frozen=True)
class Conclusions:
    """The headline, the three sentences, and the cautions."""

    headline: str
    sentences: tuple[str, str, str]
    cautions: tuple[str, ...]


def conclusions(document: CampaignDocument) -> Conclusions:
    """What the document of a campaign supports."""
    cells, finding, unit = document.cells, document.finding, document.unit
    lossy = [cell for cell in cells if cell.conclusive_lossy]
    seen = [cell for cell in cells if cell.inconclusive_lossy and not cell.conclusive_lossy]
    rest = [cell for cell in cells if cell.conclusive and not cell.conclusive_lossy]
    clean = [cell for cell in rest if not cell.inconclusive_lossy]
    return Conclusions(
        _headline(lossy, rest, finding, unit) + _lost_in_others(lossy, seen, finding, unit),
        (
            _where_lost(lossy, rest, _in_common([*lossy, *seen], clean), finding, unit),
            _where_not([*lossy, *seen], clean, finding, unit),
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


def _headline(lossy: Cells, clean: Cells, finding: PrimaryFinding, unit: str) -> str:
    runs = _runs([*lossy, *clean])
    if not runs:
        return f"No {unit} is conclusive"
    if not lossy:
        return f"No {finding.noun} in {counted(runs, f'conclusive {unit}')}"
    if len(lossy) + len(clean) == 1:
        of = counted(runs, f"conclusive {unit}")
        return f"{capitalised(finding.noun)} in {lossy[0].conclusive_lossy} of {of}"
    return f"{capitalised(finding.noun)} in {len(lossy)} of {len(lossy) + len(clean)} cells"


def _lost_in_others(lossy: Cells, seen: Cells, finding: PrimaryFinding, unit: str) -> str:
    """Cells in which only runs that do not count are lossy."""
    if not seen:
        return ""
    if lossy:
        return f", and in {len(seen)} more in {unit}s that do not count"
    runs = sum(cell.inconclusive_lossy for cell in seen)
    return f"; {counted(runs, unit)} that {do(runs)} not count {has(runs)} {finding.noun}"


def _where_lost(
    lossy: Cells, clean: Cells, in_common: str, finding: PrimaryFinding, unit: str
) -> str:
    cells, runs = len(lossy) + len(clean), _runs([*lossy, *clean])
    if not runs:
        return f"Nothing is known about {finding.noun}: no {unit} is conclusive."
    if not lossy:
        of = f"{counted(runs, f'conclusive {unit}')} in {counted(cells, 'cell')}"
        return f"No {unit} that counts has {finding.noun}: 0 of {of}."
    most = max(lossy, key=lambda cell: (_share(cell), cell.conclusive))
    of = counted(most.conclusive, f"conclusive {unit}")
    runs_of_most = f"{most.conclusive_lossy} of {of} ({_certainty(most, unit)})"
    if cells == 1:
        return f"{capitalised(finding.noun)} in {runs_of_most}."
    where = f"{capitalised(finding.noun)} in {len(lossy)} of {cells} cells"
    if len(lossy) == 1:
        return f"{where}: {most.name}, in {runs_of_most}."
    equal = sum(_share(cell) == _share(most) for cell in lossy) - 1
    also = f" (also in {counted(equal, 'other cell')})" if equal else ""
    return f"{where}{in_common}; the highest share is {runs_of_most}, in {most.name}{also}."


def _share(cell: CampaignCell) -> float:
    return cell.lossy_share.shown or 0.0


def _certainty(cell: CampaignCell, unit: str) -> str:
    """The interval of a cell's share; from best to worst case where `_has_bounds`."""
    lossy = cell.lossy_share
    if _has_bounds(cell):
        low, high = share(lossy.best_case.low), share(lossy.worst_case.high)
        return f"95 % interval from best to worst case of all {unit}s: {low} to {high}"
    return f"95 % interval: {interval(lossy)}"


def _has_bounds(cell: CampaignCell) -> bool:
    return has_many_others(cell) or cell.lossy_share.chosen_by_outcome


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
    return f", all of them with {' and '.join(shared)}" if shared else ""


def _where_not(lossy: Cells, clean: Cells, finding: PrimaryFinding, unit: str) -> str:
    if not clean and not lossy:
        return "Nothing is known about safety either."
    if not clean:
        return f"No cell was without {finding.noun}."
    runs, allowed = sorted(cell.conclusive for cell in clean), sorted(map(_allowed, clean))
    of = f"{number(runs[0])} to {number(runs[-1])}" if runs[0] < runs[-1] else number(runs[0])
    runs_each = f"{of} conclusive {plural(unit, runs[-1])}"
    where = f"{clean[0].name}, {runs_each}"
    if len(clean) > 1:
        where = f"{len(clean)} cells of {runs_each} each"
    up_to = f"up to {share(allowed[-1])} of {unit}s"
    if allowed[-1] > _SAME * allowed[0]:
        up_to = (
            f"up to {share(allowed[0])} of {unit}s in the cell with the most evidence, and up to "
            f"{share(allowed[-1])} in the one with the least,"
        )
    assumed = ""
    if any(map(_has_bounds, clean)):
        assumed = f", with all other {unit}s counted as having {finding.noun}"
    wrong = sum(cell.verdicts[WRONG] for cell in clean)
    but = f"; {counted(wrong, unit)} there {is_(wrong)} invalid for another reason" if wrong else ""
    return f"No {finding.noun} in {where}; {up_to} may still have them (95 %){assumed}{but}."


def _allowed(cell: CampaignCell) -> float:
    lossy = cell.lossy_share
    return (lossy.worst_case if _has_bounds(cell) else lossy).high or 0.0


def _what_was_paid(lossy: Cells, clean: Cells, document: CampaignDocument) -> str:
    groups = [("without", clean), ("with", lossy)]
    known = [(name, cells) for name, cells in groups if _range(_gaps_s(cells))]
    if not known:
        return f"No {document.unit} recorded how long clients waited, or how many writes failed."
    (name, first), *others = known
    gap, failed = _range(_gaps_s(first)), _range(_failed(first))
    noun = document.finding.noun
    where = f"In cells {name} {noun} the" if len(document.cells) > 1 else "The"
    sentence = f"{where} median {document.unit} went {gap} s without an acknowledgement"
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


def closing(
    document: CampaignDocument, folder: CampaignDir, campaign: Campaign, progress: Progress
) -> str:
    """The sentence that the campaign ends with: what its cells decide, and what would decide it."""
    finding, unit = document.finding, document.unit
    cells = [cell for cell in document.cells if cell.conclusive]
    if not cells:
        return f"No {unit} is conclusive: nothing is decided."
    if not any(cell.conclusive_lossy or cell.inconclusive_lossy for cell in cells):
        runs, allowed = counted(_runs(cells), f"conclusive {unit}"), max(map(_allowed, cells))
        each = "" if len(cells) == 1 else f" of {len(cells)} cells"
        within = "" if len(cells) == 1 else " of any cell"
        excluded = f"a share above {share(allowed)}{within} is excluded (95 %)"
        wrong = sum(cell.verdicts[WRONG] for cell in cells)
        but = f"; {counted(wrong, unit)} {is_(wrong)} invalid for another reason" if wrong else ""
        return f"No {finding.noun} in {runs}{each}: {excluded}{but}."
    known = [each for each in document.comparisons if each.difference is not None]
    if not known:
        most = max(cells, key=_share)
        name = f"{most.name}: " if len(cells) > 1 else ""
        return f"{name}{finding.head} in {most.lossy_share.in_words} (95 %)."
    pair = max(known, key=lambda each: (abs(each.difference or 0.0), -(each.p or 0.0)))
    by_key = {tuple(cell.key.items()): cell for cell in cells}
    a, b = by_key[tuple(pair.a.items())], by_key[tuple(pair.b.items())]
    if not pair.difference:
        pairs = f"{pair.a[str(pair.axis)]} and {pair.b[str(pair.axis)]}"
        counts = f"{_counts(a)} and {_counts(b)}"
        return f"No two cells differ: {pair.axis} {pairs} {finding.head} in {counts}."
    axis, worse_first = str(pair.axis), (b, a) if pair.difference > 0 else (a, b)
    others = ", ".join(f"{key}={label}" for key, label in a.key.items() if key != axis)
    first, second = worse_first
    found = (
        f"{axis}={first.key[axis]} {finding.head} in {_counts(first)}, "
        f"{axis}={second.key[axis]} in {_counts(second)}"
    )
    found = f"{others}: {found}" if others else found
    tests = sum(each.p is not None for each in known)
    p = "" if pair.p_adjusted is None else f"p = {p_value(pair.p_adjusted)}".replace("= <", "<")
    p += f", corrected for {tests} pairs of cells" if tests > 1 else ""
    if differs(pair):
        return f"{found}: decided, {p}."
    if pair.doubtful:
        return f"{found}: doubtful ({p}), since {unit}s that do not count could reverse it."
    would = _what_would_do(pair, (a, b), known, folder, campaign, progress)
    return f"{found}: not yet decided, {p}; {would}."


def _counts(cell: CampaignCell) -> str:
    others = f" ({cell.inconclusive_lossy} of {cell.inconclusive} others)"
    chosen = cell.lossy_share.chosen_by_outcome
    return f"{cell.conclusive_lossy} of {cell.conclusive}{others if chosen else ''}"


def _what_would_do(
    pair: Comparison,
    cells: tuple[CampaignCell, CampaignCell],
    known: Sequence[Comparison],
    folder: CampaignDir,
    campaign: Campaign,
    progress: Progress,
) -> str:
    """The runs of each cell that would probably decide it, their time, and the command."""
    significant = sum(each.is_significant for each in known)
    level = ALPHA * min(1.0, (significant + 1) / max(1, sum(e.p is not None for e in known)))
    if pair.pairs.complete:
        needed = pairs_needed(pair.pairs, alpha=level)
        counts = pair.pairs.complete / (pair.pairs.complete + pair.pairs.incomplete)
    else:
        share_a, share_b = (cell.lossy_share.estimate or 0.0 for cell in cells)
        needed = runs_needed(share_a, share_b, alpha=level)
        counts = min(cell.conclusive / cell.runs for cell in cells)
    planned = max(cell.planned for cell in cells)
    most = max(math.ceil((needed or 1) / counts), min(cell.runs for cell in cells) + 1)
    command = f"ackloss campaign resume {shlex.quote(str(folder.path))}"
    if most <= planned:
        return f"the {planned} planned a cell would do: `{command}`"
    more = campaign.with_repetitions(most)
    time = about(left_s(more, progress, progress.workers or 1, datetime.now(UTC)))
    would = f"{number(most)} a cell would do, {time}: `{command} --repetitions {most}`"
    if not pair.pairs.complete and (shared := if_shared(campaign)) is not None:
        times = round(shared[0] / shared[1])
        part = "half" if times == 2 else f"1/{times} of"
        would += (
            f'; a campaign with `share = "auto"` would take {part} the time, as cells that share '
            "runs are compared as pairs; where the outcome is a race, an absolute share then holds "
            "only for cells side by side (docs/how-to/cells.md)"
        )
    return would

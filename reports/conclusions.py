"""What a reader should conclude of a campaign: one headline, three sentences, and cautions.

The rules, so that nothing is said that the numbers do not hold:

1. Where was loss? Counts of cells and runs, as seen. One cell's share comes with its own exact
   interval; shares of different cells are never pooled. That all lossy cells have a choice in
   common is said only where cells with another choice have conclusive runs and none of those lost.
2. Where was none? "None seen" is always followed by the share of lossy runs that it still allows,
   with runs that do not count taken for lossy ones where they are not few.
3. What did clients pay? Medians of runs, as ranges over cells with and without loss; no cause.

All of it is of conclusive runs; what was seen in the others is told beside. Everything that weakens
these is a caution: too few runs, runs that do not count and what was lost in them, failures of the
harness, cells without a conclusive run, differences that those runs may have made, runs of one
cluster that resemble each other, a campaign that is not finished, versions that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from analysis.statistics.samples import HARNESS_FAILURE, VACUOUS, WRONG
from reports.words import number, share

FEW_RUNS: Final = 20
"""Under so many conclusive runs, none with loss still allows more than 16.8 % with."""
ALPHA: Final = 0.05
"""A corrected p-value of this or less is told as a difference, unless it is doubtful."""
_ALIKE: Final = 1.5
"""Bounds that differ by less than this factor are told as one."""
MANY: Final = 0.05
"""Of a cell's runs: beyond this share, those that do not count are worth a caution."""

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Conclusions:
    """The answer in a line, the three sentences, and what to mind."""

    headline: str
    sentences: tuple[str, str, str]
    cautions: tuple[str, ...]


def conclusions(document: Mapping[str, Any]) -> Conclusions:
    """What a campaign.json supports."""
    cells: Sequence[Cell] = document["cells"]
    lossy = [cell for cell in cells if cell["conclusive_lossy"]]
    seen = [cell for cell in cells if cell["inconclusive_lossy"] and not cell["conclusive_lossy"]]
    clean = [cell for cell in cells if cell["conclusive"] and cell not in lossy + seen]
    rest = [cell for cell in cells if cell["conclusive"] and cell not in lossy]
    return Conclusions(
        _headline(lossy, rest) + _lost_beside(lossy, seen),
        (
            _where_lost(lossy, rest, _in_common([*lossy, *seen], clean)),
            _where_not([*lossy, *seen], clean),
            _what_was_paid(lossy, clean, document),
        ),
        tuple(_cautions(document)),
    )


def counting(cell: Cell) -> int:
    """The conclusive runs of a cell: those that count, whichever way they ended."""
    return int(cell["conclusive"])


def has_many_others(cell: Cell) -> bool:
    """Whether so many runs do not count that best and worst case must be told."""
    return bool(cell["inconclusive"] > MANY * cell["runs"])


def interval(estimate: Mapping[str, Any]) -> str:
    """An interval of a share as people read it, or why there is none."""
    if estimate["low"] is None:
        return str(estimate["why"])
    return f"{share(estimate['low'])} to {share(estimate['high'])}"


def differs(comparison: Mapping[str, Any]) -> bool:
    """Whether two cells differ in their share of lossy runs, beyond chance and beyond doubt."""
    p = comparison["p_adjusted"]
    return p is not None and bool(p <= ALPHA) and not comparison["doubtful"]


def _headline(lossy: Sequence[Cell], clean: Sequence[Cell]) -> str:
    runs = sum(map(counting, [*lossy, *clean]))
    if not runs:
        return "No run is conclusive"
    if not lossy:
        return f"No acknowledged write was lost in {_counted(runs, 'conclusive run')}"
    if len(lossy) + len(clean) == 1:
        lost = lossy[0]["conclusive_lossy"]
        return f"Acknowledged writes were lost in {lost} of {_counted(runs, 'conclusive run')}"
    return f"Acknowledged writes were lost in {len(lossy)} of {len(lossy) + len(clean)} cells"


def _lost_beside(lossy: Sequence[Cell], seen: Sequence[Cell]) -> str:
    """What must not be missed: cells with losses in none but runs that do not count."""
    if not seen:
        return ""
    if lossy:
        return f", and in {len(seen)} more by runs that do not count"
    runs = sum(cell["inconclusive_lossy"] for cell in seen)
    return f"; {_counted(runs, 'run')} that {_do(runs)} not count lost some"


def _where_lost(lossy: Sequence[Cell], clean: Sequence[Cell], in_common: str) -> str:
    cells, runs = len(lossy) + len(clean), sum(map(counting, [*lossy, *clean]))
    if not runs:
        return "Nothing can be said of loss: no run is conclusive."
    if not lossy:
        of = f"{_counted(runs, 'conclusive run')} in {_counted(cells, 'cell')}"
        beside = any(cell["inconclusive_lossy"] for cell in clean)
        none = "No run that counts lost anything" if beside else "No loss was seen"
        return f"{none}: 0 of {of} lost an acknowledged write."
    most = max(lossy, key=lambda cell: (cell["lossy_share"]["estimate"], counting(cell)))
    of = _counted(counting(most), "conclusive run")
    told = f"{most['conclusive_lossy']} of {of} ({_sure(most)})"
    if cells == 1:
        return f"Acknowledged writes were lost in {told}."
    where = f"Acknowledged writes were lost in {len(lossy)} of {cells} cells"
    if len(lossy) == 1:
        return f"{where}: {most['name']}, in {told}."
    highest = most["lossy_share"]["estimate"]
    alike = sum(cell["lossy_share"]["estimate"] == highest for cell in lossy)
    often = "most often in" if alike == 1 else f"most often in {alike} of them alike, such as"
    return f"{where}{in_common}; {often} {most['name']}: in {told}."


def _sure(cell: Cell) -> str:
    """The interval of a cell's share; with many runs that do not count, from best to worst case."""
    told = cell["lossy_share"]
    if has_many_others(cell):
        low, high = told["best_case"]["low"], told["worst_case"]["high"]
        return f"95 % interval, all other runs taken either way: {share(low)} to {share(high)}"
    return f"95 % interval: {interval(told)}"


def _in_common(lossy: Sequence[Cell], clean: Sequence[Cell]) -> str:
    """The choices that all lossy cells share, and no cell with another choice was lossy."""
    if not lossy:
        return ""
    shared = [
        f"{axis}={label}"
        for axis, label in lossy[0]["key"].items()
        if all(cell["key"][axis] == label for cell in lossy)
        and any(cell["key"][axis] != label for cell in clean)
    ]
    if not shared:
        return ""
    return f", all of them with {' and '.join(shared)}"


def _where_not(lossy: Sequence[Cell], clean: Sequence[Cell]) -> str:
    if not clean:
        return "No cell was without loss." if lossy else "Nothing can be said of safety either."
    runs, allowed = sorted(map(counting, clean)), sorted(map(_allowed, clean))
    of = f"{number(runs[0])} to {number(runs[-1])}" if runs[0] < runs[-1] else number(runs[0])
    told = f"{of} conclusive {_plural('run', runs[-1])}"
    where = (
        f"{len(clean)} cells of {told} each" if len(clean) > 1 else f"{clean[0]['name']}, {told}"
    )
    up_to = f"{share(allowed[-1])} a run"
    if allowed[-1] > _ALIKE * allowed[0]:
        up_to = f"{share(allowed[0])} a run in the best known, {share(allowed[-1])} in the least"
    assumed = ", all other runs taken for lossy" if any(map(has_many_others, clean)) else ""
    wrong = sum(cell["verdicts"][WRONG] for cell in clean)
    but = (
        f"; {_counted(wrong, 'run')} there {_is(wrong)} invalid for something else" if wrong else ""
    )
    return (
        f"Nothing was lost in {where}; that still allows a chance of loss of up to {up_to} "
        f"(95 %){assumed}{but}."
    )


def _allowed(cell: Cell) -> float:
    estimate = cell["lossy_share"]
    return float((estimate["worst_case"] if has_many_others(cell) else estimate)["high"])


def _what_was_paid(
    lossy: Sequence[Cell], clean: Sequence[Cell], document: Mapping[str, Any]
) -> str:
    groups = [("without", clean), ("with", lossy)]
    known = [(name, cells) for name, cells in groups if _range(cells, "longest_gap_s")]
    if not known:
        return "No run tells how long clients waited or how many writes were refused."
    (name, first), *others = known
    gap, refused = _range(first, "longest_gap_s"), _range(first, "refused")
    where = f"In cells {name} loss the" if len(document["cells"]) > 1 else "The"
    told = f"{where} median run went {gap} s without an acknowledgement"
    told += f" and had {refused} writes refused" if refused else ""
    for name, cells in others:
        told += f"; in cells {name} loss {_range(cells, 'longest_gap_s')} s"
        told += f" and {_range(cells, 'refused')}" if refused else ""
    return f"{told}{_pairs(document)}."


def _pairs(document: Mapping[str, Any]) -> str:
    """Of pairs that differ in one axis and in loss: in how many the safer one waited longer."""
    gap_s = {
        tuple(cell["key"].items()): cell["longest_gap_s"]["median"] for cell in document["cells"]
    }
    longer = []
    for pair in filter(differs, document["comparisons"]):
        gaps_s = gap_s[tuple(pair["a"].items())], gap_s[tuple(pair["b"].items())]
        if None not in gaps_s:
            safer, other = gaps_s if pair["difference"] > 0 else reversed(gaps_s)
            longer.append(safer > other)
    if not longer:
        return ""
    if len(longer) == 1:
        waited = "longer" if longer[0] else "no longer"
        return f"; in the one pair that differs beyond chance the safer cell waited {waited}"
    return (
        f"; of {len(longer)} pairs of cells that differ in one axis, and beyond chance in loss, "
        f"the safer cell waited longer in {sum(longer)}"
    )


def _range(cells: Iterable[Cell], name: str) -> str:
    known = [cell[name]["median"] for cell in cells if cell[name]["median"] is not None]
    if not known:
        return ""
    low, high = _short(min(known)), _short(max(known))
    return f"{low} to {high}" if low != high else low


def _short(value: float) -> str:
    return number(float(f"{value:.2g}")) if value < 100 else f"{value:,.0f}"


def _cautions(document: Mapping[str, Any]) -> Iterator[str]:
    cells: Sequence[Cell] = [cell for cell in document["cells"] if not cell.get("impossible")]
    begun = [cell for cell in cells if counting(cell)]
    if document["runs"] < document["planned"]:
        yield (
            f"{number(document['runs'])} of {number(document['planned'])} planned runs are "
            "finished: all of this may still change."
        )
    if document["runs"] and (silent := len(cells) - len(begun)):
        of = _counted(silent, "cell")
        yield f"{of} {_has(silent)} no conclusive run: nothing is known of {_them(silent)}."
    if few := [cell for cell in begun if counting(cell) < FEW_RUNS]:
        yield (
            f"{_counted(len(few), 'cell')} of {len(cells)} {_has(len(few))} fewer than {FEW_RUNS} "
            "conclusive runs: too few to call one safe, or two alike."
        )
    yield from _others(cells)
    yield from _doubtful(document["comparisons"])
    yield from _resembling(document.get("resemblance", {}))
    for name, versions in document["versions"].items():
        if len(versions) > 1:
            yield f"Runs differ in their version of {name}: {', '.join(versions)}."


def _others(cells: Sequence[Cell]) -> Iterator[str]:
    """Runs that do not count: what was lost in them, where they are many, and why."""
    runs = sum(cell["runs"] for cell in cells)
    others = sum(cell["inconclusive"] for cell in cells)
    if seen := sum(cell["inconclusive_lossy"] for cell in cells):
        yield (
            f"{number(seen)} of the {number(others)} runs that do not count lost writes: they are "
            "in no share, and are lossy in the best case as in the worst."
        )
    if many := [cell for cell in cells if has_many_others(cell)]:
        yield (
            f"{number(others)} of {number(runs)} runs {_do(others)} not count, more than "
            f"{MANY * 100:.0f} % of the runs of {_counted(len(many), 'cell')}: if whether a run "
            "counts depends on whether it loses, the truth is between best and worst case."
        )
    for name, one, many_, meaning in (
        (VACUOUS, "is vacuous", "are vacuous", "nothing was put to the test in them"),
        (HARNESS_FAILURE, "failed", "failed", "the harness broke, not the cluster"),
    ):
        here = [cell for cell in cells if cell["verdicts"][name] > MANY * cell["runs"]]
        if here:
            count = sum(cell["verdicts"][name] for cell in cells)
            yield (
                f"{number(count)} of {number(runs)} runs {one if count == 1 else many_}, more than "
                f"{MANY * 100:.0f} % of the runs of {_counted(len(here), 'cell')}: {meaning}."
            )


def _doubtful(comparisons: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    if doubted := sum(each["doubtful"] for each in comparisons):
        yield (
            f"{_counted(doubted, 'difference')} between cells {_is(doubted)} doubtful: beyond "
            "chance, but runs that do not count may have made it look so."
        )


def _resembling(resemblance: Mapping[str, Any]) -> Iterator[str]:
    """Groups of runs that are more alike than chance has it, and what follows from that."""
    for group, told in resemblance.items():
        for of, each in told.items():
            if each["p"] is not None and each["p"] <= ALPHA:
                what = {"lossy": "whether they lose", "loss_rate": "how much they lose"}[of]
                yield (
                    f"Runs of one {group} resemble each other in {what} (intraclass correlation "
                    f"{each['correlation']:.2f}, p = {each['p']:.2g}, {each['groups']} {group}s): "
                    "intervals, which take runs as independent, are narrower than they should be."
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

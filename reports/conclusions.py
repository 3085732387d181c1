"""What a reader should conclude of a campaign: one headline, three sentences, and cautions.

The rules, so that nothing is said that the numbers do not hold:

1. Where was loss? Counts of cells and runs, as seen. One cell's share comes with its own exact
   interval; shares of different cells are never pooled. That all lossy cells have a choice in
   common is said only where cells with another choice were judged too and none of those lost.
2. Where was none? "None seen" is always followed by the share of lossy runs that it still allows,
   with unknown runs taken for lossy ones where they are not few.
3. What did clients pay? Medians of runs, as ranges over cells with and without loss; no cause.

Everything that weakens these is a caution: too few runs, unknown or vacuous runs, failures of the
harness, cells without a judged run, a campaign that is not finished, versions that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from analysis.statistics.samples import HARNESS_FAILURE, LOSS, NONE, UNKNOWN, VACUOUS, WRONG
from reports.words import number, share

FEW_RUNS: Final = 20
"""Under so many judged runs, none with loss still allows more than 16.8 % with."""
MANY: Final = 0.05
"""Of a cell's runs: beyond this share unknown, vacuous or failed ones are worth a caution."""

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
    lossy = [cell for cell in cells if cell["verdicts"][LOSS]]
    clean = [cell for cell in cells if cell["verdicts"][NONE] and not cell["verdicts"][LOSS]]
    return Conclusions(
        _headline(lossy, clean),
        (_where_lost(lossy, clean), _where_not(lossy, clean), _what_was_paid(lossy, clean)),
        tuple(_cautions(document)),
    )


def judged(cell: Cell) -> int:
    """Runs of which is known whether they lost anything."""
    return int(cell["verdicts"][LOSS] + cell["verdicts"][NONE])


def has_many_unknown(cell: Cell) -> bool:
    """Whether so many runs are unknown that best and worst case must be told."""
    unknown = cell["verdicts"][UNKNOWN]
    return bool(unknown > MANY * (judged(cell) + unknown))


def interval(estimate: Mapping[str, Any]) -> str:
    """An interval of a share as people read it."""
    if estimate["low"] is None:
        return str(estimate["why"])
    if estimate["low"] == 0:
        return f"at most {share(estimate['high'])}"
    if estimate["high"] == 1:
        return f"at least {share(estimate['low'])}"
    return f"{share(estimate['low'])} to {share(estimate['high'])}"


def _headline(lossy: Sequence[Cell], clean: Sequence[Cell]) -> str:
    runs = sum(map(judged, [*lossy, *clean]))
    if not runs:
        return "No run has been judged yet"
    if not lossy:
        return f"No acknowledged write was lost in {_counted(runs, 'judged run')}"
    if len(lossy) + len(clean) == 1:
        lost = lossy[0]["verdicts"][LOSS]
        return f"Acknowledged writes were lost in {lost} of {_counted(runs, 'judged run')}"
    return f"Acknowledged writes were lost in {len(lossy)} of {len(lossy) + len(clean)} cells"


def _where_lost(lossy: Sequence[Cell], clean: Sequence[Cell]) -> str:
    runs = sum(map(judged, [*lossy, *clean]))
    if not runs:
        return "Nothing can be said of loss: no run has been judged."
    if not lossy:
        cells = _counted(len(clean), "cell")
        return f"No loss was seen: 0 of {_counted(runs, 'judged run')} in {cells} lost an acknowledged write."
    most = max(lossy, key=lambda cell: (cell["lossy_share"]["estimate"], judged(cell)))
    told = f"{most['verdicts'][LOSS]} of {_counted(judged(most), 'judged run')} lost"
    sure = f"so {interval(most['lossy_share'])} of such runs do (95 %)"
    if len(lossy) + len(clean) == 1:
        return f"Acknowledged writes were lost: {told}, {sure}."
    as_often = sum(
        cell["lossy_share"]["estimate"] == most["lossy_share"]["estimate"] for cell in lossy
    )
    often = "most often in" if as_often == 1 else f"most often, alike in {as_often} cells, such as"
    return (
        f"Acknowledged writes were lost in {len(lossy)} of {len(lossy) + len(clean)} cells"
        f"{_in_common(lossy, clean)}; {often} {most['name']}, where {told}, {sure}."
    )


def _in_common(lossy: Sequence[Cell], clean: Sequence[Cell]) -> str:
    """The choices that all lossy cells share, and no cell with another choice was lossy."""
    shared = [
        f"{axis}={label}"
        for axis, label in lossy[0]["key"].items()
        if all(cell["key"][axis] == label for cell in lossy)
        and any(cell["key"][axis] != label for cell in clean)
    ]
    if not shared:
        return ""
    every = "all of them" if len(lossy) > 1 else "the one"
    return f", {every} with {' and '.join(shared)}"


def _where_not(lossy: Sequence[Cell], clean: Sequence[Cell]) -> str:
    if not clean:
        return "No cell was without loss." if lossy else "Nothing can be said of safety either."
    allowed = sorted(_allowed(cell) for cell in clean)
    fewest, most = min(map(judged, clean)), max(map(judged, clean))
    runs = str(most) if fewest == most else f"{fewest} to {most}"
    low, high = share(allowed[0]), share(allowed[-1])
    up_to = f"up to {low}" if low == high else f"up to between {low} and {high}"
    many = any(map(has_many_unknown, clean))
    assumed = ", were all unknown runs lossy" if many else ""
    every = clean[0]["name"] if len(clean) == 1 else f"{len(clean)} cells"
    of_each = "" if len(clean) == 1 else " of each"
    wrong = sum(cell["verdicts"][WRONG] for cell in clean)
    but = (
        f"; {_counted(wrong, 'run')} there {_is(wrong)} invalid for something else" if wrong else ""
    )
    return (
        f"Nothing was lost in {every}, but {runs} judged {_plural('run', most)}{of_each} without loss "
        f"still {'allow' if most > 1 else 'allows'} a chance of loss of {up_to} a run{assumed}{but}."
    )


def _allowed(cell: Cell) -> float:
    estimate = cell["lossy_share"]
    return float((estimate["worst_case"] if has_many_unknown(cell) else estimate)["high"])


def _what_was_paid(lossy: Sequence[Cell], clean: Sequence[Cell]) -> str:
    groups = [("without loss", clean), ("with loss", lossy)]
    told = [
        (name, _range(cells, "longest_gap_s", "s"), _range(cells, "refused", ""))
        for name, cells in groups
        if any(cell["longest_gap_s"]["runs"] for cell in cells)
    ]
    if not told:
        return "No run tells how long clients waited or how many writes were refused."
    gaps = " and ".join(f"{gap} in cells {name}" for name, gap, _ in told if gap)
    refused = " and ".join(f"{writes} in cells {name}" for name, _, writes in told if writes)
    more = f"; refused writes a run: {refused}" if refused else ""
    return f"The longest time without an acknowledgement was {gaps}{more} (medians of runs)."


def _range(cells: Iterable[Cell], name: str, unit: str) -> str:
    known = [cell[name]["median"] for cell in cells if cell[name]["median"] is not None]
    if not known:
        return ""
    low, high = _short(min(known)), _short(max(known))
    return f"{low} to {high} {unit}".strip() if low != high else f"{low} {unit}".strip()


def _short(value: float) -> str:
    return number(float(f"{value:.2g}")) if value < 100 else f"{value:,.0f}"


def _cautions(document: Mapping[str, Any]) -> Iterator[str]:
    cells: Sequence[Cell] = document["cells"]
    begun = [cell for cell in cells if judged(cell)]
    if document["runs"] < document["planned"]:
        yield (
            f"{number(document['runs'])} of {number(document['planned'])} planned runs are "
            "finished: all of this may still change."
        )
    if document["runs"] and (silent := len(cells) - len(begun)):
        yield f"{_counted(silent, 'cell')} {_has(silent)} no judged run: of those nothing is known."
    if few := [cell for cell in begun if judged(cell) < FEW_RUNS]:
        yield (
            f"{_counted(len(few), 'cell')} of {len(cells)} {_has(len(few))} fewer than {FEW_RUNS} "
            "judged runs: too few to call one safe, or two alike."
        )
    yield from _other_classes(cells)
    for name, versions in document["versions"].items():
        if len(versions) > 1:
            yield f"Runs differ in their version of {name}: {', '.join(versions)}."


def _other_classes(cells: Sequence[Cell]) -> Iterator[str]:
    runs = sum(cell["runs"] for cell in cells)
    for name, one, many, meaning in (
        (UNKNOWN, "is unknown", "are unknown", "the truth is between best and worst case"),
        (VACUOUS, "is vacuous", "are vacuous", "nothing was put to the test in them"),
        (HARNESS_FAILURE, "failed", "failed", "the harness broke, not the cluster"),
    ):
        here = [cell for cell in cells if cell["verdicts"][name] > MANY * cell["runs"]]
        if here:
            count = sum(cell["verdicts"][name] for cell in cells)
            yield (
                f"{number(count)} of {number(runs)} runs {one if count == 1 else many}, more than "
                f"{share(MANY)} of the runs of {_counted(len(here), 'cell')}: {meaning}."
            )


def _counted(count: int, noun: str) -> str:
    return f"{number(count)} {_plural(noun, count)}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"

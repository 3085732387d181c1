"""Figures from elsewhere that a plan names (`[[reference]]`), beside those of its own runs.

Rates are computed here from the counts of both, alike, and written as the experiment of 2013
printed them: 32-bit floating point numbers, to their last digit that counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

from reports import words

NOTHING: Final = "—"
_COUNTS: Final = {
    "attempted": "attempted",
    "acknowledged": "acknowledged",
    "survivors": "survivors",
    "lost": "acknowledged and lost",
    "unacknowledged_found": "unacknowledged and found",
}
_RATES: Final = {
    "ack rate": ("acknowledged", "attempted"),
    "loss rate": ("lost", "acknowledged"),
    "unacknowledged success rate": ("unacknowledged_found", "acknowledged"),
}
LABELS: Final = (*_COUNTS.values(), *_RATES)
"""What the figures are called, in their order."""


Figures = Mapping[str, float | None]
"""By label; null where it is not known, or has nothing to divide by."""


@dataclass(frozen=True)
class Theirs:
    """One figure of a reference, and by how much each of ours is above it."""

    figure: str
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One figure: ours, run by run, and that of each reference."""

    label: str
    ours: tuple[str, ...]
    theirs: tuple[Theirs, ...]


@dataclass(frozen=True)
class CellRow:
    """The conclusive runs of one cell: median and range of each figure."""

    name: str
    runs: int
    figures: tuple[tuple[str, str], ...]


def references(*plans: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The references of these plans, each source once."""
    return list(
        {one["source"]: one for plan in plans for one in plan.get("reference") or []}.values()
    )


def figures(counts: Mapping[str, Any] | None) -> Figures:
    """The figures that follow from counts; null: nothing was counted."""
    known = counts or {}
    told: dict[str, float | None] = {label: known.get(key) for key, label in _COUNTS.items()}
    for label, (part, whole) in _RATES.items():
        above, below = known.get(part), known.get(whole)
        told[label] = above / below if above is not None and below else None
    return told


def beside(
    ours: Sequence[Mapping[str, Any] | None], theirs: Iterable[Mapping[str, Any]]
) -> list[Row]:
    """The table: the counts of our runs (null: not judged), and the references."""
    own = [figures(counts) for counts in ours]
    other = [figures(one["figures"]) for one in theirs]
    return [
        Row(
            label,
            tuple(_figure(one[label]) for one in own),
            tuple(
                Theirs(_figure(one[label]), tuple(_apart(mine[label], one[label]) for mine in own))
                for one in other
            ),
        )
        for label in LABELS
    ]


def alone(reference: Mapping[str, Any]) -> list[str]:
    """A reference's figures as one row."""
    told = figures(reference["figures"])
    return [_figure(told[label]) for label in LABELS]


def cell_rows(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> list[CellRow]:
    """Our runs, cell by cell: those that are conclusive, from the rows of a campaign's table."""
    counted: dict[str, list[Figures]] = {name: [] for name in names}
    for row in rows:
        if row["conclusive"]:
            counted[row["cell"]].append(figures(row))
    return [
        CellRow(name, len(runs), tuple(_spread([run[label] for run in runs]) for label in LABELS))
        for name, runs in counted.items()
    ]


def _spread(values: Sequence[float | None]) -> tuple[str, str]:
    """The median, and the range where there is one."""
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING, ""
    low, high = min(known), max(known)
    return _figure(median(known)), f"{_figure(low)} to {_figure(high)}" if low < high else ""


def _figure(value: float | None) -> str:
    if value is None:
        return NOTHING
    return words.number(value) if isinstance(value, int) else _digits(np.float32(value))


def _digits(value: np.float32, **how: Any) -> str:
    return np.format_float_positional(value, trim="-", **how)


def _apart(ours: float | None, theirs: float | None) -> str:
    """Ours less theirs, with its sign; of rates, three digits that count."""
    if ours is None or theirs is None:
        return NOTHING
    difference = ours - theirs
    if not difference:
        return "0"
    if isinstance(difference, int):
        return f"{difference:+,}".replace("-", "−")
    rounded = _digits(np.float32(difference), precision=3, fractional=False, sign=True)
    return rounded.replace("-", "−")

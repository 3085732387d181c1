"""Reference figures that a plan names (`[[reference]]`), compared with those of its own runs.

The rates of both come from counts, by the same function. They are printed as the 2013 experiment
printed them: 32-bit floating point numbers with all significant digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.history.documents import Counts, Rates
from reports import formatting
from reports.formatting import NOTHING

if TYPE_CHECKING:  # statistics take long to import, and a run's page needs none
    from analysis.campaign import RunRow

_COUNTS: Final = {
    "attempted": "attempted",
    "acknowledged": "acknowledged",
    "survivors": "survivors",
    "lost": "acknowledged and lost",
    "unacknowledged_found": "unacknowledged and found",
}
_RATES: Final = {
    "ack": "ack rate",
    "loss": "loss rate",
    "unacknowledged_success": "unacknowledged success rate",
}
LABELS: Final = (*_COUNTS.values(), *_RATES.values())
"""The labels of the figures, in their order."""


Figures = Mapping[str, float | None]
"""By label; `None` where the figure is not known, or its denominator is 0."""


@dataclass(frozen=True)
class Reference:
    """The figures of a source, and what differs from our runs."""

    source: str
    counts: Counts
    differs: Sequence[str] = ()


@dataclass(frozen=True)
class ReferenceFigure:
    """One figure of a reference, and each of our figures less it."""

    figure: str
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One figure: of each of our runs, and of each reference."""

    label: str
    ours: tuple[str, ...]
    references: tuple[ReferenceFigure, ...]


@dataclass(frozen=True)
class CellRow:
    """The conclusive runs of one cell: median and range of each figure."""

    name: str
    runs: int
    figures: tuple[tuple[str, str], ...]


def references(*plans: Mapping[str, Any]) -> list[Reference]:
    every = (
        Reference(one["source"], Counts(**one["figures"]), tuple(one.get("differs") or ()))
        for plan in plans
        for one in plan.get("reference") or []
    )
    return list({one.source: one for one in every}.values())


def figures(counts: Counts | None) -> Figures:
    """The figures of these counts; `None`: the run was not judged."""
    if counts is None:
        return dict.fromkeys(LABELS)
    rates = Rates.of(counts)
    return {
        **{label: getattr(counts, name) for name, label in _COUNTS.items()},
        **{label: getattr(rates, name) for name, label in _RATES.items()},
    }


def compared(ours: Sequence[Counts | None], theirs: Iterable[Reference]) -> list[Row]:
    """The table of our runs and the references; `None`: a run was not judged."""
    own = [figures(counts) for counts in ours]
    other = [figures(one.counts) for one in theirs]
    return [
        Row(
            label,
            tuple(_figure(one[label]) for one in own),
            tuple(
                ReferenceFigure(
                    _figure(one[label]), tuple(_difference(mine[label], one[label]) for mine in own)
                )
                for one in other
            ),
        )
        for label in LABELS
    ]


def figures_of(reference: Reference) -> list[str]:
    """A reference's figures as one row."""
    known = figures(reference.counts)
    return [_figure(known[label]) for label in LABELS]


def cell_rows(names: Iterable[str], rows: Iterable[RunRow]) -> list[CellRow]:
    """Our conclusive runs, cell by cell."""
    by_cell: dict[str, list[Figures]] = {name: [] for name in names}
    for row in rows:
        if row["conclusive"]:
            known: Mapping[str, Any] = row
            counts = Counts(**{name: known[name] or 0 for name in _COUNTS})
            by_cell[row["cell"]].append(figures(counts))
    return [
        CellRow(name, len(runs), tuple(_spread([run[label] for run in runs]) for label in LABELS))
        for name, runs in by_cell.items()
    ]


def _spread(values: Sequence[float | None]) -> tuple[str, str]:
    """The median, and the range if there is one."""
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING, ""
    low, high = min(known), max(known)
    return _figure(median(known)), f"{_figure(low)} to {_figure(high)}" if low < high else ""


def _figure(value: float | None) -> str:
    if value is None:
        return NOTHING
    return formatting.number(value) if isinstance(value, int) else _digits(np.float32(value))


def _digits(value: np.float32, **how: Any) -> str:
    return np.format_float_positional(value, trim="-", **how)


def _difference(ours: float | None, theirs: float | None) -> str:
    """Ours less theirs, with its sign; a difference of rates has three significant digits."""
    if ours is None or theirs is None:
        return NOTHING
    difference = ours - theirs
    if not difference:
        return "0"
    if isinstance(difference, int):
        return f"{difference:+,}".replace("-", "−")
    rounded = _digits(np.float32(difference), precision=3, fractional=False, sign=True)
    return rounded.replace("-", "−")

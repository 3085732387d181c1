"""Where each cell of a campaign stands in a table that people can read.

One axis goes across, all others down, grouped: the last axis that has at most ACROSS values, as
what varies last in the file is what one wants to see side by side. Of a campaign without such an
axis every cell is a row. A combination that the campaign leaves out has a place and no cell; a cell
that cannot be played has its place too, and no number.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ACROSS: Final = 6
"""More columns than that do not fit beside the heads of the rows."""


@dataclass(frozen=True)
class Head:
    """The label of one axis before a row; it holds for so many rows, this one among them."""

    axis: str
    label: str
    rows: int


@dataclass(frozen=True)
class Row:
    """One row: the heads that begin here, all its labels, and by column the place of its cell."""

    heads: tuple[Head, ...]
    labels: tuple[str, ...]
    cells: tuple[int | None, ...]


@dataclass(frozen=True)
class Matrix:
    """The table. `across` is None where there is one column only. `impossible` are the places of
    cells that are never played."""

    down: tuple[str, ...]
    across: str | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    impossible: frozenset[int] = frozenset()

    @property
    def in_order(self) -> list[int]:
        """The places of all cells that can be played, row by row."""
        places = (place for row in self.rows for place in row.cells if place is not None)
        return [place for place in places if place not in self.impossible]


def matrix(
    axes: Mapping[str, Sequence[str]],
    keys: Sequence[Mapping[str, str]],
    impossible: Iterable[int] = (),
) -> Matrix:
    """The table of these cells; a cell's place is its place in `keys`."""
    across = next((name for name in reversed(list(axes)) if len(axes[name]) <= ACROSS), None)
    down = tuple(name for name in axes if name != across)
    columns = tuple(axes[across]) if across is not None else ("",)
    place = {tuple(key[name] for name in axes): at for at, key in enumerate(keys)}
    rows: list[tuple[tuple[str, ...], tuple[int | None, ...]]] = []
    for labels in itertools.product(*(axes[name] for name in down)):
        known = dict(zip(down, labels, strict=True))
        cells = tuple(
            place.get(tuple((known | {across: column})[name] for name in axes))
            for column in columns
        )
        if any(cell is not None for cell in cells):
            rows.append((labels, cells))
    every = [labels for labels, _ in rows]
    return Matrix(
        down,
        across,
        columns,
        tuple(
            Row(_heads(down, every, at), labels, cells) for at, (labels, cells) in enumerate(rows)
        ),
        frozenset(impossible),
    )


def _heads(down: Sequence[str], rows: Sequence[tuple[str, ...]], at: int) -> tuple[Head, ...]:
    """The labels that begin in row `at`: one stands for all rows that share it and those before."""
    heads = []
    for depth, axis in enumerate(down):
        same = rows[at][: depth + 1]
        if at and rows[at - 1][: depth + 1] == same:
            continue
        span = sum(1 for row in rows if row[: depth + 1] == same)
        heads.append(Head(axis, same[depth], span))
    return tuple(heads)

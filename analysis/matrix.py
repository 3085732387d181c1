"""The table of a campaign's cells: one axis across, all other axes down, in groups.

The axis across is the last one with at most ACROSS values: the axis that varies last in the file is
the one that a reader wants side by side. Without such an axis every cell is a row. A combination
that the campaign excludes has a place but no cell. A cell that cannot run has a place and no
number.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ACROSS: Final = 6
"""The largest number of columns that fit beside the heads of the rows."""


@dataclass(frozen=True)
class Head:
    """The label of one axis; it covers `rows` rows, beginning with this one."""

    axis: str
    label: str
    rows: int


@dataclass(frozen=True)
class Row:
    """One row: the heads that begin here, all its labels, and the cell's place for each column."""

    heads: tuple[Head, ...]
    labels: tuple[str, ...]
    cells: tuple[int | None, ...]


@dataclass(frozen=True)
class Matrix:
    """The table. `across` is None if there is only one column. `impossible` holds the places of
    cells that never run."""

    down: tuple[str, ...]
    across: str | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    impossible: frozenset[int] = frozenset()

    @property
    def in_order(self) -> list[int]:
        """The places of all cells that can run, row by row."""
        places = (place for row in self.rows for place in row.cells if place is not None)
        return [place for place in places if place not in self.impossible]


def matrix(
    axes: Mapping[str, Sequence[str]],
    keys: Sequence[Mapping[str, str]],
    impossible: Iterable[int] = (),
) -> Matrix:
    """The table of these cells; a cell's place is its index in `keys`."""
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
    """The labels that begin in row `at`: a label covers all rows that share it and its parents."""
    heads = []
    for depth, axis in enumerate(down):
        same = rows[at][: depth + 1]
        if at and rows[at - 1][: depth + 1] == same:
            continue
        span = sum(1 for row in rows if row[: depth + 1] == same)
        heads.append(Head(axis, same[depth], span))
    return tuple(heads)

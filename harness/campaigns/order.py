"""Which run is next: cells in turn, so that a campaign that is stopped early is balanced.

All first repetitions come before all second ones, and so on, but a new cluster costs a start and a
warm-up. So a worker gets a cell that fits its cluster as long as that is less than so many rounds
ahead of the cell that is furthest behind: a tenth of all rounds, but five to twenty. Otherwise it
gets one whose cluster no other worker has. Cells that are to come first (those that lost in an
earlier campaign) come first in their round. Cells that share their runs are one task for each
repetition, without those that have finished it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.campaigns.plan import Cell
from harness.campaigns.sharing import Group

_AHEAD_AT_LEAST: Final = 5
_AHEAD_AT_MOST: Final = 20
"""Then a start and a warm-up are a tenth of the runs of a cluster."""


def rounds_ahead(rounds: int) -> int:
    """How many rounds a cluster serves before others have their turn, of so many."""
    return min(max(_AHEAD_AT_LEAST, rounds // 10), _AHEAD_AT_MOST)


@dataclass(frozen=True)
class Task:
    """One run to be executed, of one cell or of several that share it."""

    cell: Cell
    repetition: int
    others: Group = ()

    @property
    def cells(self) -> Group:
        """Every cell of the run."""
        return (self.cell, *self.others)


@dataclass
class Order:
    """The runs that are left. `groups` are the cells that share their runs. `cluster_of` gives for
    each cell's name the key of its cluster, null if that serves one run: cells with equal keys can
    use one. `first` names the cells that come first, with the cells that share their runs."""

    groups: Collection[Group]
    cluster_of: Mapping[str, Hashable]
    finished: Collection[tuple[str, int]] = ()
    first: Collection[str] = ()
    _ahead: int = field(init=False)
    """Rounds."""
    _left: list[Task] = field(init=False)

    def __post_init__(self) -> None:
        rounds = max((cell.repetitions for group in self.groups for cell in group), default=0)
        self._ahead = rounds_ahead(rounds)
        ordered = sorted(
            self.groups, key=lambda group: not any(cell.name in self.first for cell in group)
        )
        left = [
            (repetition, [cell for cell in group if self._is_left(cell, repetition)])
            for repetition in range(rounds)
            for group in ordered
        ]
        self._left = [Task(cells[0], n, tuple(cells[1:])) for n, cells in left if cells]

    def _is_left(self, cell: Cell, repetition: int) -> bool:
        return repetition < cell.repetitions and (cell.name, repetition) not in self.finished

    def __len__(self) -> int:
        return len(self._left)

    def next(self, kept: Hashable | None, elsewhere: Collection[Hashable]) -> Task | None:
        """Take the next run for a worker that has the cluster `kept`, while other workers have
        `elsewhere`. `None` when no run is left."""
        if not self._left:
            return None
        ahead = min(task.repetition for task in self._left) + self._ahead
        workers_with = Counter(elsewhere)

        def cost(place: int) -> tuple[bool, int, int]:
            wanted = self.cluster_of[self._left[place].cell.name]
            if wanted is None:
                return True, 0, place
            return wanted != kept, workers_with[wanted], place

        places = [p for p, task in enumerate(self._left) if task.repetition < ahead]
        return self._left.pop(min(places, key=cost))

    def put_back(self, task: Task) -> None:
        """Put back a run that broke off: among those that fit a worker's cluster it comes first."""
        self._left.insert(0, task)

"""Which run is next: cells in turn, so that a campaign that is stopped early is balanced.

All first repetitions come before all second ones, and so on. Within a round a worker takes a cell
that its cluster can serve, and otherwise one that no other worker serves: a cluster that is kept is
the cheapest. Cells that lost last night come first in their round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field

from harness.campaigns.plan import Cell


@dataclass(frozen=True)
class Task:
    """One run that is to be played."""

    cell: Cell
    repetition: int


@dataclass
class Order:
    """The runs that are left. `cluster_of` says by cell name what its cluster must be (equal: may
    be shared); `first` names the cells to begin with."""

    cells: Collection[Cell]
    cluster_of: Mapping[str, Hashable]
    finished: Collection[tuple[str, int]] = ()
    first: Collection[str] = ()
    _left: list[Task] = field(init=False)

    def __post_init__(self) -> None:
        rounds = max((cell.repetitions for cell in self.cells), default=0)
        ordered = sorted(self.cells, key=lambda cell: cell.name not in self.first)
        self._left = [
            Task(cell, repetition)
            for repetition in range(rounds)
            for cell in ordered
            if repetition < cell.repetitions and (cell.name, repetition) not in self.finished
        ]

    def __len__(self) -> int:
        return len(self._left)

    def next(self, kept: Hashable | None, elsewhere: Collection[Hashable]) -> Task | None:
        """Take the next run for a worker whose cluster is `kept`, while other workers have those
        `elsewhere`; null when none is left."""
        if not self._left:
            return None
        now = self._left[0].repetition
        crowd = Counter(elsewhere)

        def cost(place: int) -> tuple[bool, int, int]:
            wanted = self.cluster_of[self._left[place].cell.name]
            return wanted != kept, crowd[wanted], place

        places = [p for p, task in enumerate(self._left) if task.repetition == now]
        return self._left.pop(min(places, key=cost))

    def put_back(self, task: Task) -> None:
        """A run that broke off is played again, before all others."""
        self._left.insert(0, task)

"""Which run is next: cells in turn, so that a campaign that is stopped early is balanced.

All first repetitions come before all second ones, and so on. Within a round a worker gets a cell
that fits its cluster, because keeping a cluster is cheapest, and otherwise one whose cluster no
other worker has. Cells that are to come first (those that lost in an earlier campaign) come first
in their round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field

from harness.campaigns.plan import Cell


@dataclass(frozen=True)
class Task:
    """One run to be executed."""

    cell: Cell
    repetition: int


@dataclass
class Order:
    """The runs that are left. `cluster_of` gives for each cell's name the key of its cluster: cells
    with equal keys can share one. `first` names the cells that come first."""

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
        """Take the next run for a worker that has the cluster `kept`, while other workers have
        `elsewhere`. `None` when no run is left."""
        if not self._left:
            return None
        current = self._left[0].repetition
        workers_with = Counter(elsewhere)

        def cost(place: int) -> tuple[bool, int, int]:
            wanted = self.cluster_of[self._left[place].cell.name]
            return wanted != kept, workers_with[wanted], place

        places = [p for p, task in enumerate(self._left) if task.repetition == current]
        return self._left.pop(min(places, key=cost))

    def put_back(self, task: Task) -> None:
        """Put back a run that broke off: it is repeated before all others."""
        self._left.insert(0, task)

"""The rows of a run, and what they say beside any checker: availability, the errors' codes, and how
many writes there are.

Reading Parquet is most of the cost of judging. So all are gathered while a checker reads the rows;
only where none has read all of them, they are read once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from checkers.judging.availability import Availability, Timeline
from checkers.judging.contract import Tally
from checkers.judging.errors import ErrorCodes
from harness.history.rows import Holding, Rows
from harness.models import MODELS
from harness.protocols import Facts, Operations, Writes

Part = TypeVar("Part", Writes, Operations)


class Noted(NamedTuple):
    """What the rows say beside any checker."""

    timeline: Timeline
    errors: ErrorCodes
    tally: Tally


class WatchedRows(Rows):
    """Rows that are noted by the first pass that reads all of them: the writes where a model
    has nothing else, else the operations."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._of = MODELS[facts.promises.model]
        self._only_writes = self._of.writes == self._of.functions
        self._noted: Noted | None = None

    def noted(self) -> Noted:
        """What was noted of all rows."""
        if self._noted is None:
            for _ in self._rows():
                pass
        assert self._noted is not None
        return self._noted

    def availability(self) -> Availability:
        """What clients saw; nothing where rows do not have times."""
        noted = self.noted()
        return noted.timeline.availability(self._rows) if self.facts.timed else Availability()

    def _rows(self) -> Iterator[Writes | Operations]:
        return self.writes() if self._only_writes else self.operations()

    def _read_writes(self, holding: Holding | None = None) -> Iterator[Writes]:
        rows = super()._read_writes(holding)
        watched = self._only_writes and self._noted is None and holding is None
        return self._watched(rows) if watched else rows

    def _read_operations(self) -> Iterator[Operations]:
        rows = super()._read_operations()
        return rows if self._only_writes or self._noted is not None else self._watched(rows)

    def _watched(self, rows: Iterator[Part]) -> Iterator[Part]:
        timeline = Timeline(self.facts.windows, until_ns=self.facts.final_from_ns)
        noted = Noted(timeline, ErrorCodes(), Tally(self._of))
        for part in rows:
            noted.timeline.add(part)
            noted.errors.add(part)
            noted.tally.add(part)
            yield part
        self._noted = noted

"""The rows of one run, as its checkers request them.

A run that is not large is kept in memory while it is judged; the parts of a larger one are read
again by every pass, so that a run of any size takes the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

import numpy as np

from harness.history import parquet_reader
from harness.history.ahead import ahead
from harness.history.bounds import stated, together
from harness.models import MODELS
from harness.protocols.runs import (
    Bools,
    Bounds,
    Deliveries,
    Facts,
    FaultWindow,
    Ints,
    Operations,
    Reads,
    Texts,
    Writes,
)

Part = TypeVar("Part")
Holding = Callable[[Texts, Ints], bool]

_KEPT_BYTES: Final = 16 * 2**20


def within(window: FaultWindow, times_ns: Ints) -> Bools:
    """Which of these instants lie in a fault's window; NULL lies in none."""
    if window.from_s is None:
        return np.zeros(len(times_ns), np.bool_)
    inside: Bools = times_ns >= round(window.from_s * 1e9)
    if window.to_s is not None:
        inside &= times_ns <= round(window.to_s * 1e9)
    return inside


class Rows:
    """The rows of one run. All raise HistoryError for a part that cannot be read."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._model = facts, MODELS[facts.promises.model]
        size_bytes = sum(path.stat().st_size for path in (*facts.history, *facts.reads))
        self._keeps = size_bytes <= _KEPT_BYTES
        self._writes: list[Writes] | None = None
        self._reads: list[Reads] | None = None

    @property
    def facts(self) -> Facts:
        """Everything else that is known about the run."""
        return self._facts

    def writes(self, *, holding: Holding | None = None) -> Iterator[Writes]:
        """The writes: neither the nemesis' nor other operations."""
        if self._writes is None and self._keeps:
            self._writes = list(self._read_writes())
        if self._writes:
            return iter(self._writes)
        return self._far(self._read_writes(holding))

    def operations(self) -> Iterator[Operations]:
        """All operations of the run's model, in the order of the history."""
        return self._far(self._read_operations())

    def reads(self) -> Iterator[Reads]:
        """The records, of all readers."""
        if self._reads is None and self._keeps:
            self._reads = list(parquet_reader.reads(self._facts.reads))
        if self._reads:
            return iter(self._reads)
        return self._far(parquet_reader.reads(self._facts.reads))

    def deliveries(self) -> Iterator[Deliveries]:
        """What consumers did."""
        return self._far(parquet_reader.deliveries(self._facts.deliveries))

    def things(self) -> Iterator[tuple[Texts, Ints]]:
        """The keys and values of all rows."""
        if self._keeps:
            yield from ((rows.key, rows.value) for rows in self.writes())
            yield from ((rows.key, rows.value) for rows in self.reads())
        else:
            functions = self._model.writes
            yield from self._far(parquet_reader.written(self._facts.history, functions))
            yield from self._far(parquet_reader.keys_and_values(self._facts.reads))

    def bounds(self) -> Bounds:
        """See `harness.protocols.Run`."""
        written = partial(parquet_reader.written, functions=self._model.writes)
        return together(
            stated(path) or Bounds.of(read([path]))
            for read, paths in (
                (written, self._facts.history),
                (parquet_reader.keys_and_values, self._facts.reads),
            )
            for path in paths
        )

    def _far(self, parts: Iterator[Part]) -> Iterator[Part]:
        """Parts of a large run are read ahead."""
        return parts if self._keeps else ahead(parts)

    def _read_writes(self, holding: Holding | None = None) -> Iterator[Writes]:
        functions, paths = self._model.writes, iter(self._facts.history)
        if holding is not None:
            paths = (
                path
                for path in paths
                if any(holding(*each) for each in parquet_reader.written([path], functions))
            )
        return parquet_reader.writes(paths, functions)

    def _read_operations(self) -> Iterator[Operations]:
        return parquet_reader.operations(self._facts.history, self._model.functions)

"""`ackloss.lake`: the tables of a lake as pandas data frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from analysis.lake.delta import StoredLake
    from analysis.lake.schema import Table


@dataclass(frozen=True)
class Lake:
    """What many campaigns found, as tables (docs/how-to/lake.md).

    Nothing is kept in memory: each method reads its table, or the columns of it that are named. The
    lake is seen as it was when it was opened. All raise HistoryError for a damaged file, and
    QueryError for columns that the table does not have, and where `columns` is not a list of names.
    """

    _stored: StoredLake

    @property
    def campaigns(self) -> list[str]:
        """The campaigns that it holds."""
        return [campaign.id for campaign in self._stored.campaigns]

    @property
    def simulated(self) -> bool:
        """Whether nothing real was tested, in all of them."""
        return self._stored.simulated

    def runs(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each finished run."""
        return self._table("runs", columns)

    def cells(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each judged cell: the unit of statistics."""
        return self._table("cells", columns)

    def faults(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each fault of each judged cell."""
        return self._table("faults", columns)

    def findings(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each thing that a checker has found."""
        return self._table("findings", columns)

    def observations(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each answer of a node that was queried for who leads."""
        return self._table("observations", columns)

    def ops(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each invocation and completion; empty unless the lake was built with --ops."""
        return self._table("ops", columns)

    def sql(self, query: str) -> pd.DataFrame:
        """The answer of one query over these tables, by Spark. Raises QueryError where it cannot be
        run."""
        from analysis.lake.delta import frame_of
        from analysis.lake.query import query as answer

        return frame_of(answer(self._stored, query))

    def _table(self, name: str, columns: Sequence[str] | None) -> pd.DataFrame:
        from analysis.lake.schema import TABLES

        table = TABLES[name]
        return self._stored.read(table, None if columns is None else _chosen(columns, table))


def _chosen(columns: Iterable[str], table: Table) -> list[str]:
    """These columns of a table. Raises QueryError where it does not have them."""
    from harness.errors import QueryError, nearest

    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise QueryError(
            f"{columns!r} is not a list of columns",
            key="columns",
            hint='write a list, such as ["campaign", "run_id"]',
        )
    chosen, known = list(columns), table.schema.names
    for name in chosen:
        if name not in known:
            near = nearest(name, known) if isinstance(name, str) else None
            question = f"did you mean {near!r}? " if near else ""
            raise QueryError(
                f"the table {table.name} has no column {name!r}",
                key="columns",
                hint=f"{question}docs/how-to/lake.md#{table.name} lists its columns",
            )
    return chosen


def lake(address: str | os.PathLike[str]) -> Lake:
    """The lake in this folder, or at this `file://` or `s3://` address. Raises HistoryError if
    there is none."""
    from analysis.lake.delta import open_lake

    return Lake(open_lake(address))

"""SQL over a lake by DuckDB: in this process, without Java, for lakes that fit this machine."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from analysis.lake.schema import named_in
from analysis.lake.stored import StoredLake
from harness.errors import EnvironmentFailure, QueryError

_OWN_TABLES_ONLY: Final = {"python_enable_replacements": False, "python_scan_all_frames": False}
"""A name without a table is an error, and not a variable of this program."""
_OF_THE_QUERY: Final = (
    *("ParserException", "SyntaxException", "BinderException", "CatalogException"),
    *("ConversionException", "OutOfRangeException"),
)
"""Errors that the files have no part in."""


def run_duckdb(lake: StoredLake, sql: str) -> pa.Table:
    """The answer of a query, in UTC; the tables of the lake are its views. Raises QueryError for a
    query that cannot be run, HistoryError for a damaged lake, EnvironmentFailure without DuckDB."""
    duckdb = _duckdb()
    with duckdb.connect(config=dict(_OWN_TABLES_ONLY)) as connection:
        connection.execute("SET TimeZone = 'UTC'")  # days and hours are those of Spark's answer
        for table in named_in(sql):
            connection.register(table.name, lake.dataset(table))
        try:
            answer = connection.sql(sql)
            return pa.table({}) if answer is None else answer.to_arrow_table()
        except duckdb.Error as error:
            if type(error).__name__ not in _OF_THE_QUERY:
                lake.find_damage()
            raise QueryError(_sentence(error), file=lake.place.shown, key="SQL") from error


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise EnvironmentFailure(
            "DuckDB is not installed",
            hint="install the extra `ackloss[lake]`, or use --engine spark",
        ) from error
    return duckdb


def _sentence(error: Exception) -> str:
    """DuckDB's message without the line of the query that it repeats."""
    return str(error).strip().splitlines()[0]

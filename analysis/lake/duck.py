"""SQL over a lake by DuckDB: in this process, without Java, for lakes that fit this machine."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from analysis.lake.schema import named_in
from analysis.lake.statements import as_subquery, empty, not_a_query
from analysis.lake.stored import StoredLake
from harness.errors import EnvironmentFailure, QueryError
from harness.machine.scratch import scratch

_CONF: Final = {
    # A name without a table is an error, and not a variable of this program.
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
    # A SELECT may hold a COPY that writes a file (WITH ... AS (COPY ...)), and no setting forbids
    # writing alone. The files of the lake are read by Arrow.
    "enable_external_access": False,
}
_OF_THE_QUERY: Final = (
    *("ParserException", "SyntaxException", "BinderException", "CatalogException"),
    *("ConversionException", "OutOfRangeException", "PermissionException"),
)
"""Errors that the files have no part in."""


def run_duckdb(lake: StoredLake, sql: str) -> pa.Table:
    """The answer of a query, in UTC; the tables of the lake are its views. Raises QueryError for a
    query that cannot be run, HistoryError for a damaged lake, EnvironmentFailure without DuckDB."""
    duckdb = _duckdb()
    with (
        # Where it writes what does not fit into memory; by default into the current folder.
        scratch() as spilled,
        duckdb.connect(config={**_CONF, "temp_directory": spilled}) as connection,
    ):
        connection.execute("SET TimeZone = 'UTC'")  # days and hours are those of Spark's answer
        connection.execute("SET lock_configuration = true")  # functions of a query may change it
        try:
            _require_query(duckdb, sql)
            for table in named_in(sql):
                connection.register(table.name, lake.dataset(table))
            return connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            if type(error).__name__ not in _OF_THE_QUERY:
                lake.find_damage()
            raise QueryError(_sentence(error), file=lake.place.shown, key="SQL") from error


def _require_query(duckdb: Any, sql: str) -> None:
    """Raises QueryError unless this is one query, and what DuckDB raises where it is not SQL."""
    statements = duckdb.extract_statements(sql)
    if not statements:
        raise empty()
    if [each.type.name for each in statements] == ["SELECT"]:  # also of SHOW and DESCRIBE
        return
    try:  # a PIVOT is several statements, as is a CREATE with a PIVOT in it
        duckdb.extract_statements(as_subquery(sql))
    except duckdb.Error as error:
        raise not_a_query() from error


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

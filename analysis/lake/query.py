"""A query over a lake by one of two engines, and its answer as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal, get_args

import orjson
import pyarrow as pa

from analysis.lake.stored import StoredLake
from analysis.tables import csv_of
from harness.errors import QueryError

Engine = Literal["spark", "duckdb"]
ENGINES: Final = get_args(Engine)


def query(
    lake: StoredLake,
    sql: str,
    *,
    engine: Engine = "spark",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> pa.Table:
    """The answer of a query as a table. `master` and `conf` are Spark's. Raises QueryError,
    HistoryError and EnvironmentFailure."""
    if not sql.strip():
        raise QueryError("the query is empty", key="SQL")
    if engine == "duckdb":
        from analysis.lake.duck import run_duckdb

        answer = run_duckdb(lake, sql)
    else:
        from analysis.lake.spark import run_spark

        answer = run_spark(lake, sql, master=master, conf=conf)
    names = answer.column_names
    if twice := {name for name in names if names.count(name) > 1}:
        raise QueryError(
            f"several columns of the answer are named {min(twice)}",
            key="SQL",
            hint="give each its own name with AS",
        )
    return answer


def rows(table: pa.Table) -> list[list[Any]]:
    """The rows as JSON has them: maps as objects, whole decimals as integers, no NaN."""
    return [list(row) for row in zip(*_values(table), strict=True)]


def _values(table: pa.Table) -> list[list[Any]]:
    """The values of each column."""
    lists = (column.to_pylist(maps_as_pydicts="lossy") for column in table.columns)
    return [[_plain(value) for value in values] for values in lists]


def as_csv(table: pa.Table) -> bytes:
    """The answer as CSV that is safe to open in a spreadsheet; lists and maps are JSON."""
    columns = {
        name: pa.array([None if value is None else text(value) for value in values], pa.string())
        if pa.types.is_nested(field.type)
        else column
        for name, field, column, values in zip(
            table.column_names, table.schema, table.columns, _values(table), strict=True
        )
    }
    return csv_of(pa.table(columns))


def text(value: object) -> str:
    """A value of a row for people: null is empty, lists and maps are JSON."""
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return orjson.dumps(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case date() | datetime() | time():
            return value.isoformat()
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {str(_plain(key)): _plain(each) for key, each in value.items()}
        case _:
            return str(value)

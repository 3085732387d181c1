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
    if engine == "duckdb":
        from analysis.lake.duck import run_duckdb

        return run_duckdb(lake, sql)
    from analysis.lake.spark import run_spark

    return run_spark(lake, sql, master=master, conf=conf)


def rows(table: pa.Table) -> list[list[Any]]:
    """The rows as JSON has them: maps as objects, whole decimals as integers, no NaN."""
    columns = [column.to_pylist(maps_as_pydicts="lossy") for column in table.columns]
    return [[_plain(value) for value in row] for row in zip(*columns, strict=True)]


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

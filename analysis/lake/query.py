"""A query over a lake by one of two engines, and its answer as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, get_args

import orjson
import pyarrow as pa

from analysis.lake.schema import TEXT
from analysis.lake.statements import empty
from analysis.lake.stored import StoredLake
from analysis.tables import csv_of
from harness.errors import QueryError

Engine = Literal["spark", "duckdb"]
ENGINES: Final = get_args(Engine)

_FLAT: Final = (
    *(pa.types.is_null, pa.types.is_boolean, pa.types.is_string),
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    *(pa.types.is_date, pa.types.is_time, pa.types.is_timestamp),
)
"""Types that CSV has as they are."""
_JSON_INTEGERS: Final = range(-(2**63), 2**64)
_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)


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
    if engine not in ENGINES:
        raise QueryError(
            f"the engine {engine!r} is unknown", key="engine", hint=f"use {' or '.join(ENGINES)}"
        )
    if not sql.strip():
        raise empty()
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
    """The rows as JSON has them: maps as objects, whole decimals as integers, no NaN; intervals as
    ISO 8601 has them (`P1DT3600S`), bytes in hexadecimal, integers beyond 64 bits as text."""
    return [list(row) for row in zip(*map(_values, table.columns), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    return [_plain(value, column.type) for value in column.to_pylist()]


def as_csv(table: pa.Table) -> bytes:
    """The answer as CSV that is safe to open in a spreadsheet; lists and maps are JSON."""
    columns = {
        name: column
        if any(is_one(column.type) for is_one in _FLAT)
        else pa.array([None if value is None else text(value) for value in _values(column)], TEXT)
        for name, column in zip(table.column_names, table.columns, strict=True)
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


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value of this type as JSON has it."""
    match value:
        case list() if pa.types.is_map(kind):
            return {_key(key, kind.key_type): _plain(each, kind.item_type) for key, each in value}
        case list() if hasattr(kind, "value_type"):  # any of Arrow's kinds of lists
            return [_plain(each, kind.value_type) for each in value]
        case dict():
            return {name: _plain(each, kind.field(name).type) for name, each in value.items()}
        case _:
            return _scalar(value)


def _key(key: Any, kind: pa.DataType) -> str:
    """A key of a map, which JSON has as text."""
    plain = _plain(key, kind)
    return plain if isinstance(plain, str) else orjson.dumps(plain).decode()


def _scalar(value: Any) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if value in _JSON_INTEGERS else str(value)
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return _scalar(int(value)) if value == value.to_integral_value() else float(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            days = int(value / _DAY)
            return _interval(0, days, Decimal((value - days * _DAY) // _MICROSECOND) / 10**6)
        case pa.MonthDayNano():
            months, days, nanoseconds = value
            return _interval(months, days, Decimal(nanoseconds) / 10**9)
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _interval(months: int, days: int, seconds: Decimal) -> str:
    """An interval as ISO 8601 has it, without what is 0."""
    whole = "".join(f"{number}{unit}" for number, unit in ((months, "M"), (days, "D")) if number)
    return f"P{whole}T{seconds.normalize():f}S" if seconds or not whole else f"P{whole}"

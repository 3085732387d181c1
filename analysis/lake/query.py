"""SQL over a lake by Spark, on all cores of this machine or on a cluster that shares the lake, and
the answer as plain values.

The tables are temporary views of the Parquet files that Delta names, so Spark needs no extra jar
for a lake on this machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from analysis.lake.delta import AGAIN, CAMPAIGNS, TABLES, TEXT, StoredLake, Table
from analysis.tables import csv_of
from harness.errors import EnvironmentFailure, HistoryError, QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HADOOP: Final = {"s3": "s3a", "gcs": "gs"}
"""Hadoop's names of schemes whose files it has by the same paths."""
_LACKING: Final = re.compile(
    r"No FileSystem for scheme|ClassNotFoundException: Class org\.apache\.hadoop\.fs\."
)
_DAMAGED: Final = re.compile(
    r"(?:FAILED_READ_FILE|CANNOT_READ_FILE|PATH_NOT_FOUND|CANNOT_LOAD)[^\n]*?(\w+:/[^\s]+\.parquet)"
)
"""What Spark says of a file that it cannot read."""

_FLAT: Final = (
    *(pa.types.is_null, pa.types.is_boolean, pa.types.is_string),
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    *(pa.types.is_date, pa.types.is_time, pa.types.is_timestamp),
)
"""Types that CSV has as they are."""
_JSON_INTEGERS: Final = range(-(2**63), 2**64)
_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)


def query(
    lake: StoredLake, sql: str, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> pa.Table:
    """The answer of a query as a table, in UTC; the tables of the lake are its temporary views. The
    first use of Spark in a process decides its `master` and `conf`. Raises QueryError for a query
    that cannot be run, HistoryError for a damaged lake, EnvironmentFailure where Spark does not
    start or lacks the connector of the lake's storage."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from checkers.judging.spark import context, failures_in_words

    # It would print every error of a query on stderr, with the stack of the JVM.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    session = SparkSession(context(master, conf)).newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)
    try:
        for table in (CAMPAIGNS, *TABLES.values()):
            _frame(session, lake, table).createOrReplaceTempView(table.name)
        found = session.sql(sql)
        answer = found.toArrow() if found.columns else pa.table({})
    except (PySparkException, Py4JError) as error:
        if _LACKING.search(str(error)):
            raise EnvironmentFailure(
                "Spark here has no connector for the storage of this lake",
                file=lake.shown,
                hint="name it with --conf spark.jars.packages=... (docs/how-to/lake.md)",
            ) from error
        if damaged := _DAMAGED.search(str(error)):
            raise HistoryError(
                f"a file of this lake is missing or damaged: {damaged[1]}",
                file=lake.shown,
                hint=AGAIN,
            ) from error
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        text = re.sub(r"^\s*\[[\w.]+\]\s*", "", str(error))
        sentence = re.split(r"\s*SQLSTATE:|\n", text, maxsplit=1)[0].strip()
        if condition is None:
            with failures_in_words():
                raise
        raise QueryError(sentence, file=lake.shown, key="SQL") from error
    names = answer.column_names
    if twice := {name for name in names if names.count(name) > 1}:
        raise QueryError(
            f"several columns of the answer are named {min(twice)}",
            key="SQL",
            hint="give each its own name with AS",
        )
    return answer


def _frame(session: SparkSession, lake: StoredLake, table: Table) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(table.schema)
    for field, column in zip(schema.fields, table.columns, strict=True):
        field.metadata = {"comment": column.about}  # DESCRIBE prints it
    files = [_hadoop(file) for file in lake.files(table)]
    if not files:
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(*files)


def _hadoop(file: str) -> str:
    """The name that Spark has for a file."""
    scheme, mark, rest = file.partition("://")
    return f"{_HADOOP.get(scheme, scheme)}://{rest}" if mark else f"file://{file}"


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

"""SQL over a lake by Spark: on all cores of this machine, or on a cluster that shares the lake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.functions import decode, encode
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.lake.hadoop import hadoop_url, lacks_connector, no_connector
from analysis.lake.schema import CAMPAIGN, Table, named_in
from analysis.lake.statements import as_subquery, not_a_query
from analysis.lake.stored import StoredLake
from checkers.judging.spark import context, failures_in_words
from harness.errors import QueryError

_CONF: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Campaigns are named by dates, which are texts.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
_READING: Final = {
    "parquet.page.verify-checksum.enabled": "true",
    # A bracket in the name of the lake's folder is not a pattern.
    "__globPaths__": "false",
}
_OF_FILES: Final = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "PATH_NOT_FOUND", "CANNOT_LOAD")
"""Beginnings of the names of errors that are about files, and not about the query."""


def run_spark(
    lake: StoredLake,
    sql: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> pa.Table:
    """The answer of a query; the tables of the lake are its temporary views. The first use of Spark
    in a process decides its `master` and `conf`. Raises QueryError for a query that cannot be run,
    HistoryError for a damaged lake or one where Spark cannot read, EnvironmentFailure where Spark
    does not start or lacks the connector of the lake's storage."""
    base = hadoop_url(lake.place.folder)  # before Spark starts
    # It would print every error of a query on stderr, with the stack of the JVM.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    session = SparkSession(context(master, conf)).newSession()
    for name, value in _CONF.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)
    try:
        _require_query(session, sql)
        for table in named_in(sql):
            _frame(session, lake, base, table).createOrReplaceTempView(table.name)
        answer = session.sql(sql)
        return answer.toArrow() if answer.columns else pa.table({})
    except (PySparkException, Py4JError) as error:
        if lacks_connector(error):
            raise no_connector(lake.place.folder) from error
        sentence = _sentence(error)
        if sentence is None:
            lake.find_damage()
            with failures_in_words():
                raise
        raise QueryError(sentence, file=lake.place.shown, key="SQL") from error


def _require_query(session: SparkSession, sql: str) -> None:
    """Raises QueryError unless this is one query, and ParseException where it is not SQL. Nothing
    is run: Spark runs a command as soon as it has it."""
    parser = session._jsparkSession.sessionState().sqlParser()
    if parser.parsePlan(sql).getClass().getSimpleName().startswith(("Show", "Describe")):
        return
    try:
        parser.parsePlan(as_subquery(sql))
    except ParseException as error:
        # A comment after the semicolon at the end: what is before it is a query.
        if (error.getMessageParameters() or {}).get("error") != "';'":
            raise not_a_query() from error


def _frame(session: SparkSession, lake: StoredLake, base: str, table: Table) -> Any:
    lake.dataset(table)  # its files are there, each as long as it should be
    schema = from_arrow_schema(table.schema)
    paths = [f"{base}/{part.path}" for _, part in lake.manifest.parts(table.name)]
    if not paths:
        return session.createDataFrame([], schema)
    reader = session.read.schema(schema).option("basePath", f"{base}/{table.name}")
    for name, value in _READING.items():
        reader = reader.option(name, value)
    # Spark puts the column of the folders last, and reads each escaped byte as a character.
    read = reader.parquet(*paths).select(table.schema.names)
    return read.withColumn(CAMPAIGN, decode(encode(CAMPAIGN, "ISO-8859-1"), "UTF-8"))


def _sentence(error: Exception) -> str | None:
    """What Spark says of a query, without its code; `None` where it is not about the query."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition is None or condition.startswith(_OF_FILES):
        return None
    text = re.sub(r"^\s*\[[\w.]+\]\s*", "", str(error))
    return re.split(r"\s*SQLSTATE:|\n", text, maxsplit=1)[0].strip()

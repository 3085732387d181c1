"""Histories of any number of runs as Spark frames, in the schemas of `harness.history`.

Rows are read from the runs' own Parquet files, and only the columns that an expression asks for.
What is known of each run beside its rows (`checkers.facts`) becomes one small frame, a row a run,
that is joined by broadcast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final, Protocol, cast, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from checkers.facts import Facts
from harness.history import HISTORY, READS, WRITE

FOREVER_NS: Final = 2**63 - 1

_SPARK_TYPES: Final = {pa.string(): "string", pa.int32(): "int", pa.int64(): "long"}

_ABOUT: Final = pa.schema(
    [
        pa.field("run_id", pa.string()),
        pa.field("fire_and_forget", pa.bool_()),
        pa.field(
            "ends",
            pa.list_(
                pa.struct(
                    {
                        "partition": pa.int32(),
                        "log_start": pa.int64(),
                        "read_to": pa.int64(),
                        "whole": pa.bool_(),
                    }
                )
            ),
        ),
        pa.field(
            "windows",
            pa.list_(pa.struct({"id": pa.string(), "from_ns": pa.int64(), "to_ns": pa.int64()})),
        ),
    ]
)


@runtime_checkable
class Checker(Protocol):
    """A pure function from histories to findings, for any number of runs at once.

    It never collects a history to the driver and runs no Python on rows.
    """

    plugin: ClassVar[str]

    def findings(self, histories: Histories) -> DataFrame:
        """One row a finding, with at least `run_id` and `kind`."""
        ...


@dataclass(frozen=True)
class Histories:
    """The rows of several runs; their run ids differ."""

    spark: SparkSession
    facts: Mapping[str, Facts]

    def only(self, run_ids: Collection[str]) -> Histories:
        """The histories of some of these runs; no other run's file is opened."""
        return Histories(self.spark, {run_id: self.facts[run_id] for run_id in run_ids})

    @cached_property
    def writes(self) -> DataFrame:
        """Rows of HISTORY that are writes: neither the nemesis' nor other operations."""
        rows = self._parquet([p for facts in self.facts.values() for p in facts.history], HISTORY)
        return rows.where(
            (F.col("process") >= 0) & (F.col("f") == WRITE) & F.col("value").isNotNull()
        )

    @cached_property
    def reads(self) -> DataFrame:
        """`run_id, key, partition, offset, value` of every record read; where several readers
        read the same log, each record once."""
        columns = ("run_id", "key", "partition", "offset", "value")
        solo = [p for facts in self.facts.values() if facts.readers < 2 for p in facts.reads]
        several = [p for facts in self.facts.values() if facts.readers > 1 for p in facts.reads]
        rows = self._parquet(solo, READS).select(*columns)
        if not several:
            return rows
        return rows.unionByName(self._parquet(several, READS).select(*columns).distinct())

    @cached_property
    def about(self) -> DataFrame:
        """One row a run: `fire_and_forget` (acks=0), `ends`, and the `windows` of its faults."""
        rows = [
            {
                "run_id": facts.run_id,
                "fire_and_forget": facts.acks == "0",
                "ends": [vars(end) for end in facts.ends],
                "windows": [
                    {
                        "id": window.id,
                        "from_ns": round(window.from_s * 1e9),
                        "to_ns": FOREVER_NS if window.to_s is None else round(window.to_s * 1e9),
                    }
                    for window in facts.windows
                    if window.from_s is not None
                ],
            }
            for facts in self.facts.values()
        ]
        table = pa.Table.from_pylist(rows, schema=_ABOUT)
        return F.broadcast(self.spark.createDataFrame(table))

    def _parquet(self, paths: Sequence[Path], schema: pa.Schema) -> DataFrame:
        reader = self.spark.read.schema(_spark_schema(schema))
        if not paths:
            return self.spark.createDataFrame([], _spark_schema(schema))
        # Names are names: a bracket in a folder's name is no pattern.
        return reader.option("__globPaths__", "false").parquet(*map(str, paths))


def _spark_schema(schema: pa.Schema) -> StructType:
    fields = [
        f"`{field.name}` "
        + _SPARK_TYPES[field.type.value_type if pa.types.is_dictionary(field.type) else field.type]
        for field in schema
    ]
    return cast(StructType, StructType.fromDDL(", ".join(fields)))

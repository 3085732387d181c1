"""What became of every written value: a sieve over words of 64 values, then the few that stick.

Values of a run are dense integers, so 64 neighbours fit the bits of one long. Conditional
aggregations with bitwise ors, `groupBy(run_id, key, partition, value div 64)` and then without the
partition, tell of each of them whether it was invoked, how it ended and whether it was read where
it was sent to. Their groups are few, so nearly all of it happens before the first of the two
shuffles: a third of the processor time of a plain `groupBy(run_id, key, value)`, and a tenth of its
memory. (Sparse values only fill their words less.)

A value is *plain* when its place in the log is what was promised: acknowledged and read, once and
where it was sent to; refused and not read; or unknown and either of them. Plain values are counted
by their bits. All others are *odd*: lost, refused and found, duplicated, unexpected, on a wrong
partition. They are looked up again by value, with all that is known of them; where there are none,
there is no second pass.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.histories import Histories

INVOKED: Final = 1
OK: Final = 2
FAIL: Final = 4
INFO: Final = 8
READ: Final = 16

_FEW: Final = 1_000_000
"""So many odd values, at most, are sent to every task."""

_BITS: Final = {"invoked": INVOKED, "ok": OK, "fail": FAIL, "info": INFO, "read": READ}

_HOME: Final = "(invoked | ok | fail | info) & read"
_ODD: Final = (
    "(ok & ~read) | (fail & read & ~(ok | info)) | (read & ~home)"
    " | if(copies = bit_count(read), 0L, read)"
)
_PLAIN: Final = {
    "attempted": "(invoked | ok | fail | info) & ~odd",
    "ok": "ok & ~odd",
    "failed": "fail & ~(ok | info | odd)",
    "found": "read & ~odd",
    "odd": "odd",
}


def words(histories: Histories) -> DataFrame:
    """One row for 64 neighbouring values: `run_id, key, word` (value div 64), the bits `invoked,
    ok, fail, info, read`, and `odd`, the bits of the values that need a closer look."""
    columns = ("run_id", "key", "partition", "value")
    rows = histories.writes.select(*columns, _mark().alias("mark")).unionByName(
        histories.reads.select(*columns, F.lit(READ).alias("mark"))
    )
    word, bit = F.shiftright("value", 6), F.expr("shiftleft(1L, cast(value & 63 as int))")
    by_partition = (
        rows.withColumns({"word": word, "bit": bit})
        .groupBy("run_id", "key", "partition", "word")
        .agg(
            *(_bits(mark).alias(name) for name, mark in _BITS.items()),
            F.count(F.when(F.col("mark") == READ, 1)).alias("copies"),
        )
        .withColumn("home", F.expr(_HOME))
    )
    return (
        by_partition.repartition("run_id")
        .groupBy("run_id", "key", "word")
        .agg(
            *(F.bit_or(name).alias(name) for name in (*_BITS, "home")),
            F.sum("copies").alias("copies"),
        )
        .withColumn("odd", F.expr(_ODD))
    )


def _mark() -> Column:
    kind = F.col("type")
    return (
        F.when(kind == "ok", OK)
        .when(kind == "invoke", INVOKED)
        .when(kind == "fail", FAIL)
        .otherwise(INFO)
    )


def _bits(mark: int) -> Column:
    return F.bit_or(F.when(F.col("mark") == mark, F.col("bit")).otherwise(F.lit(0).cast("long")))


def plain_tally(found: DataFrame) -> DataFrame:
    """Per run, from `words`: how many plain values were `attempted`, ended `ok`, `failed`, were
    `found`, and how many values are `odd`."""
    return found.groupBy("run_id").agg(
        *(F.sum(F.expr(f"bit_count({bits})")).alias(name) for name, bits in _PLAIN.items())
    )


def odd_values(found: DataFrame, *, count: int = _FEW + 1) -> DataFrame:
    """The odd values of `words` as `odd_run_id, odd_key, odd_value`; how they are joined depends on
    their `count`."""
    values = found.where("odd <> 0").select(
        F.col("run_id").alias("odd_run_id"),
        F.col("key").alias("odd_key"),
        F.expr(
            "explode(transform("
            "filter(sequence(0, 63), place -> shiftright(odd, place) & 1 = 1), "
            "place -> shiftleft(word, 6) | place))"
        ).alias("odd_value"),
    )
    return F.broadcast(values) if count <= _FEW else values


def looked_up(histories: Histories, values: DataFrame) -> DataFrame:
    """One row for each of the odd `values` with all that the rows of its run say of it.

    `marks` (a sum of INVOKED, OK, FAIL, INFO, READ), `process`, `partition` and `offset` as the
    client knew them, `sent_to` (every partition it was sent to), `intended_ns, invoke_ns,
    complete_ns, error`, and `copies`: the distinct places (partition, offset) at which it was
    read, sorted.
    """
    writes = histories.writes.withColumn("mark", _mark())
    reads = histories.reads.select(
        "run_id",
        "key",
        "value",
        F.lit(READ).alias("mark"),
        F.struct("partition", "offset").alias("copy"),
    )
    rows = _among(writes, values).unionByName(_among(reads, values), allowMissingColumns=True)
    invoked = F.col("mark") == INVOKED
    return rows.groupBy("run_id", "key", "value").agg(
        F.bit_or("mark").alias("marks"),
        F.max("process").alias("process"),
        F.max("partition").alias("partition"),
        F.collect_set("partition").alias("sent_to"),
        F.max(F.when(F.col("mark") == OK, F.col("offset"))).alias("offset"),
        F.min("intended_ns").alias("intended_ns"),
        F.min(F.when(invoked, F.col("time_ns"))).alias("invoke_ns"),
        F.max(F.when(~invoked, F.col("time_ns"))).alias("complete_ns"),
        F.max("error").alias("error"),
        F.array_sort(F.collect_set("copy")).alias("copies"),
    )


def _among(rows: DataFrame, values: DataFrame) -> DataFrame:
    same = F.expr("run_id = odd_run_id AND key <=> odd_key AND value = odd_value")
    return rows.join(values, on=same, how="left_semi")

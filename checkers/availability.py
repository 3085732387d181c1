"""How available the cluster was to the clients of each run, from the rows of its operations.

Latency is counted from the instant at which a write was due, as on the page: a stall cannot hide
behind clients that wait for it (coordinated omission). Lateness is how long after that the write
was begun. Percentiles come from a histogram whose cells are 1 % wide, so they are that exact.

The longest gap between acknowledgements, from the first attempt to the last, needs no sorting:
the first and the last acknowledgement of every short stretch of time are enough for each gap that
is longer than a stretch. Where none is, what is told is the longest that is seen across borders of
stretches, a lower bound within a stretch's length of the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.histories import Histories

_STRETCHES: Final = 2000
_STRETCH_NS: Final = (1_000_000, 100_000_000)

_CELLS: Final = 100
"""Cells of the histogram for each factor of e."""


@dataclass(frozen=True, kw_only=True)
class Availability:
    """What clients saw of one run, null where nothing tells; `attempted_in_fault`: whether an
    operation was begun while a fault was on."""

    longest_gap_s: float | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    lateness_p99_ms: float | None = None
    attempted_in_fault: bool = False


def availability(histories: Histories) -> dict[str, Availability]:
    """What clients saw, by run id; a run without operations is missing."""
    seen = {row["run_id"]: row.asDict() for row in gaps(histories).collect()}
    delays = {row["run_id"]: row.asDict() for row in percentiles(histories).collect()}
    return {
        run_id: _told({**row, **delays[run_id]}, timed=histories.facts[run_id].timed)
        for run_id, row in seen.items()
        if run_id in histories.facts
    }


def _told(row: Mapping[str, Any], *, timed: bool) -> Availability:
    if not timed:
        return Availability()
    return Availability(
        longest_gap_s=None if row["gap_ns"] is None else round(row["gap_ns"] / 1e9, 6),
        attempted_in_fault=bool(row["attempted_in_fault"]),
        **{
            name: None if row[name] is None else round(row[name], 3)
            for name in ("latency_p50_ms", "latency_p99_ms", "lateness_p99_ms")
        },
    )


def gaps(histories: Histories) -> DataFrame:
    """Per run: `gap_ns`, the longest time without an acknowledgement between the first and the last
    attempt, and `attempted_in_fault`."""
    longest_s = max((facts.duration_s for facts in histories.facts.values()), default=0.0)
    least_ns, most_ns = _STRETCH_NS
    stretch_ns = min(max(int(longest_s * 1e9 / _STRETCHES), least_ns), most_ns)
    begun = F.when(F.col("type") == "invoke", F.col("time_ns"))
    acked = F.when(F.col("type") == "ok", F.col("time_ns"))
    stretches = (
        histories.writes.where(F.col("type").isin("invoke", "ok"))
        .groupBy("run_id", F.expr(f"time_ns div {stretch_ns}").alias("stretch"))
        .agg(
            F.min(begun).alias("first_begun"),
            F.max(begun).alias("last_begun"),
            F.min(acked).alias("first_acked"),
            F.max(acked).alias("last_acked"),
        )
    )
    in_order = Window.partitionBy("run_id").orderBy("stretch")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    since = F.coalesce(F.max("last_acked").over(before), F.min("first_begun").over(so_far))
    in_fault = "exists(windows, w -> {0} BETWEEN w.from_ns AND w.to_ns)"
    return (
        stretches.withColumn("gap", F.col("first_acked") - since)
        .join(histories.about, on="run_id", how="inner")
        .groupBy("run_id")
        .agg(
            F.greatest(
                F.max("gap"),
                F.max("last_begun") - F.coalesce(F.max("last_acked"), F.min("first_begun")),
            ).alias("gap_ns"),
            F.max(
                F.expr(f"{in_fault.format('first_begun')} OR {in_fault.format('last_begun')}")
            ).alias("attempted_in_fault"),
        )
    )


def percentiles(histories: Histories) -> DataFrame:
    """Per run: `latency_p50_ms, latency_p99_ms` of acknowledged writes, and `lateness_p99_ms`."""
    delay = F.greatest(F.col("time_ns") - F.col("intended_ns"), F.lit(1))
    cells = (
        histories.writes.where(F.col("type").isin("invoke", "ok"))
        .groupBy("run_id", "type", F.floor(F.log(delay) * _CELLS).alias("cell"))
        .agg(F.count(F.lit(1)).alias("n"))
    )
    all_ = Window.partitionBy("run_id", "type")
    below = F.sum("n").over(all_.orderBy("cell")) / F.sum("n").over(all_)
    return (
        cells.withColumn("below", below)
        .groupBy("run_id")
        .agg(
            _percentile(0.5, "ok").alias("latency_p50_ms"),
            _percentile(0.99, "ok").alias("latency_p99_ms"),
            _percentile(0.99, "invoke").alias("lateness_p99_ms"),
        )
    )


def _percentile(share: float, kind: str) -> Column:
    """The middle, in milliseconds, of the first cell up to which there is this share; or null."""
    reached = (F.col("type") == kind) & (F.col("below") >= share)
    return F.exp((F.min(F.when(reached, F.col("cell"))) + 0.5) / _CELLS) / 1e6

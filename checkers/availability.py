"""How available the cluster was to the clients of each run, from the rows of its operations.

Latency is counted from the instant at which a write was due, as on the page: a stall cannot hide
behind clients that wait for it (coordinated omission). Lateness is how long after that the write
was begun. Percentiles come from a histogram whose cells are 1 % wide, so they are that exact.

The longest gap between acknowledgements, from the first attempt to the last, needs no sorting:
the first and the last acknowledgement of every short stretch of time are enough for each gap that
is longer than a stretch. Where none is, what is told is the longest that is seen across borders of
stretches, a lower bound within a stretch's length of the truth.

Both come from one pass over the operations: a grouping set each.
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

_IN_FAULT: Final = (
    "type = 'invoke' AND exists(windows, w -> first_ns BETWEEN w.from_ns AND w.to_ns"
    " OR last_ns BETWEEN w.from_ns AND w.to_ns)"
)


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
    return {
        row["run_id"]: _told(row.asDict(), timed=histories.facts[row["run_id"]].timed)
        for row in seen(histories).collect()
        if row["run_id"] in histories.facts
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


def seen(histories: Histories) -> DataFrame:
    """Per run: `gap_ns`, the longest time without an acknowledgement between the first and the last
    attempt; `attempted_in_fault`; `latency_p50_ms, latency_p99_ms` of acknowledged writes;
    `lateness_p99_ms`."""
    in_order = Window.partitionBy("run_id").orderBy("stretch")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    first_begun, last_begun, first_acked, last_acked = (
        F.when((F.col("type") == kind) & F.col("stretch").isNotNull(), F.col(name))
        for kind in ("invoke", "ok")
        for name in ("first_ns", "last_ns")
    )
    since = F.coalesce(F.max(last_acked).over(before), F.min(first_begun).over(so_far))
    alike = Window.partitionBy("run_id", "type", F.col("cell").isNull())
    share = F.sum("n").over(alike.orderBy("cell")) / F.sum("n").over(alike)
    since_the_last = F.max(last_begun) - F.coalesce(F.max(last_acked), F.min(first_begun))
    return (
        _grouped(histories)
        .withColumns({"gap_ns": first_acked - since, "share": share})
        .join(histories.about, on="run_id", how="inner")
        .groupBy("run_id")
        .agg(
            F.greatest(F.max("gap_ns"), since_the_last).alias("gap_ns"),
            F.max(F.expr(_IN_FAULT)).alias("attempted_in_fault"),
            _percentile(0.5, "ok").alias("latency_p50_ms"),
            _percentile(0.99, "ok").alias("latency_p99_ms"),
            _percentile(0.99, "invoke").alias("lateness_p99_ms"),
        )
    )


def _grouped(histories: Histories) -> DataFrame:
    """How many operations began (invoke) and were acknowledged (ok), and when the first and last
    of them, by run and `stretch` of time, and again by run and `cell` of the delays."""
    longest_s = max((facts.duration_s for facts in histories.facts.values()), default=0.0)
    least_ns, most_ns = _STRETCH_NS
    stretch_ns = min(max(int(longest_s * 1e9 / _STRETCHES), least_ns), most_ns)
    delay_ns = F.greatest(F.col("time_ns") - F.col("intended_ns"), F.lit(1))
    begun_or_acked = histories.writes.where(F.col("type").isin("invoke", "ok")).select(
        "run_id",
        "type",
        "time_ns",
        F.expr(f"time_ns div {stretch_ns}").alias("stretch"),
        F.floor(F.log(delay_ns) * _CELLS).alias("cell"),
    )
    by = ("run_id", "type", "stretch", "cell")
    return begun_or_acked.groupingSets([by[:3], (*by[:2], by[3])], *by).agg(
        F.count(F.lit(1)).alias("n"),
        F.min("time_ns").alias("first_ns"),
        F.max("time_ns").alias("last_ns"),
    )


def _percentile(share: float, kind: str) -> Column:
    """The middle, in milliseconds, of the first cell up to which there is this share; or null."""
    reached = (F.col("type") == kind) & (F.col("share") >= share)
    return F.exp((F.min(F.when(reached, F.col("cell"))) + 0.5) / _CELLS) / 1e6

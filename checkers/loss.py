"""The loss checker: which acknowledged writes are lost, and what else is not as it was promised.

A write is *acknowledged* when the client was told ok with acks=1 or all; with acks=0 it was only
*sent*. It is *found* when it was read on the partition that it was sent to. What was acknowledged
and not found is

    not_yet_visible  where it may stand beyond what was read: its offset is at or beyond the end
                     that was read, or not known, and its partition was not read to its end while
                     its ISR was whole
    deleted          else, where it stands below a log start above 0 (or its offset is not known)
    lost             else

The count `lost` includes `deleted`; a finding has one of the three kinds. So always
acknowledged + unacknowledged_found = survivors + lost + not_yet_visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.histories import Histories
from checkers.outcomes import FAIL, INFO, OK, READ, looked_up, odd_values, plain_tally, words
from checkers.verdict import Counts

# Where it is not known where a write was sent to, any partition is the right one.
_AT_HOME: Final = "attempted AND (size(sent_to) = 0 OR array_contains(sent_to, c.partition))"

# Each expression may stand on those before it.
_JUDGED: Final = {
    "attempted": f"marks <> {READ}",
    "told_ok": f"marks & {OK} <> 0",
    "until": "get(filter(ends, each -> each.partition = partition), 0)",
    "acknowledged": "told_ok AND NOT fire_and_forget",
    "sent": "told_ok AND fire_and_forget",
    "failed": f"NOT told_ok AND marks & {INFO} = 0 AND marks & {FAIL} <> 0",
    "home": f"filter(copies, c -> {_AT_HOME})",
    "astray": f"filter(copies, c -> NOT ({_AT_HOME}))",
    "unknown": "attempted AND NOT told_ok AND NOT failed",
    "survivors": "size(home) > 0",
    "absent": "acknowledged AND size(home) = 0",
    "beyond": "NOT coalesce(until.whole, false) AND coalesce(offset >= until.read_to, true)",
    "below": "coalesce(until.log_start, 0) > 0 AND coalesce(offset < until.log_start, true)",
    "lost": "absent AND NOT beyond",
    "not_yet_visible": "absent AND beyond",
    "deleted": "absent AND NOT beyond AND below",
    "unacknowledged_found": "survivors AND NOT acknowledged",
    "failed_found": "survivors AND failed",
    "unknown_found": "survivors AND unknown",
    "unexpected": "size(astray) > 0",
    "duplicates": "greatest(size(copies) - 1, 0)",
}

_NOWHERE: Final = "array(struct(cast(null as int) AS partition, cast(null as bigint) AS offset))"
KINDS: Final[Mapping[str, str]] = {
    "lost": f"if(lost AND NOT deleted, {_NOWHERE}, array())",
    "deleted": f"if(deleted, {_NOWHERE}, array())",
    "not_yet_visible": f"if(not_yet_visible, {_NOWHERE}, array())",
    "failed_found": "if(failed_found, slice(home, 1, 1), array())",
    "unexpected": "slice(astray, 1, 1)",
    "duplicate": "slice(copies, 2, greatest(size(copies) - 1, 0))",
}
"""The kinds of findings, each with the places at which it was found: one row a place. (That an
unknown write is there is nobody's fault; such writes are only counted.)"""

_FAULT: Final = (
    "nullif(array_join(transform(filter(windows, w -> "
    "coalesce(complete_ns, invoke_ns) BETWEEN w.from_ns AND w.to_ns), w -> w.id), ','), '')"
)


@dataclass(frozen=True)
class Checked:
    """What the loss checker says of several runs.

    `counts` by run id; `judged`, cached, one row for each value that is not plain, null where all
    are.
    """

    counts: Mapping[str, Counts]
    judged: DataFrame | None

    @property
    def findings(self) -> DataFrame | None:
        """The rows of `Loss.findings`; null where nothing can be found."""
        return None if self.judged is None else _findings(self.judged)


@dataclass(frozen=True)
class Loss:
    """Counts acknowledged writes that are lost, and what else was not promised: refused writes that
    are there, duplicates, values that nobody wrote.

    `idempotent_producer` says of histories from elsewhere that duplicates should be impossible.
    """

    plugin: ClassVar[str] = "loss"

    idempotent_producer: bool = False

    def findings(self, histories: Histories) -> DataFrame:
        """One row a finding: `run_id, kind, key, value, process, partition, offset` (as the client
        knew them), `intended_ns, invoke_ns, complete_ns, error, fault` (the windows in which it
        was answered, or begun where it never was, joined by commas), and for what was found
        `found_partition, found_offset`."""
        return _findings(_judged(histories, odd_values(words(histories))))

    def check(self, histories: Histories) -> Checked:
        """Counts and findings of all these runs."""
        found = words(histories).persist()
        tallies = {row["run_id"]: row.asDict() for row in plain_tally(found).collect()}
        counts = {
            run_id: _plain_counts(tallies.get(run_id), sent=facts.acks == "0")
            for run_id, facts in histories.facts.items()
        }
        odd = {run_id: tally["odd"] for run_id, tally in tallies.items() if tally["odd"]}
        judged = None
        if odd:
            values = odd_values(found, count=sum(odd.values()))
            judged = _judged(histories.only(odd), values).persist()
            for row in _tally(judged).collect():
                told = row.asDict()
                counts[told.pop("run_id")] += Counts(**told)
        found.unpersist()
        return Checked(counts, judged)


def _plain_counts(tally: Mapping[str, Any] | None, *, sent: bool) -> Counts:
    """Counts of plain values: what ended ok was found, what was refused was not."""
    if tally is None:
        return Counts()
    attempted, ok, failed, found = (tally[name] for name in ("attempted", "ok", "failed", "found"))
    return Counts(
        attempted=attempted,
        acknowledged=0 if sent else ok,
        sent=ok if sent else 0,
        failed=failed,
        unknown=attempted - ok - failed,
        survivors=found,
        unacknowledged_found=found if sent else found - ok,
        unknown_found=found - ok,
    )


def _judged(histories: Histories, values: DataFrame) -> DataFrame:
    """One row for each of these values: what `looked_up` tells, and a column for each count."""
    rows = looked_up(histories, values).join(histories.about, on="run_id", how="inner")
    judged = [f"{text} AS {name}" for name, text in _JUDGED.items()]
    return rows.selectExpr("*", *judged).drop("ends", "until")


def _tally(judged: DataFrame) -> DataFrame:
    """The counts of `judged` values, a row a run."""
    counts = [F.sum(F.col(f.name).cast("long")).alias(f.name) for f in fields(Counts)]
    return judged.groupBy("run_id").agg(*counts)


def _findings(judged: DataFrame) -> DataFrame:
    kinds = ", ".join(
        f"transform({places}, at -> struct('{kind}' AS kind, at.partition AS found_partition, "
        f"at.offset AS found_offset))"
        for kind, places in KINDS.items()
    )
    return (
        judged.withColumn("fault", F.expr(_FAULT))
        .withColumn("finding", F.expr(f"explode(concat({kinds}))"))
        .select(
            *("run_id", "finding.kind", "key", "value", "process", "partition", "offset"),
            *("intended_ns", "invoke_ns", "complete_ns", "error", "fault"),
            *("finding.found_partition", "finding.found_offset"),
        )
    )

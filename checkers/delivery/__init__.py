"""The delivery checker: what a group of consumers did with the records of a log.

For each partition, from the rows of `deliveries/`, the acknowledged writes and the final log:

    skipped      acknowledged, in the final log, its value processed by nobody, and below the offset
                 that the group has passed: the greater of what is committed at the end and of where
                 the partition's last owner stood as it left. Either delivered to a consumer before
                 (a crash between) or not (a reset jumped over it)
    pending      the same, but not below that offset: nobody knows what will become of it
    purged       acknowledged, deleted from the log since (its place is below the start of the log,
                 or not known where the log starts above 0), and processed by nobody
    lost         acknowledged, absent from the log for another reason, and processed by nobody
    copies       records that were processed beyond the first with their value: a retry stored them
    reprocessed  each processing of a record (partition, offset, value) but the first. Beyond its
                 bound, if the record stands below what had been committed for sure when the member
                 that repeats it was assigned the partition
    phantom      delivered to a consumer, at or above the start of the log, and not in the final log
    out of order delivered after a record of the same or a greater offset in one assignment, unless
                 that one is a phantom: the log was truncated then, and going back is right
    lost commit  a commit of an offset was acknowledged, and a later read of what is committed gives
                 less, or nothing, though no commit of what it gives was in progress or acknowledged
                 after that one had begun
    back         an acknowledged commit of an offset below one that had been acknowledged before it
                 began, in a partition without phantoms (there going back is right)
    zombie       an acknowledged commit of a partition by a member, begun after the partition had
                 been assigned to another one, later than ever to itself, and in a later generation
    beyond end   what is committed at the end is above the end of the log
    gap          the longest time in which nothing was processed while writes were acknowledged

Skipped, lost, beyond its bound, phantom, out of order, lost commit, back and zombie are
counter-examples; skipped, lost and phantom only where two readers have read the partition to its
end. A group that did not have every partition assigned before the load, or whose consumers'
rows are not all there, or whose log two readers have read differently, proves nothing; one that was
not drained, or that has pending, purged or not yet visible records, is unknown unless a
counter-example was found.

The longest time in which a group processed nothing while writes were acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.delivery.causes import explanations
from checkers.delivery.records import WIDTH, Commits, Did, GroupRows, Records, records_of, rows_of
from harness.history.parquet_writer import numbers
from harness.protocols import (
    DOUBTS,
    UNEXPLAINED,
    CheckResult,
    Count,
    Explanation,
    Fact,
    Facts,
    Number,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import counted
from harness.protocols.groups import KINDS
from harness.protocols.runs import NULL, OK, Ints


def longest_gap_s(rows: GroupRows) -> float | None:
    """Of the complete group; `None` where nothing was acknowledged."""
    return _longest_s(rows.written.time_ns, rows.did[KINDS.process].time_ns)


def longest_partition_gap_s(rows: GroupRows) -> float | None:
    """Of one partition, the longest: a dead member shows here, and not in the complete group."""
    processed, written = rows.did[KINDS.process], rows.written
    found = [
        _longest_s(
            written.time_ns[written.partition == partition],
            processed.time_ns[processed.partition == partition],
        )
        for partition in range(len(rows.log.start))
    ]
    return max((each for each in found if each is not None), default=None)


def _longest_s(acknowledged_ns: Ints, processed_ns: Ints) -> float | None:
    """The longest interval between two processings that follow each other, from the first
    acknowledgement to the last, in which a write was acknowledged."""
    if not len(acknowledged_ns):
        return None
    first, last = int(acknowledged_ns.min()), int(acknowledged_ns.max())
    inside = processed_ns[(processed_ns > first) & (processed_ns < last)]
    edges = np.unique(np.concatenate([[first], inside, [last]]))
    if len(edges) < 2:
        return 0.0
    acknowledged = np.sort(acknowledged_ns)
    begun = np.searchsorted(acknowledged, edges[:-1], side="left")
    behind = np.searchsorted(acknowledged, edges[1:], side="right")
    return float((np.diff(edges) * (behind > begun)).max() / 1e9)


_BAD: Final = {
    "skipped": "{n} acknowledged [record was|records were] skipped",
    "lost": "{n} acknowledged [record is|records are] lost, and nobody processed [it|them]",
    "reprocessed_beyond": "{n} committed [record was|records were] processed again",
    "phantoms": "{n} [record was|records were] delivered that [is|are] not in the log",
    "out_of_order": "{n} [record was|records were] delivered out of order",
    "lost_commits": "{n} [commit was|commits were] lost",
    "commits_back": "{n} [commit|commits] went back",
    "zombie_commits": "{n} [commit was|commits were] taken from [a member|members] that did not "
    "own the partition",
}
"""Counts that are counter-examples, in words."""

_UNCONFIRMED: Final = {**_BAD, "lost": "{n} acknowledged [record is|records are] missing"}
"""The same, of what one reader alone has seen."""


class Judged(NamedTuple):
    """What was found in a group's rows; `back` without partitions that have phantoms."""

    rows: GroupRows
    records: Records
    commits: Commits
    lost: Did
    lost_offset: Ints
    back: Did
    zombies: Did


@dataclass(frozen=True)
class Delivery(OneShard[GroupRows]):
    """What a group of consumers skipped, processed again, read although it is not in the log, and
    the outcome of its commits."""

    plugin: ClassVar[str] = "delivery"
    models: ClassVar[frozenset[str]] = frozenset({"group"})
    title: ClassVar[str] = "Consumers"
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("skipped",), noun="skipped records", head="skipped"
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "writes attempted"),
        Count("acknowledged", "acknowledged"),
        Count("processed", "records processed"),
        Count("processed_copies", "of these, copies that a retry stored"),
        Count(
            "skipped",
            "skipped",
            "acknowledged, in the log, never processed, and below what the group has passed",
            of="acknowledged",
        ),
        Count("skipped_delivered", "of these, delivered before"),
        Count(
            "reprocessed",
            "processed again",
            "each processing of a record after the first",
            of="processed",
        ),
        Count("reprocessed_most", "times that one record was processed, at most"),
        Count("reprocessed_beyond", "processed again beyond the bound", of="processed"),
        Count("delivered", "records delivered"),
        Count(
            "phantoms",
            "phantoms",
            "delivered to a consumer, but not in the log at the end",
            among=("delivered",),
        ),
        Count("phantoms_acknowledged", "of these, acknowledged"),
        Count("phantoms_moved", "of these, elsewhere in the log"),
        Count("out_of_order", "delivered out of order", among=("delivered",)),
        Count("commits", "commits acknowledged"),
        Count("commits_refused", "commits refused"),
        Count("commits_unknown", "commits of unknown outcome"),
        Count(
            "lost_commits",
            "commits lost",
            "acknowledged, but a later read of the committed offset returned less",
            of="commits",
        ),
        Count("commits_back", "commits that went back", among=("commits",)),
        Count("zombie_commits", "commits by a member without the partition", among=("commits",)),
        Count("committed_beyond_end", "partitions committed beyond their end"),
        Count("generations", "generations of the group"),
        Count("group_gap_s_max", "longest time in which nothing was processed"),
        Count(
            "partition_gap_s_max",
            "longest time without delivery",
            "in which nothing of one partition was processed while writes were acknowledged",
        ),
        Count(
            "pending",
            "pending, beyond what is committed",
            "not processed, and beyond the committed offset: their fate is unknown",
        ),
        Count(
            "lost",
            "lost before they were processed",
            "acknowledged, not in the log, and never processed",
            among=("acknowledged",),
        ),
        Count("not_yet_visible", "perhaps beyond what was read"),
        Count("purged_unseen", "deleted before they were processed"),
    )
    short: ClassVar[tuple[str, ...]] = (
        *("skipped", "reprocessed", "phantoms", "lost_commits", "partition_gap_s_max"),
        *("pending", "lost"),
    )

    def gather(self, run: Run) -> GroupRows:
        """The rows of the group, the log and the writes."""
        return rows_of(run)

    def judge(self, run: Run, gathered: GroupRows) -> CheckResult:
        judged = judge_rows(gathered)
        counts = counts_of(judged)
        proves = gathered.log.agreed and not _untrusted(run.facts, gathered)
        unconfirmed = _unconfirmed(judged)
        seen = {name: int(counts[name] or 0) - unconfirmed.get(name, 0) for name in _BAD}
        found = tuple(Statement(*each) for each in _worded(seen, _BAD)) if proves else ()
        return CheckResult(
            counts=counts,
            rates=_rates(counts),
            findings=_findings(run.facts.run_id, judged),
            counter_examples=found,
            doubts=tuple(_doubts(run.facts, judged, counts, unconfirmed)),
            all_well=_all_well(counts),
            explanations=_explained(run.facts, judged),
        )


def _explained(facts: Facts, judged: Judged) -> tuple[Explanation, ...]:
    """Why records were skipped, and processed again; whatever breaks here, the verdict stands."""
    rows, records = judged.rows, judged.records
    try:
        return tuple(explanations(facts, rows, records, judged.commits))
    except Exception as error:
        why = (Fact(kind="processed", text=f"explaining failed: {error!r}", source="ackloss"),)
        some = {"skipped": rows.log.value[records.skipped], "reprocessed": records.again.value}
        every = {kind: tuple(values.tolist()) for kind, values in some.items() if len(values)}
        return tuple(
            Explanation(kind=kind, cause=UNEXPLAINED, values=values, facts=why)
            for kind, values in every.items()
        )


def judge_rows(rows: GroupRows) -> Judged:
    commits = Commits.of(rows)
    records = records_of(rows, commits)
    lost, lost_offset = commits.lost(rows)
    back = commits.back()
    truncated = np.isin(back.partition, records.phantoms.partition)
    zombies = commits.zombies(rows)
    return Judged(rows, records, commits, lost, lost_offset, back.some(~truncated), zombies)


def counts_of(judged: Judged) -> dict[str, Number]:
    rows, records, commits = judged.rows, judged.records, judged.commits
    return {
        "attempted": rows.written.attempted,
        "acknowledged": len(rows.written.value),
        "processed": records.processed,
        "processed_copies": records.copies,
        "skipped": len(records.skipped),
        "skipped_delivered": int(np.count_nonzero(records.skipped_delivered)),
        "pending": len(records.pending),
        "lost": len(records.gone.lost),
        "not_yet_visible": len(records.gone.beyond),
        "purged_unseen": len(records.gone.purged),
        "reprocessed": len(records.again.row),
        "reprocessed_most": records.most,
        "reprocessed_beyond": int(np.count_nonzero(records.beyond)),
        "delivered": records.delivered,
        "phantoms": len(records.phantoms.row),
        "phantoms_acknowledged": int(np.count_nonzero(records.phantoms_acknowledged)),
        "phantoms_moved": int(np.count_nonzero(records.phantoms_moved)),
        "out_of_order": len(records.out_of_order.row),
        "commits": int(np.count_nonzero(commits.ok)),
        "commits_refused": commits.refused,
        "commits_unknown": int(np.count_nonzero(~commits.ok)),
        "lost_commits": len(judged.lost.row),
        "commits_back": len(judged.back.row),
        "zombie_commits": len(judged.zombies.row),
        "committed_beyond_end": len(commits.beyond_end(rows)),
        "generations": rows.generations,
        "group_gap_s_max": longest_gap_s(rows),
        "partition_gap_s_max": longest_partition_gap_s(rows),
    }


def _worded(counts: Mapping[str, int], words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The names of counts above 0, and what they say."""
    return ((name, counted(number, words[name])) for name, number in counts.items() if number)


def _unconfirmed(judged: Judged) -> dict[str, int]:
    """How many of each counter-example rest on a log that one reader alone has read to its end. (Of
    what came out of order, or went back, the consumer is a witness of the same records.)"""
    records, log = judged.records, judged.rows.log
    partitions = {
        "skipped": log.place[records.skipped] // WIDTH,
        "lost": judged.rows.written.partition[records.gone.lost],
        "phantoms": records.phantoms.partition,
    }
    return {name: int(np.count_nonzero(~log.confirmed[each])) for name, each in partitions.items()}


def _untrusted(facts: Facts, rows: GroupRows) -> list[str]:
    """Why nothing follows from what was found."""
    why = []
    if not rows.gate.reached:
        why.append(f"not every partition was assigned before the load ({rows.gate.error})")
    if facts.gaps.history or facts.gaps.reads:
        why.append("rows of the run are missing")
    if not rows.log.complete:
        why.append("the log was not read to its end")
    return why


def _doubts(
    facts: Facts, judged: Judged, counts: Mapping[str, Number], unconfirmed: Mapping[str, int]
) -> Iterator[Statement]:
    rows = judged.rows
    for why in _untrusted(facts, rows):
        yield Statement(DOUBTS.incomplete, why)
    if not rows.log.agreed:
        yield Statement(DOUBTS.readers, "complete readers met different records")
    if silent := _without_one_answer(rows):
        words = "not exactly one node says what is committed in [partition|partitions] "
        sentence = counted(len(silent), words + ", ".join(map(str, silent)))
        yield Statement(DOUBTS.incomplete, sentence)
    if not rows.drain.reached:
        yield Statement(DOUBTS.not_yet_visible, f"the group was not drained ({rows.drain.error})")
    for _, what in _worded(unconfirmed, _UNCONFIRMED):
        sentence = f"{what}: no second library read all of the log to its end"
        yield Statement(DOUBTS.readers, sentence)
    for name, doubt, what in (
        ("pending", DOUBTS.not_yet_visible, "[is|are] pending, beyond what is committed"),
        (
            "purged_unseen",
            DOUBTS.deleted,
            "may have been deleted before anybody processed [it|them]",
        ),
        ("not_yet_visible", DOUBTS.not_yet_visible, "may stand beyond what was read"),
    ):
        if number := int(counts[name] or 0):
            words = "{n} acknowledged [record|records] " + what
            yield Statement(doubt, counted(number, words))
    if not counts["acknowledged"]:
        yield Statement(DOUBTS.vacuous, "no write was acknowledged")
    elif not counts["processed"]:
        yield Statement(DOUBTS.vacuous, "no record was processed")


def _without_one_answer(rows: GroupRows) -> list[int]:
    """The partitions for which the number of nodes that report what is committed at the end is not
    one."""
    final = rows.did[KINDS.final]
    answered = np.bincount(
        final.partition[(final.mark == OK) & (final.partition != NULL)],
        minlength=len(rows.log.start),
    )
    return [int(each) for each in np.flatnonzero(answered != 1)]


def _rates(counts: Mapping[str, Number]) -> dict[str, float | None]:
    def share(part: str, of: str) -> float | None:
        whole = counts[of]
        return (counts[part] or 0) / whole if whole else None

    return {
        "ack": share("acknowledged", "attempted"),
        "skipped": share("skipped", "acknowledged"),
        "reprocessed": share("reprocessed", "processed"),
    }


def _all_well(counts: Mapping[str, Number]) -> str:
    number, again = int(counts["acknowledged"] or 0), int(counts["reprocessed"] or 0)
    words = "[the|all {n}] acknowledged [record was|records were] processed"
    repeated = f", {again:,} of them again within the bound" if again else ", none twice"
    if copies := int(counts["processed_copies"] or 0):
        repeated += counted(copies, " (and {n} [copy|copies] that a retry stored)")
    return f"{counted(number, words)}{repeated}, and no commit was lost"


def _findings(run_id: str, judged: Judged) -> pa.Table:
    """One row an anomaly: kind, partition, offset, the value where it is about a record, and the
    instant where it is about what a consumer did, or of the acknowledgement that was lost, with
    the times of that write; of a lost commit the offset that was lost."""
    rows, records = judged.rows, judged.records
    log, written, lost = rows.log, rows.written, records.gone.lost
    at = np.concatenate([records.skipped, records.pending])
    kinds = ["skipped"] * len(records.skipped) + ["pending"] * len(records.pending)
    nobody = np.full(len(at), NULL)
    columns = [[log.place[at] // WIDTH], [log.place[at] % WIDTH], [log.value[at]], [nobody]]
    kinds += ["lost"] * len(lost)
    for column, part in zip(
        columns, (written.partition, written.offset, written.value, written.time_ns), strict=True
    ):
        column.append(part[lost])
    for kind, did in {
        "reprocessed_beyond": records.again.some(records.beyond),
        "phantoms": records.phantoms,
        "out_of_order": records.out_of_order,
        "lost_commits": judged.lost._replace(offset=judged.lost_offset),
        "commits_back": judged.back,
        "zombie_commits": judged.zombies,
    }.items():
        kinds += [kind] * len(did.row)
        for column, part in zip(
            columns, (did.partition, did.offset, did.value, did.time_ns), strict=True
        ):
            column.append(part)
    partition, offset, value, time_ns = (np.concatenate(column) for column in columns)
    is_lost, begun_ns = np.array(kinds, np.str_) == "lost", np.full(len(kinds), NULL)
    begun_ns[is_lost] = written.begun_ns[lost]
    ended_ns = np.where(is_lost, time_ns, NULL)
    return pa.table(
        {
            "run_id": pa.array([run_id] * len(kinds), pa.string()),
            "kind": pa.array(kinds, pa.string()),
            "partition": numbers(partition),
            "offset": numbers(offset),
            "value": numbers(value),
            "time_ns": numbers(time_ns),
            "invoke_ns": numbers(begun_ns),
            "complete_ns": numbers(ended_ns),
        }
    )

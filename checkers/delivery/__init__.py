"""The delivery checker: what a group of consumers did with the records of a log.

What is counted, and what of it is a counter-example, is defined in docs/how-to/consumers.md.

Why a group skipped a record, or processed it again: the commit, and the assignment, that did it.

Each skipped record has been passed by an assignment that was to begin above it, or that handed over
a later one: the first such after the record was handed over last, if ever. Each record that was
processed again has two readers: either the earlier one went on after the later one had been
assigned the partition, or that one was given a committed offset that is not above the record, and
the commits of that place say why. What no row decides is unexplained. Facts name rows of
`deliveries/`, counted from 0 over all parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.delivery.records import (
    NOBODY,
    WIDTH,
    Commits,
    Did,
    GroupRows,
    Records,
    records_of,
    rows_of,
    sessions,
)
from harness.history.autopsy import fault_facts
from harness.history.parquet_writer import numbers, strings
from harness.protocols import (
    DOUBTS,
    NOT_EXAMINED,
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
from harness.protocols import explanations as why
from harness.protocols.checkers import counted
from harness.protocols.groups import KINDS
from harness.protocols.runs import FAIL, NULL, OK, Ints


class Event(NamedTuple):
    """What passed some records, or had them processed again. `first`, `then`: the assignments of
    the reader that had them before, and of the next one; `commit`: which of all outcomes; NOBODY
    where there is none."""

    cause: str
    first: int = NOBODY
    then: int = NOBODY
    commit: int = NOBODY


def explanations(
    facts: Facts, rows: GroupRows, records: Records, commits: Commits
) -> Iterator[Explanation]:
    """Of all skipped records, and of each processing of a record but the first."""
    causes, log, again = _Causes(rows, records, commits.outcomes), rows.log, records.again
    found: dict[tuple[str, int, Event], list[tuple[int, int, int]]] = {}
    places, last_handed = log.find(*causes.delivered[2:5]), np.full(len(log.place), NOBODY)
    last_handed[places[places != NOBODY]] = np.flatnonzero(places != NOBODY)
    for at in records.skipped.tolist():
        (partition, offset), handed = divmod(int(log.place[at]), WIDTH), int(last_handed[at])
        seen_ns = NULL if handed == NOBODY else int(causes.delivered.time_ns[handed])
        event = causes.skipped(partition, offset, handed)
        known = (offset, int(log.value[at]), seen_ns)
        found.setdefault(("skipped", partition, event), []).append(known)
    for at, partition in enumerate(again.partition.tolist()):
        event, seen_ns = causes.reprocessed(at)
        known = (int(again.offset[at]), int(again.value[at]), seen_ns)
        found.setdefault(("reprocessed", partition, event), []).append(known)
    for (kind, partition, event), some in found.items():
        offsets, values, times_ns = zip(*some, strict=True)
        if chain := sorted(causes.facts(kind, event, max(offsets), min(times_ns))):
            chain += fault_facts(facts.windows, chain[0].at_s or 0.0, chain[-1].at_s or 0.0)
        yield Explanation(
            kind=kind,
            cause=NOT_EXAMINED if facts.gaps.history else event.cause,
            values=values,
            partition=partition,
            first=min(offsets),
            last=max(offsets),
            facts=tuple(sorted(chain)),
        )


def _rows(did: Did, **wanted: int) -> Ints:
    """The rows of which these columns are so."""
    chosen = np.ones(len(did.row), np.bool_)
    for name, value in wanted.items():
        chosen &= getattr(did, name) == value
    return np.flatnonzero(chosen)


class _Causes:
    def __init__(self, rows: GroupRows, records: Records, commits: Did) -> None:
        self.rows, self.records, self.commits = rows, records, commits
        self.assign, self.delivered = rows.did[KINDS.assign], rows.did[KINDS.deliver]
        self.processed = rows.did[KINDS.process]
        self.handed_in = sessions(rows, self.delivered)
        self.processed_in = sessions(rows, self.processed)
        self.committed_in = sessions(rows, commits)
        self.before_in = sessions(rows, records.again_before)
        self.again_in = sessions(rows, records.again)

    def read(self, session: int) -> tuple[int, int, int] | None:
        """What its member was given as committed, and when it had asked and was answered; `None`
        where it was given no answer."""
        asked, of = self.rows.did[KINDS.committed], self.assign
        whose = {name: getattr(of, name)[session] for name in ("who", "partition", "begun_ns")}
        for at in _rows(asked, mark=OK, **whose):
            return int(asked.offset[at]), int(asked.begun_ns[at]), int(asked.time_ns[at])
        return None

    def above(self, partition: int, offset: int) -> Ints:
        """The commits of a partition above an offset."""
        found = _rows(self.commits, partition=partition)
        return found[self.commits.offset[found] > offset]

    def truncated(self, partition: int, offset: int, before_row: int) -> bool:
        """Whether a record that is gone from the log had been handed over there, or above."""
        gone = self.records.phantoms
        here = (gone.partition == partition) & (gone.offset >= offset) & (gone.row < before_row)
        return bool(here.any())

    def skipped(self, partition: int, offset: int, handed: int) -> Event:
        """What passed a record, which was last handed over by that row."""
        did, commits, assign = self.delivered, self.commits, self.assign
        first, since = NOBODY, NOBODY
        kept = self.above(partition, offset)
        kept = kept[commits.mark[kept] != FAIL]
        if handed != NOBODY:
            first, since = int(self.handed_in[handed]), int(did.row[handed])
        later = _rows(assign, partition=partition)
        later = later[assign.row[later] > since]
        if handed != NOBODY:
            following = int([*later, NOBODY][0])
            went_on = (self.processed_in == first) & (self.processed.offset > offset)
            if (self.processed.row[went_on] > since).any():
                return Event(UNEXPLAINED, first, following)
            own = kept[(commits.who[kept] == did.who[handed]) & (commits.row[kept] > since)]
            if len(own):
                return Event(why.EARLY_COMMIT, first, following, int(own[0]))
        for then in later.tolist():
            read, handed_then = self.read(then), did.some(self.handed_in == then)
            reached = handed_then.offset.max(initial=assign.offset[then])
            if max(reached, NULL if read is None else read[0]) > offset:
                until = int(handed_then.row.max(initial=assign.row[then]))
                if self.truncated(partition, offset, until):
                    return Event(why.TRUNCATED, first, then)
                cause, commit = self._passed(partition, offset, handed, then)
                return Event(cause, first, then, commit)
        return Event(why.FOREIGN_COMMIT if len(kept) else UNEXPLAINED, first, NOBODY, *kept[:1])

    def _passed(self, partition: int, offset: int, handed: int, then: int) -> tuple[str, int]:
        """Why an assignment passed a record: cause and commit."""
        did, commits, start = self.delivered, self.commits, self.assign.offset[then]
        if (read := self.read(then)) is None:
            return UNEXPLAINED, NOBODY
        committed, asked_ns, answered_ns = read
        if committed == NULL and NULL < start <= offset:
            return why.JUMPED, NOBODY
        if committed == NULL:
            done = _rows(commits, partition=partition, mark=OK)
            done = done[commits.time_ns[done] <= asked_ns]
            return (why.RESET_LOST, int(done[-1])) if len(done) else (why.RESET, NOBODY)
        if committed <= offset:
            before = did.offset[(self.handed_in == then) & (did.offset < offset)]
            position = max(before.max(initial=NOBODY) + 1, committed)
            deleted = position < self.rows.log.start[partition]
            return why.RESET_DELETED if deleted else why.JUMPED, NOBODY
        author = _rows(commits, partition=partition, offset=committed)
        author = author[(commits.mark[author] != FAIL) & (commits.begun_ns[author] <= answered_ns)]
        if len(author):
            return why.FOREIGN_COMMIT, int(author[-1])
        # No row has it: libraries commit what they have handed over, and report it later.
        last = _rows(did, partition=partition, offset=committed - 1)
        had = set(did.who[last[did.row[last] < self.assign.row[then]]].tolist())
        own = handed != NOBODY and had == {int(did.who[handed])}
        return why.EARLY_COMMIT if own else UNEXPLAINED, NOBODY

    def reprocessed(self, at: int) -> tuple[Event, int]:
        """Why a record was processed once more, and when its earlier reader had processed it."""
        again, before = self.records.again, self.records.again_before
        first, then = int(self.before_in[at]), int(self.again_in[at])
        seen_ns = int(before.time_ns[at])
        if NOBODY in (first, then):
            return Event(UNEXPLAINED, first, then), seen_ns
        partition, offset = int(again.partition[at]), int(again.offset[at])
        moved = self.truncated(partition, 0, int(again.row[at]))
        back = why.TRUNCATED if moved else why.WENT_BACK
        if first == then:
            return Event(back, first, then), seen_ns
        older, newer = sorted((first, then), key=lambda each: int(self.assign.row[each]))
        older_ns = int((before if older == first else again).time_ns[at])
        if older_ns > self.assign.time_ns[newer]:
            return Event(why.ZOMBIE, older, newer), older_ns
        cause, commit = self._uncommitted(partition, offset, first, then, back)
        return Event(cause, first, then, commit), seen_ns

    def _uncommitted(
        self, partition: int, offset: int, first: int, then: int, back: str
    ) -> tuple[str, int]:
        """Why a reader began at or below a record that had been processed: cause and commit."""
        read, commits, above = self.read(then), self.commits, self.above(partition, offset)
        if read is None:
            return UNEXPLAINED, NOBODY
        committed, asked_ns, answered_ns = read
        if committed > offset:
            return back, NOBODY
        acknowledged = above[commits.mark[above] == OK]
        if len(done := acknowledged[commits.time_ns[acknowledged] <= asked_ns]):
            lower = _rows(commits, partition=partition, offset=committed)
            possible = (commits.mark[lower] != FAIL) & (commits.begun_ns[lower] <= answered_ns)
            late = commits.time_ns[lower] >= commits.begun_ns[done].max()
            lower = lower[possible & (late | (commits.mark[lower] != OK))]
            if committed == NULL or not len(lower):
                return why.COMMIT_LOST, int(done[np.argmax(commits.offset[done])])
            author = int(self.committed_in[lower[-1]])
            given = None if author in (NOBODY, then) else self.read(author)
            if given and given[0] <= offset and (commits.time_ns[done] <= given[1]).any():
                return self._uncommitted(partition, offset, first, author, back)  # lost by then
            return why.SET_BACK, int(lower[-1])
        if len(late := acknowledged[commits.begun_ns[acknowledged] <= answered_ns]):
            return why.LATE, int(late[0])
        if len(own := above[self.committed_in[above] == first]):
            return why.REFUSED if commits.mark[own[-1]] == FAIL else why.NO_OUTCOME, int(own[-1])
        return why.UNCOMMITTED, NOBODY

    def facts(self, kind: str, event: Event, last: int, seen_ns: int) -> Iterator[Fact]:
        """The chain of events; of the commit that was set back, too."""
        _, first, then, commit = event
        chosen = [] if commit == NOBODY else [commit]
        if event.cause == why.SET_BACK:
            above = self.above(int(self.commits.partition[commit]), last)
            above = above[(self.commits.mark[above] == OK) & (above < commit)]
            chosen += above[np.argsort(self.commits.offset[above])][-1:].tolist()
        readers = {first, then, *(int(self.committed_in[at]) for at in chosen)} - {NOBODY}
        yield from (self._assigned(session) for session in sorted(readers))
        if first != NOBODY:
            did = "was handed them" if kind == "skipped" else "had processed them"
            text = f"{self._member(self.assign, first)} {did}"
            yield Fact(kind="processed", at_s=seen_ns / 1e9, text=text, source="deliveries")
        yield from (self._committed(at) for at in chosen)
        if first != NOBODY:
            yield from self._ended(first)

    def _assigned(self, session: int) -> Fact:
        read, handed = self.read(session), self.delivered.offset[self.handed_in == session]
        given = "what was committed is not known" if read is None else "nothing committed"
        if read is not None and read[0] != NULL:
            given = f"{read[0]:,} as committed"
        text = f"was assigned the partition, with {given}"
        text += f", and was first handed {handed[0]:,}" if len(handed) else ""
        return self._fact("assigned", self.assign, session, text)

    def _committed(self, at: int) -> Fact:
        commits, how = self.commits, "its outcome is not known"
        if commits.mark[at] == OK:
            how = f"acknowledged at {commits.time_ns[at] / 1e9:.2f} s"
        how = "refused" if commits.mark[at] == FAIL else how
        return self._fact("commit", commits, at, f"committed {commits.offset[at]:,} ({how}", ")")

    def _ended(self, session: int) -> Iterator[Fact]:
        """How the reader of an assignment lost it: its life ended, or the partition was revoked."""
        assign, who = self.assign, self.assign.who[session]
        stop, revoke = self.rows.did[KINDS.stop], self.rows.did[KINDS.revoke]
        ends = [(stop, at, "ended") for at in _rows(stop, who=who)]
        lost = _rows(revoke, who=who, partition=assign.partition[session])
        ends += [(revoke, at, "lost the partition") for at in lost]
        after = [each for each in ends if each[0].row[each[1]] > assign.row[session]]
        if after:
            yield self._fact("ended", *min(after, key=lambda each: int(each[0].row[each[1]])))

    def _member(self, did: Did, at: int) -> str:
        """`consumer-1 (life 2, generation 7)`."""
        (consumer, life), generation = self.rows.lives[did.who[at]], did.generation[at]
        return (
            f"{consumer} (life {life}{'' if generation == NULL else f', generation {generation}'})"
        )

    def _fact(self, kind: why.FactKind, did: Did, at: int, text: str, closing: str = "") -> Fact:
        row, at_ns = int(did.row[at]), did.begun_ns[at] if kind == "commit" else did.time_ns[at]
        if error := self.rows.errors.get(row):
            text += f": {error}"
        text = f"{self._member(did, at)} {text}{closing}"
        place = f"deliveries/:{row}"
        return Fact(kind=kind, at_s=float(at_ns) / 1e9, text=text, source="deliveries", place=place)


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
    for doubt in _untrusted(facts, rows):
        yield Statement(DOUBTS.incomplete, doubt)
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

    def of_log(at: Ints) -> tuple[Ints, ...]:
        places = np.divmod(log.place[at], WIDTH)
        return (*places, log.value[at], np.full(len(at), NULL))

    of_writes = (written.partition, written.offset, written.value, written.time_ns)
    found = {
        "skipped": of_log(records.skipped),
        "pending": of_log(records.pending),
        "lost": [column[lost] for column in of_writes],
    }
    for kind, did in {
        "reprocessed_beyond": records.again.some(records.beyond),
        "phantoms": records.phantoms,
        "out_of_order": records.out_of_order,
        "lost_commits": judged.lost._replace(offset=judged.lost_offset),
        "commits_back": judged.back,
        "zombie_commits": judged.zombies,
    }.items():
        found[kind] = did.partition, did.offset, did.value, did.time_ns
    kinds = [kind for kind, (values, *_) in found.items() for _ in range(len(values))]
    partition, offset, value, time_ns = map(np.concatenate, zip(*found.values(), strict=True))
    is_lost, begun_ns = np.array(kinds, np.str_) == "lost", np.full(len(kinds), NULL)
    begun_ns[is_lost] = written.begun_ns[lost]
    ended_ns = np.where(is_lost, time_ns, NULL)
    return pa.table(
        {
            "run_id": strings([run_id] * len(kinds)),
            "kind": strings(kinds),
            "partition": numbers(partition),
            "offset": numbers(offset),
            "value": numbers(value),
            "time_ns": numbers(time_ns),
            "invoke_ns": numbers(begun_ns),
            "complete_ns": numbers(ended_ns),
        }
    )

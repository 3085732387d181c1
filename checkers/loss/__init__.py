"""The loss checker: which acknowledged writes are lost, and what else is not as it was promised.

A write is *acknowledged* when the client reported ok with acks=1 or all; with acks=0 it was only
*sent*. It is *found* when it was read on the partition that it was sent to. What was acknowledged
and not found is

    not_yet_visible  where it may stand beyond what was read: no reader read its partition to the
                     end; or not every replica was in sync then, and its offset is at or beyond
                     that end, or not known
    deleted          else, where it stands below a log start above 0 (or its offset is not known)
    lost             else

The count `lost` includes `deleted`; a finding has one of the three kinds. So always
acknowledged + unacknowledged_found = survivors + lost + not_yet_visible.

A counter-example rests on the partition that was read: only where two libraries read it to the end
is it confirmed, or one did and another one what no acknowledgement names (`verification`); the
others are counted, and kept apart as unconfirmed.

What the loss checker says of a run: counter-examples, doubts, and that all is well.

`invalid` needs one counter-example that two readers saw (truth rule 3); what one reader alone saw,
and what may stand beyond what was read, are doubts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from checkers.loss.findings import (
    FINDINGS,
    Odd,
    Tally,
    capped,
    finder,
    findings_of,
    judge,
    kept,
    lost_spans,
    odd_of,
    spans_together,
    unconfirmed,
)
from checkers.loss.numbering import Extent, Numbering, OfSlice, Slice, numbered
from checkers.loss.order import Order as Order
from checkers.loss.order import Screen
from checkers.loss.readers import Disagreement, OnReplicas, Readers, Verification
from harness.errors import HistoryError
from harness.history.documents import Counts, LostSpan, Rates
from harness.protocols import (
    DONE,
    DOUBTS,
    NULL,
    Checker,
    CheckResult,
    Count,
    Facts,
    Ints,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import LOST_WRITES, counted, percent
from harness.protocols.runs import FAIL, INFO, INVOKED, OK, READ

REPLICAS_DIFFER: Final = "replicas_differ"
"""Replicas that were read one by one, each to its end, hold different records."""


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What the loss checker's part of a verdict rests on, beside the facts of the run.

    `unconfirmed`: how many of a count rest on one reader alone; `once`: each value was promised to
    be stored at most once; `lacking`: by replica, how many acknowledged writes it lacks that
    another one has.
    """

    counts: Counts
    lacking: Mapping[str, int] = field(default_factory=dict)
    unconfirmed: Mapping[str, int] = field(default_factory=dict)
    disagreements: Sequence[Disagreement] = ()
    once: bool = False


def counter_examples(facts: Facts, basis: Basis) -> Iterator[Statement]:
    """What was found that must not be, as far as two readers saw it."""
    for name, number in confirmed(facts, basis).items():
        of = basis.counts.acknowledged
        share = f"{counted(of, _ACKNOWLEDGED)} ({percent(number / of)})" if name == "lost" else ""
        yield Statement(name, counted(number, _FOUND[name].replace("%s", share)))
    if facts.promises.readers_are_replicas:
        for each in basis.disagreements:
            yield Statement(REPLICAS_DIFFER, f"{_different(each, 'hold')}{_lacking(basis)}")


def confirmed(facts: Facts, basis: Basis) -> dict[str, int]:
    """How many of each counter-example two readers saw, by the name of the count; those that are
    not there, or prove nothing in this run, are left out."""
    counts, promises = basis.counts, facts.promises
    if basis.disagreements and not promises.readers_are_replicas:
        return {}
    found = {
        "lost": counts.lost if promises.deletes else counts.lost - counts.deleted,
        "failed_found": counts.failed_found,
    }
    if facts.state == DONE and not facts.gaps.history:
        found["unexpected"] = counts.unexpected
    if basis.once and not basis.disagreements:
        found["duplicates"] = counts.duplicates
    seen = {name: number - basis.unconfirmed.get(name, 0) for name, number in found.items()}
    return {name: number for name, number in seen.items() if number > 0}


def doubts(facts: Facts, basis: Basis) -> Iterator[Statement]:
    """Why nothing that was not found proves anything."""
    counts = basis.counts
    if not counts.attempted:
        yield Statement(DOUBTS.vacuous, "nothing was attempted")
    elif not counts.acknowledged:
        words = "none of {n} attempted [write|writes] was acknowledged"
        yield Statement(DOUBTS.vacuous, counted(counts.attempted, words))
    if not facts.ends:
        yield Statement(DOUBTS.incomplete, "nothing was read back")
    elif not facts.read_whole:
        why = next((f": {end.error}" for end in facts.ends if end.error), "")
        yield Statement(DOUBTS.incomplete, f"not every partition was read to its end{why}")
    for each in basis.disagreements:
        if not facts.promises.readers_are_replicas:
            yield Statement(DOUBTS.readers, _different(each, "read"))
    for name, words in _RESTS.items():
        number = basis.unconfirmed.get(name, 0)
        if number and (name != "duplicates" or basis.once):
            why = "no second library read [it|them] to the end"
            yield Statement(DOUBTS.readers, counted(number, f"{words}: {why}"))
    if number := counts.not_yet_visible:
        words = f"{_ACKNOWLEDGED} may stand beyond what was read"
        yield Statement(DOUBTS.not_yet_visible, counted(number, words))
    if not facts.promises.deletes and any((end.log_start or 0) > 0 for end in facts.ends):
        words = (
            "may have been deleted: the log no longer begins at 0, and the plan does not test that"
        )
        yield Statement(DOUBTS.deleted, counted(counts.deleted, f"{_ACKNOWLEDGED} {words}"))


def all_well(basis: Basis) -> str:
    return counted(basis.counts.acknowledged, f"[the|all] {_ACKNOWLEDGED} [was|were] found")


_ACKNOWLEDGED: Final = "{n} acknowledged [write|writes]"
_FOUND: Final = {
    "lost": "{n} of %s [is|are] lost",
    "failed_found": "{n} [write|writes] that failed [was|were] found in the log",
    "unexpected": "{n} [value was|values were] read that [was|were] never written there",
    "duplicates": "{n} [duplicate|duplicates] of writes of an idempotent producer",
}
"""Counter-examples in words, and what one reader alone saw of them."""
_RESTS: Final = {
    "lost": "{n} acknowledged [write is|writes are] missing from what one reader read",
    "failed_found": "{n} failed [write was|writes were] found by one reader",
    "unexpected": "{n} [value|values] never written [was|were] read by one reader",
    "duplicates": "{n} [duplicate was|duplicates were] read by one reader",
}


def _different(each: Disagreement, verb: str) -> str:
    return f"{' and '.join(each.readers)} {verb} different records of {each.partition}"


def _lacking(basis: Basis) -> str:
    """What each replica lacks that another one has."""
    if not any(basis.lacking.values()):
        return ""
    each = ", ".join(f"{name} lacks {number:,}" for name, number in sorted(basis.lacking.items()))
    of = counted(basis.counts.acknowledged, _ACKNOWLEDGED)
    return f"; of {of} {each} that another one has"


_SMALL_BYTES: Final = 2**27
"""A run with no more Parquet than this is one shard: at most some 100 million rows."""

AT_ONCE: Final = 2**21
"""So many odd values are looked at together."""

SHARD_BYTES: Final = 2**31
"""So much memory the arrays of one shard take: those of 200 million writes, at 6 to 9 bytes."""


@dataclass(kw_only=True)
class Found:
    """What one shard holds. `unconfirmed`: how many of a count rest on one reader, for the counts
    that can be counter-examples; `if_verified`: the same if what was read in part is `verified` in
    every shard; `begun_again`: writes whose value another write has; `without_position`: lost ones
    of which the client named no position; `lacking`: by replica, acknowledged ones that another one
    has and it has not; `order`: of all records, where any may be swapped."""

    counts: Counter[str]
    verified: bool
    disagreements: tuple[Disagreement, ...]
    begun_again: int
    lacking: Counter[str]
    order: CheckResult | None
    findings: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], FINDINGS))
    lost_spans: Sequence[LostSpan] = ()
    unconfirmed: Counter[str] = field(default_factory=Counter)
    if_verified: Counter[str] = field(default_factory=Counter)
    without_position: int = 0

    def add(self, facts: Facts, odd: Odd) -> None:
        """Add what was seen of some odd values."""
        judged = judge(facts, odd)
        findings = findings_of(facts, odd, judged)
        self.counts.update(judged.counts())
        self.without_position += int((judged.by_name["lost"] & (odd.offset == NULL)).sum())
        self.findings = capped([self.findings, findings])
        if facts.timed:
            spans = lost_spans(findings, clients=facts.promises.clients)
            self.lost_spans = spans_together([self.lost_spans, spans])
        self.unconfirmed.update(unconfirmed(facts, odd, judged, verified=False))
        self.if_verified.update(unconfirmed(facts, odd, judged, verified=True))


@dataclass(frozen=True)
class Loss(Checker[Slice, Found]):
    """Counts acknowledged writes that are lost, and what else was not promised: refused writes that
    are there, duplicates, values that were never written. Unknown writes that are there are only
    counted.

    idempotent_producer  for histories of other tools: duplicates should be impossible
    """

    plugin: ClassVar[str] = "loss"
    models: ClassVar[frozenset[str]] = frozenset({"log"})
    title: ClassVar[str] = "Writes"
    primary: ClassVar[PrimaryFinding] = LOST_WRITES
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "attempted", "writes that were begun"),
        Count("acknowledged", "acknowledged", "writes that the system acknowledged"),
        Count("sent", "sent", "writes without a request for acknowledgement"),
        Count("failed", "failed", "writes that certainly did not happen, by what the client saw"),
        Count("unknown", "unknown", "writes that ended unknown"),
        Count("survivors", "survivors", "values that were read at the end"),
        Count(
            "lost",
            "lost",
            "values that are gone: acknowledged ones, of a set also those that were read",
        ),
        Count(
            "unacknowledged_found",
            "found unacknowledged",
            "values read whose writes were not acknowledged",
        ),
        Count("failed_found", "failed writes that were found", "those whose writes had failed"),
        Count("unknown_found", "unknown writes that were found", "those that had ended unknown"),
        Count("duplicates", "duplicates", "copies beyond the first"),
        Count("duplicates_acknowledged", "of acknowledged writes", "those of acknowledged writes"),
        Count("duplicates_unknown", "of unknown writes", "those of writes that ended unknown"),
        Count("unexpected", "values that were never written", "values read but never written"),
        Count(
            "not_yet_visible",
            "acknowledged writes that are not yet visible",
            "acknowledged writes that consumers may not read yet",
        ),
        Count("deleted", "deleted", "lost writes below the start of the log"),
        Count(
            "swapped", "swapped", "acknowledged records behind one that their producer sent later"
        ),
        Count("duplicate", "duplicates"),
    )

    idempotent_producer: bool = False

    def shards(self, run: Run) -> list[Slice]:
        """As many as fit in memory, one after the other. Each reads all rows, so one is
        the fastest."""
        facts = run.facts
        if sum(path.stat().st_size for path in (*facts.history, *facts.reads)) <= _SMALL_BYTES:
            return [Slice(0, 1)]
        extent = Extent._make(run.bounds())
        names, often = bool(Verification.of(facts).ends), Readers(facts).count_together
        each = 2 + 4 * (names + often) + facts.promises.readers_are_replicas
        of = 1 + extent.bytes_needed(each) // SHARD_BYTES
        return [Slice(number, of, extent if of == 1 else None) for number in range(of)]

    def check(self, run: Run, shard: Slice) -> Found:
        """Counts and findings of the values of one shard."""
        facts = run.facts
        readers, verification = Readers(facts), Verification.of(facts)
        places = numbered(lambda: (shard.things(*each) for each in run.things()), shard.extent)
        numbering = places if shard.of == 1 else OfSlice(places, shard)
        tally = Tally(numbering, names=bool(verification.ends), often=readers.count_together)
        screen = Screen(facts, places.size) if shard.of == 1 else None
        for writes in run.writes():
            begun = tally.write(shard.rows(writes))
            if screen is not None:
                screen.write(np.compress(writes.mark == INVOKED, writes.process), begun)
        again, replicas = tally.begun_again(), OnReplicas(facts, places.size)
        for reads in run.reads():
            if shard.number == 0:
                readers.compare(reads)
                verification.follow(readers.judged(reads))
            judged_rows = readers.judged(shard.rows(reads))
            numbers = tally.numbers(judged_rows)
            if verification.ends:
                verification.rest(judged_rows, tally.named(judged_rows, numbers))
            tally.read(judged_rows, numbers)
            replicas.read(judged_rows, numbers)
            if screen is not None:
                screen.read(judged_rows, numbers, tally.acknowledged(numbers))
        odd = tally.odd()
        tally.close()
        first, order = shard.number == 0, Order()
        found = Found(
            counts=Counter(_plain_counts(tally.plain(), sent=not facts.promises.acknowledges)),
            verified=verification.ended() if first else verification.holds,
            disagreements=tuple(readers.disagreements()) if first else (),
            begun_again=again,
            lacking=replicas.lacking(tally.acknowledged),
            order=order.judge(run, order.gather(run)) if screen and screen.possible else None,
        )
        # Group by group: a run that lost millions takes the memory of a group, and as many passes
        # over its rows. Of most runs nothing is odd.
        for begin in range(0, len(odd), AT_ONCE):
            group = odd[begin : begin + AT_ONCE]
            found.add(facts, _of_group(run, readers, numbering, group))
        return found

    def merge(self, run: Run, parts: Sequence[Found]) -> CheckResult:
        """The counts, findings and statements of all shards together."""
        facts = run.facts
        if again := sum(part.begun_again for part in parts):
            raise HistoryError(
                f"{again:,} of its writes began with a value that another write has: which of them "
                "is there, nobody can say",
                file=str(facts.folder / "history") if facts.folder else facts.run_id,
                key="value",
                hint="let the workload give each write its own value",
            )
        total = sum((part.counts for part in parts), Counter[str]())
        order = parts[0].order if parts else None
        apart = ("swapped", "duplicate")
        known = {each.name: total[each.name] for each in self.counts if each.name not in apart}
        # Of several shards, none has all records of one producer.
        swapped = None if len(parts) > 1 else int(order.counts["swapped"] or 0) if order else 0
        found = Counts(**known, swapped=swapped)
        spans = spans_together(part.lost_spans for part in parts)
        verified = all(part.verified for part in parts)
        seen_by_one = (part.if_verified if verified else part.unconfirmed for part in parts)
        disagreements = [each for part in parts for each in part.disagreements]
        trusted = facts.promises.readers_are_replicas or not disagreements
        lacking = sum((part.lacking for part in parts), Counter[str]()) if disagreements else {}
        basis = Basis(
            counts=found,
            lacking=lacking,
            unconfirmed=sum(seen_by_one, Counter[str]()),
            disagreements=disagreements,
            once=facts.promises.once or self.idempotent_producer,
        )
        return CheckResult(
            counts={**known, "swapped": swapped},
            rates=asdict(Rates.of(found)),
            findings=capped(part.findings for part in parts),
            counter_examples=(
                *counter_examples(facts, basis),
                *(order.counter_examples if order is not None and trusted else ()),
            ),
            doubts=(
                *doubts(facts, basis),
                *(d for d in (order.doubts if order else ()) if d.name == DOUBTS.readers),
            ),
            all_well=all_well(basis),
            details={
                "lost_spans": [asdict(span) for span in spans],
                "confirmed": confirmed(facts, basis),
                "lost_without_position": sum(part.without_position for part in parts),
                "lacking": dict(lacking),
            },
        )


def _of_group(run: Run, readers: Readers, numbering: Numbering, group: Ints) -> Odd:
    chosen = finder(numbering, group)
    writes = run.writes(holding=lambda key, value: len(chosen(key, value)[0]) > 0)
    reads = map(readers.judged, run.reads())
    return odd_of(numbering, group, kept(writes, chosen), kept(reads, chosen))


def _plain_counts(plain: Ints, *, sent: bool) -> dict[str, int]:
    """Counts of plain values: what ended ok was found, what was refused was not."""
    kinds = np.arange(len(plain))
    is_ok, is_found = kinds & OK != 0, kinds & READ != 0
    attempted, ok, found = (int(each.sum()) for each in (plain, plain[is_ok], plain[is_found]))
    failed = int(plain[~is_ok & (kinds & INFO == 0) & (kinds & FAIL != 0)].sum())
    return {
        "attempted": attempted,
        "acknowledged": 0 if sent else ok,
        "sent": ok if sent else 0,
        "failed": failed,
        "unknown": attempted - ok - failed,
        "survivors": found,
        "unacknowledged_found": found if sent else found - ok,
        "unknown_found": found - ok,
    }

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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Final, NamedTuple

import numpy as np

from checkers.loss import statements
from checkers.loss.closer import Odd, looked_up
from checkers.loss.counts import Counts, rates
from checkers.loss.findings import findings_of
from checkers.loss.judged import judge, unconfirmed
from checkers.loss.numbering import Extent, Numbering, numbered
from checkers.loss.pile import Pile, together
from checkers.loss.readers import Disagreement, Readers
from checkers.loss.slices import OfSlice, Slice
from checkers.loss.spans import LostSpan, lost_spans, spans_together
from checkers.loss.statements import Basis
from checkers.loss.tally import Tally
from checkers.loss.verification import Verification
from harness.errors import HistoryError
from harness.protocols import (
    Checker,
    CheckResult,
    Facts,
    HasPrimaryFinding,
    Ints,
    PrimaryFinding,
    Run,
    Texts,
)
from harness.protocols.checkers import LOST_WRITES
from harness.protocols.runs import FAIL, INFO, OK, READ

_SMALL_BYTES: Final = 2**27
"""A run with no more Parquet than this is one shard: at most some 100 million rows."""

SHARD_BYTES: Final = 2**31
"""So much memory the arrays of one shard take: those of 200 million writes, at 6 to 9 bytes."""


class Found(NamedTuple):
    """What one shard holds. `unconfirmed`: how many of a count rest on one reader, for the counts
    that can be counter-examples; `if_verified`: the same if what was read in part is `verified` in
    every shard; `begun_again`: writes whose value another write has."""

    counts: Counts
    findings: Pile
    lost_spans: Sequence[LostSpan]
    unconfirmed: Mapping[str, int]
    if_verified: Mapping[str, int]
    verified: bool
    disagreements: tuple[Disagreement, ...] = ()
    begun_again: int = 0


class Seen:
    """What was seen of the odd values of a shard, group by group; as `Found` has it."""

    def __init__(self, facts: Facts) -> None:
        self.counts, self.findings = Counts(), Pile()
        self.lost_spans: list[LostSpan] = []
        self.unconfirmed, self.if_verified = Counter[str](), Counter[str]()
        self._facts = facts

    def add(self, odd: Odd) -> None:
        """Judge a group."""
        facts = self._facts
        judged = judge(facts, odd)
        findings = findings_of(facts, odd, judged)
        self.counts += judged.counts()
        self.findings.add(findings)
        if facts.timed:
            spans = lost_spans(findings, clients=facts.promises.clients)
            self.lost_spans = spans_together([self.lost_spans, spans])
        self.unconfirmed.update(unconfirmed(facts, odd, judged, verified=False))
        self.if_verified.update(unconfirmed(facts, odd, judged, verified=True))


@dataclass(frozen=True)
class Loss(Checker[Slice, Found], HasPrimaryFinding):
    """Counts acknowledged writes that are lost, and what else was not promised: refused writes that
    are there, duplicates, values that were never written. (That an unknown write is there is
    nobody's fault; such writes are only counted.)

    idempotent_producer  for histories of other tools: duplicates should be impossible
    """

    plugin: ClassVar[str] = "loss"
    models: ClassVar[frozenset[str]] = frozenset({"log"})

    idempotent_producer: bool = False

    @property
    def primary(self) -> PrimaryFinding:
        """Lost writes."""
        return LOST_WRITES

    def shards(self, run: Run) -> list[Slice]:
        """As many as fit in memory, one after the other. Each reads all rows, so one is
        the fastest."""
        facts = run.facts
        if sum(path.stat().st_size for path in (*facts.history, *facts.reads)) <= _SMALL_BYTES:
            return [Slice(0, 1)]
        extent = Extent._make(run.bounds())
        names, often = bool(Verification.of(facts).ends), Readers(facts).count_together
        of = 1 + extent.bytes_needed(2 + 4 * (names + often)) // SHARD_BYTES
        return [Slice(number, of, extent if of == 1 else None) for number in range(of)]

    def check(self, run: Run, shard: Slice) -> Found:
        """Counts and findings of the values of one shard."""
        facts = run.facts
        readers, places = Readers(facts), _places(run, shard)
        verification = Verification.of(facts)
        tally = Tally(
            _numbering(places, shard), names=bool(verification.ends), often=readers.count_together
        )
        for writes in run.writes():
            tally.write(shard.rows(writes))
        again = tally.begun_again()
        for reads in run.reads():
            if shard.number == 0:
                readers.compare(reads)
                verification.follow(readers.judged(reads))
            judged_rows = readers.judged(shard.rows(reads))
            numbers = tally.numbers(judged_rows)
            if verification.ends:
                verification.rest(judged_rows, tally.named(judged_rows, numbers))
            tally.read(judged_rows, numbers)
        odd = tally.odd()
        tally.close()
        plain = _plain_counts(tally.plain(), sent=not facts.promises.acknowledges)
        seen = Seen(facts)
        if len(odd):  # of most runs nothing is
            for each in _closer(run, shard, readers, places, tally, odd):
                seen.add(each)
        return Found(
            counts=plain + seen.counts,
            findings=seen.findings,
            lost_spans=seen.lost_spans,
            unconfirmed=seen.unconfirmed,
            if_verified=seen.if_verified,
            verified=verification.ended() if shard.number == 0 else verification.holds,
            disagreements=tuple(readers.disagreements()) if shard.number == 0 else (),
            begun_again=again,
        )

    def merge(self, run: Run, parts: Sequence[Found]) -> CheckResult:
        """The counts, findings and statements of all shards together."""
        facts = run.facts
        _refuse_begun_again(facts, sum(part.begun_again for part in parts))
        counts = sum((part.counts for part in parts), Counts())
        spans = spans_together(part.lost_spans for part in parts)
        unconfirmed = Counter[str]()
        verified = all(part.verified for part in parts)
        for part in parts:
            unconfirmed.update(part.if_verified if verified else part.unconfirmed)
        basis = Basis(
            counts=counts,
            unconfirmed=unconfirmed,
            disagreements=[each for part in parts for each in part.disagreements],
            once=facts.promises.once or self.idempotent_producer,
        )
        return CheckResult(
            counts=dict(vars(counts)),
            rates=rates(counts),
            findings=together([part.findings for part in parts]),
            counter_examples=tuple(statements.counter_examples(facts, basis)),
            doubts=tuple(statements.doubts(facts, basis)),
            all_well=statements.all_well(basis),
            details={
                "lost_spans": [asdict(span) for span in spans],
                "confirmed": statements.confirmed(facts, basis),
            },
        )


def _places(run: Run, shard: Slice) -> Numbering:
    """Numbers for the places of a shard's values."""
    return numbered(lambda: (shard.things(*each) for each in run.things()), shard.extent)


def _numbering(places: Numbering, shard: Slice) -> Numbering:
    """Numbers for a shard's values, from those for their places."""
    return places if shard.of == 1 else OfSlice(places, shard)


def _closer(
    run: Run, shard: Slice, readers: Readers, places: Numbering, tally: Tally, odd: Ints
) -> Iterator[Odd]:
    """All that a run's rows say of a shard's odd values, whose numbers these are."""

    def odd_in(key: Texts, value: Ints) -> bool:
        numbers = places.numbers(*shard.things(key, value))
        return bool(tally.is_odd(numbers).any())

    writes = (shard.rows(rows) for rows in run.writes(holding=odd_in))
    reads = (readers.judged(shard.rows(rows)) for rows in run.reads())
    return looked_up(writes, reads, _numbering(places, shard), odd, tally.is_odd)


def _refuse_begun_again(facts: Facts, again: int) -> None:
    """Raise HistoryError where writes began with a value that another write has."""
    if again:
        raise HistoryError(
            f"{again:,} of its writes began with a value that another write has: which of them is "
            "there, nobody can say",
            file=str(facts.folder / "history") if facts.folder else facts.run_id,
            key="value",
            hint="let the workload give each write its own value",
        )


def _plain_counts(plain: Ints, *, sent: bool) -> Counts:
    """Counts of plain values: what ended ok was found, what was refused was not."""
    kinds = np.arange(len(plain))
    is_ok, is_found = kinds & OK != 0, kinds & READ != 0
    attempted, ok, found = (int(each.sum()) for each in (plain, plain[is_ok], plain[is_found]))
    failed = int(plain[~is_ok & (kinds & INFO == 0) & (kinds & FAIL != 0)].sum())
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

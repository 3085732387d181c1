"""The loss checker: which acknowledged writes are lost, and what else is not as it was promised.

A write is *acknowledged* when the client was told ok with acks=1 or all; with acks=0 it was only
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
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.loss import statements
from checkers.loss.counts import Counts, rates
from checkers.loss.findings import FINDINGS, ORDER, findings_of
from checkers.loss.judged import judge, unconfirmed
from checkers.loss.numbering import numbered
from checkers.loss.readers import Disagreement, Readers
from checkers.loss.spans import lost_spans
from checkers.loss.statements import Basis
from checkers.loss.tally import Tally, looked_up
from checkers.loss.verification import Verification
from harness.errors import HistoryError
from harness.history.parquet_reader import some
from harness.protocols import (
    Checker,
    CheckResult,
    Facts,
    HasPrimaryFinding,
    Ints,
    PrimaryFinding,
    Reads,
    Run,
    Texts,
    Writes,
)
from harness.protocols.runs import FAIL, INFO, OK, READ

Rows = TypeVar("Rows", Writes, Reads)

_SHARD_BYTES: Final = 2**30
"""Of Parquet: some 200 million rows, whose marks take two to four gigabytes of memory."""


class Slice(NamedTuple):
    """A shard: the values whose remainder by `of` is `number`."""

    number: int
    of: int


class Found(NamedTuple):
    """What one shard holds. `unconfirmed`: how many of a count rest on one reader, for the counts
    that can be counter-examples; `if_verified`: the same if what was read in part is `verified` in
    every shard; `begun_again`: writes whose value another write has."""

    counts: Counts
    findings: pa.Table
    unconfirmed: Mapping[str, int]
    if_verified: Mapping[str, int]
    verified: bool
    disagreements: tuple[Disagreement, ...] = ()
    begun_again: int = 0


@dataclass(frozen=True)
class Loss(Checker[Slice, Found], HasPrimaryFinding):
    """Counts acknowledged writes that are lost, and what else was not promised: refused writes that
    are there, duplicates, values that nobody wrote. (That an unknown write is there is nobody's
    fault; such writes are only counted.)

    `idempotent_producer` says of histories from elsewhere that duplicates should be impossible.
    """

    plugin: ClassVar[str] = "loss"
    models: ClassVar[frozenset[str]] = frozenset({"log"})

    idempotent_producer: bool = False

    @property
    def primary(self) -> PrimaryFinding:
        """Lost writes."""
        return PrimaryFinding(
            counter_examples=("lost",),
            noun="loss",
            adjective="lossy",
            head="lost",
            found="Acknowledged writes were lost",
            none="No acknowledged write was lost",
            one="lost an acknowledged write",
            some="lost writes",
            does="loses",
            do="lose",
            can="lose writes",
        )

    def shards(self, run: Run) -> list[Slice]:
        """One shard for every so many bytes of history."""
        size_bytes = sum(path.stat().st_size for path in (*run.facts.history, *run.facts.reads))
        of = 1 + size_bytes // _SHARD_BYTES
        return [Slice(number, of) for number in range(of)]

    def check(self, run: Run, shard: Slice) -> Found:
        """Counts and findings of the values of one shard."""
        facts = run.facts
        readers, numbering = Readers(facts), numbered(partial(_things, run, shard))
        verification = Verification.of(facts)
        tally = Tally(numbering, names=bool(verification.ends))
        for writes in _writes(run, shard):
            tally.write(writes)
        again = tally.begun_again()
        for reads in run.reads():
            if shard.number == 0:
                readers.compare(reads)
                verification.follow(readers.judged(reads))
            judged_rows = readers.judged(_of(reads, shard))
            if verification.ends:
                verification.rest(judged_rows, tally.named(judged_rows))
            tally.read(judged_rows)
        odd = tally.odd()
        judged_reads = (readers.judged(_of(reads, shard)) for reads in run.reads())
        closer = looked_up(_writes(run, shard), judged_reads, numbering, odd)
        judged = judge(facts, closer)
        plain = _plain_counts(tally.plain(odd), sent=not facts.promises.acknowledges)
        return Found(
            counts=plain + judged.counts(),
            findings=findings_of(facts, closer, judged),
            unconfirmed=unconfirmed(facts, closer, judged, verified=False),
            if_verified=unconfirmed(facts, closer, judged, verified=True),
            verified=verification.ended() if shard.number == 0 else verification.holds,
            disagreements=tuple(readers.disagreements()) if shard.number == 0 else (),
            begun_again=again,
        )

    def merge(self, run: Run, parts: Sequence[Found]) -> CheckResult:
        """The counts, findings and statements of all shards together."""
        facts = run.facts
        _refuse_begun_again(facts, sum(part.begun_again for part in parts))
        counts = sum((part.counts for part in parts), Counts())
        findings = pa.concat_tables([FINDINGS.empty_table(), *(each.findings for each in parts)])
        if len(parts) > 1:
            keys = [(name, "ascending", "at_start") for name in ORDER]
            findings = findings.take(pc.sort_indices(findings, sort_keys=keys))
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
            counts=asdict(counts),
            rates=rates(counts),
            findings=findings,
            counter_examples=tuple(statements.counter_examples(facts, basis)),
            doubts=tuple(statements.doubts(facts, basis)),
            all_well=statements.all_well(basis),
            details={"lost_spans": _spans(facts, findings)},
        )


def _writes(run: Run, shard: Slice) -> Iterator[Writes]:
    return (_of(writes, shard) for writes in run.writes())


def _things(run: Run, shard: Slice) -> Iterator[tuple[Texts, Ints]]:
    if shard.of == 1:
        yield from run.things()
        return
    for key, value in run.things():
        chosen = value % shard.of == shard.number
        yield Texts(key.codes[chosen], key.names), value[chosen]


def _of(rows: Rows, shard: Slice) -> Rows:
    """The rows of a shard's values."""
    return rows if shard.of == 1 else some(rows, rows.value % shard.of == shard.number)


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


def _spans(facts: Facts, findings: pa.Table) -> list[dict[str, Any]]:
    if not facts.timed:
        return []
    return [asdict(span) for span in lost_spans(findings, clients=facts.promises.clients)]


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

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
is it confirmed; the others are counted, and kept apart as unconfirmed.
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
from checkers.loss.numbering import numbered
from checkers.loss.readers import Disagreement, Readers, confirmed
from checkers.loss.spans import lost_spans
from checkers.loss.statements import Basis
from checkers.loss.tally import Odd, Tally, looked_up
from harness.errors import HistoryError
from harness.history.parquet_reader import some
from harness.history.rows import within
from harness.protocols import (
    NULL,
    Bools,
    Checker,
    CheckResult,
    Facts,
    FaultWindow,
    Ints,
    Reads,
    Run,
    Texts,
    Writes,
)
from harness.protocols.runs import FAIL, INFO, OK, READ

FINDINGS: Final = pa.schema(
    {
        "run_id": pa.string(),
        "kind": pa.string(),
        "key": pa.string(),
        "value": pa.int64(),
        "process": pa.int32(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "intended_ns": pa.int64(),
        "invoke_ns": pa.int64(),
        "complete_ns": pa.int64(),
        "error": pa.string(),
        "fault": pa.string(),
        "found_partition": pa.int32(),
        "found_offset": pa.int64(),
    }
)
"""One row a finding. `kind`: lost, deleted, not_yet_visible, failed_found, unexpected or duplicate;
`partition`, `offset` and times as the client knew them; `fault`: the windows in which the write was
answered, or begun where it never was, joined by commas; `found_*`: where it was read."""

Rows = TypeVar("Rows", Writes, Reads)

_SHARD_BYTES: Final = 2**30
"""Of Parquet: some 200 million rows, whose marks take two to four gigabytes of memory."""

_ORDER: Final = ("kind", "partition", "complete_ns", "value")


class Slice(NamedTuple):
    """A shard: the values whose remainder by `of` is `number`."""

    number: int
    of: int


class Found(NamedTuple):
    """What one shard holds. `unconfirmed`: how many of a count rest on one reader, for the counts
    that can be counter-examples; `begun_again`: writes whose value another write has."""

    counts: Counts
    findings: pa.Table
    unconfirmed: Mapping[str, int]
    disagreements: tuple[Disagreement, ...] = ()
    begun_again: int = 0


@dataclass(frozen=True)
class Loss(Checker[Slice, Found]):
    """Counts acknowledged writes that are lost, and what else was not promised: refused writes that
    are there, duplicates, values that nobody wrote. (That an unknown write is there is nobody's
    fault; such writes are only counted.)

    `idempotent_producer` says of histories from elsewhere that duplicates should be impossible.
    """

    plugin: ClassVar[str] = "loss"
    models: ClassVar[frozenset[str]] = frozenset({"log"})

    idempotent_producer: bool = False

    def shards(self, run: Run) -> list[Slice]:
        """One shard for every so many bytes of history."""
        size_bytes = sum(path.stat().st_size for path in (*run.facts.history, *run.facts.reads))
        of = 1 + size_bytes // _SHARD_BYTES
        return [Slice(number, of) for number in range(of)]

    def check(self, run: Run, shard: Slice) -> Found:
        """Counts and findings of the values of one shard."""
        facts = run.facts
        readers, numbering = Readers(facts), numbered(partial(_things, run, shard))
        tally = Tally(numbering)
        for writes in _writes(run, shard):
            tally.write(writes)
        again = tally.begun_again()
        for reads in run.reads():
            if shard.number == 0:
                readers.compare(reads)
            tally.read(readers.judged(_of(reads, shard)))
        odd = tally.odd()
        judged_reads = (readers.judged(_of(reads, shard)) for reads in run.reads())
        closer = looked_up(_writes(run, shard), judged_reads, numbering, odd)
        judged = _judge(facts, closer)
        plain = _plain_counts(tally.plain(odd), sent=not facts.promises.acknowledges)
        return Found(
            counts=plain + judged.counts(),
            findings=_findings(facts, closer, judged),
            unconfirmed=_unconfirmed(facts, closer, judged),
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
            keys = [(name, "ascending", "at_start") for name in _ORDER]
            findings = findings.take(pc.sort_indices(findings, sort_keys=keys))
        unconfirmed = Counter[str]()
        for part in parts:
            unconfirmed.update(part.unconfirmed)
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
    for key, value in run.things():
        chosen = value % shard.of == shard.number
        yield (
            (key, value) if shard.of == 1 else (Texts(key.codes[chosen], key.names), value[chosen])
        )


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


@dataclass(frozen=True)
class _Judged:
    """Whether each odd value is of each kind; and, of the copies, whether each is where it should
    be. `extra`: the copies but each value's first."""

    by_name: Mapping[str, Bools]
    home: Bools
    extra: Bools

    def counts(self) -> Counts:
        """How many there are of each."""
        counted = {name: int(each.sum()) for name, each in self.by_name.items()}
        return Counts(**counted, duplicates=int(self.extra.sum()))


def _judge(facts: Facts, odd: Odd) -> _Judged:
    attempted = odd.marks != 0
    told_ok = odd.marks & OK != 0
    acknowledged = told_ok & (facts.promises.acknowledges)
    failed = ~told_ok & (odd.marks & INFO == 0) & (odd.marks & FAIL != 0)
    unknown = attempted & ~told_ok & ~failed

    owner = odd.copies[:, 0]
    home = _at_home(odd)
    survivors = _any(owner[home], len(attempted))
    absent = acknowledged & ~survivors
    beyond, below = _beyond_and_below(facts, odd)
    return _Judged(
        {
            "attempted": attempted,
            "acknowledged": acknowledged,
            "sent": told_ok & ~acknowledged,
            "failed": failed,
            "unknown": unknown,
            "survivors": survivors,
            "lost": absent & ~beyond,
            "not_yet_visible": absent & beyond,
            "deleted": absent & ~beyond & below,
            "unacknowledged_found": survivors & ~acknowledged,
            "failed_found": survivors & failed,
            "unknown_found": survivors & unknown,
            "unexpected": _any(owner[~home], len(attempted)),
        },
        home=home,
        extra=~_first(owner),
    )


def _at_home(odd: Odd) -> Bools:
    """Of each copy, whether its value was attempted on its partition; where it is not known where
    a write was sent to, any partition is the right one."""
    owner, where = odd.copies[:, 0], odd.copies[:, 1]
    sent, sent_to = odd.sent_to[:, 0], odd.sent_to[:, 1]
    partitions = 1 + max(where.max(initial=0), sent_to.max(initial=0))
    sent_there = np.isin(owner * partitions + where, sent * partitions + sent_to)
    known = _any(sent, len(odd.marks))
    home: Bools = (odd.marks != 0)[owner] & (~known[owner] | sent_there)
    return home


def _beyond_and_below(facts: Facts, odd: Odd) -> tuple[Bools, Bools]:
    """Whether each value may stand beyond what was read of its partition, or below its start."""
    beyond, below = np.ones(len(odd.marks), np.bool_), np.zeros(len(odd.marks), np.bool_)
    no_offset = odd.offset == NULL
    for end in facts.ends:
        here = odd.partition == end.partition
        if end.whole:
            beyond[here] = False
        elif end.complete and end.read_to is not None:
            beyond[here] = (no_offset | (odd.offset >= end.read_to))[here]
        if end.log_start is not None and end.log_start > 0:
            below[here] = (no_offset | (odd.offset < end.log_start))[here]
    return beyond, below


def _unconfirmed(facts: Facts, odd: Odd, judged: _Judged) -> dict[str, int]:
    """How many of each kind rest on a partition that two libraries did not read to the end. Where
    it is not known which partition a lost write was sent to, it rests on all."""
    two = np.array(sorted(confirmed(facts)), np.int64)
    everywhere = set(range(facts.promises.partitions)) <= set(two.tolist())
    kinds, size, owner = judged.by_name, len(odd.marks), odd.copies[:, 0]
    lost = kinds["lost"] if facts.promises.deletes else kinds["lost"] & ~kinds["deleted"]
    unsure = ~np.isin(odd.copies[:, 1], two)
    nowhere = ~np.where(odd.partition == NULL, everywhere, np.isin(odd.partition, two))
    return {
        "lost": int((lost & nowhere).sum()),
        "failed_found": int((kinds["failed_found"] & _any(owner[unsure], size)).sum()),
        "unexpected": int((kinds["unexpected"] & _any(owner[unsure & ~judged.home], size)).sum()),
        "duplicates": int((judged.extra & unsure).sum()),
    }


def _any(places: Ints, size: int) -> Bools:
    """Whether each of `size` is among these places."""
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


def _first(owner: Ints) -> Bools:
    """Whether each is its owner's first, of sorted owners."""
    first: Bools = np.diff(owner, prepend=-1) != 0
    return first


def _findings(facts: Facts, odd: Odd, judged: _Judged) -> pa.Table:
    """The rows of FINDINGS, in order."""
    kinds, home = judged.by_name, judged.home
    at_home, astray = odd.copies[home], odd.copies[~home]
    failed_found = kinds["failed_found"][at_home[:, 0]] & _first(at_home[:, 0])
    found = {
        "lost": _nowhere(kinds["lost"] & ~kinds["deleted"]),
        "deleted": _nowhere(kinds["deleted"]),
        "not_yet_visible": _nowhere(kinds["not_yet_visible"]),
        "failed_found": at_home[failed_found],
        "unexpected": astray[_first(astray[:, 0])],
        "duplicate": odd.copies[judged.extra],
    }
    places = np.concatenate(list(found.values()))
    at = places[:, 0]
    fault = _faults(
        facts.windows, np.where(odd.complete_ns == NULL, odd.invoke_ns, odd.complete_ns)
    )
    columns = {
        "run_id": [facts.run_id] * len(at),
        "kind": np.repeat(list(found), [len(each) for each in found.values()]),
        "key": pa.array(odd.keys, pa.string()).take(at),
        **{
            name: _known(getattr(odd, name)[at])
            for name in (
                "process",
                "partition",
                "offset",
                "intended_ns",
                "invoke_ns",
                "complete_ns",
            )
        },
        "value": odd.values[at],
        "error": pa.array(odd.error, pa.string()).take(at),
        "fault": pa.array(fault, pa.string()).take(at),
        "found_partition": _known(places[:, 1]),
        "found_offset": _known(places[:, 2]),
    }
    table = pa.table(
        {name: pa.array(columns[name]).cast(FINDINGS.field(name).type) for name in FINDINGS.names}
    )
    keys = [(name, "ascending", "at_start") for name in _ORDER]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def _nowhere(chosen: Bools) -> Ints:
    """The chosen values as copies that were not read."""
    at = np.flatnonzero(chosen)
    return np.column_stack([at, np.full((len(at), 2), NULL)])


def _known(numbers: Ints) -> pa.Array:
    return pa.array(numbers, mask=numbers == NULL)


def _faults(windows: Sequence[FaultWindow], time_ns: Ints) -> list[str | None]:
    """The fault windows that each instant stands in; null where it stands in none."""
    told: list[list[str]] = [[] for _ in time_ns]
    for window in windows:
        for at in np.flatnonzero(within(window, time_ns)).tolist():
            told[at].append(window.id)
    return [",".join(names) or None for names in told]

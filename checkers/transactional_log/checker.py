"""The checker of transactions on logs: Jepsen's `kafka` family of anomalies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np

from checkers.transactional_log import cycles, found
from checkers.transactional_log.columns import Ops, history_of, named
from checkers.transactional_log.judging import Judged, Tally, merge, tally
from checkers.transactional_log.lag import Lag
from checkers.transactional_log.second_reader import OUTCOMES, STATES
from checkers.transactional_log.uncommitted import DIRTY_READ
from harness.protocols import (
    DOUBTS,
    Checker,
    CheckResult,
    HasPrimaryFinding,
    Ints,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import LOST_WRITES

_SHARD_BYTES: Final = 2**28
"""Of Parquet; a micro-operation takes some bytes in it, and some hundred here."""

_SENTENCES: Final = {
    "lost-write": "committed values that polls skipped and none returned: {n}",
    "lost-after-poll": "acknowledged values that were polled, and lost after that: {n}",
    "G1a": "records that were polled although the operation that sent them failed: {n}",
    "unexpected": "values that were polled but never sent: {n}",
    "phantom": "unacknowledged values that were polled, and taken back after that: {n}",
    "inconsistent-offsets": "offsets that hold several values: {n}",
    "duplicate": "values that are at several offsets: {n}",
    "torn-transaction": "transactions of which a part was polled and a part is lost: {n}",
    "zombie-commit": "acknowledged commits of producers that had been fenced before: {n}",
    "offsets-without-output": "inputs that a group went past without processing them: {n}",
    "output-without-offsets": "inputs that were consumed again after their output: {n}",
    "precommitted-read": "operations that polled values that they had sent: {n}",
    "unseen": "acknowledged values that no ok poll returned by the end, lost or late: {n}",
    "poll-skip": "polls that skip values after the process's previous poll: {n}",
    "nonmonotonic-poll": "polls that go back behind the process's previous poll: {n}",
    "int-poll-skip": "skips of values within the polls of one operation: {n}",
    "int-nonmonotonic-poll": "steps back within the polls of one operation: {n}",
    "nonmonotonic-send": "sends at or before the offset of the process's previous send: {n}",
    "int-nonmonotonic-send": "sends of one operation whose offsets are out of order: {n}",
    "int-send-skip": "other values between the sends of one operation: {n}",
    cycles.G0: "cycles of operations whose sends interleave: {n}",
    cycles.G1C: "cycles of operations that polled each other's values: {n}",
    cycles.REALTIME: "cycles of polls and real time (a value polled before it was sent): {n}",
    DIRTY_READ: "records of failed operations that polls of read_uncommitted returned: {n}",
}
"""By Jepsen's names, in the order in which a verdict gives them; `lost-after-poll`, `unexpected`,
`phantom`, `torn-transaction`, `zombie-commit`, `offsets-without-output`, `output-without-offsets`
and `dirty-read` are not Jepsen's."""

_ALWAYS_TOLERATED: Final = frozenset({"int-send-skip", cycles.G0, DIRTY_READ})
"""Writes of transactions are not isolated from each other, in no log that is known; and readers of
read_uncommitted ask for dirty reads."""
_NAMED: Final = 8
_CONSUMED: Final = frozenset({"offsets-without-output", "output-without-offsets"})


class Slice(NamedTuple):
    """A shard: the keys whose place leaves `number` when divided by `of`."""

    number: int
    of: int


class Part(NamedTuple):
    """What one shard shows, with the operations of the complete history and the numbers of the keys
    that both readers have read to their ends."""

    tally: Tally
    ops: Ops
    ended: Ints


@dataclass(frozen=True)
class TransactionalLog(Checker[Slice, Part], HasPrimaryFinding):
    """Transactions that send to logs and poll them, as Jepsen's workload kafka checks them: lost
    and unseen writes, aborted, precommitted and unexpected reads, inconsistent offsets, duplicates,
    skips and steps back of polls and sends, cycles (G0, G1c), transactions that are torn.

    sub_via       assign, or subscribe: the logs of a process that has subscribed may be distributed
                  again between its polls, so that its poll-skip and nonmonotonic-poll are reported
                  and no error
    unseen        error, as Jepsen has it, or doubt: the run is unknown, not invalid, where nothing
                  is wrong but that acknowledged values were not polled by the end
    exactly_once  inputs of subscribed transactions are consumed once: offsets-without-output and
                  output-without-offsets are errors (clients go back to what is committed when a
                  transaction fails), and not only reported; a run in which no such transaction
                  consumed anything and committed is unknown
    """

    plugin: ClassVar[str] = "kafka"
    models: ClassVar[frozenset[str]] = frozenset({"transaction"})

    sub_via: Literal["assign", "subscribe"] = "assign"
    unseen: Literal["error", "doubt"] = "error"
    exactly_once: bool = False

    @property
    def primary(self) -> PrimaryFinding:
        """Lost writes."""
        return replace(LOST_WRITES, counter_examples=("lost-write", "lost-after-poll", "unseen"))

    def shards(self, run: Run) -> list[Slice]:
        """One shard for every so many bytes of history."""
        of = 1 + sum(path.stat().st_size for path in run.facts.history) // _SHARD_BYTES
        return [Slice(number, of) for number in range(of)]

    def check(self, run: Run, shard: Slice) -> Part:
        """What the keys of one shard say."""
        history = history_of(run.operations(), file=run.facts.source)
        part = tally(
            history,
            shard.number,
            of=shard.of,
            ours=_ours(run),
            reassigned=self.sub_via == "subscribe",
        )
        return Part(part, history.ops, history.final.both)

    def merge(self, run: Run, parts: Sequence[Part]) -> CheckResult:
        """The counts, findings and statements of all shards together."""
        judged = merge(parts[0].ops, [part.tally for part in parts])
        numbers = {kind: _number(judged, kind) for kind in _SENTENCES}
        open_ = _not_read_to_the_end(judged, parts[0].ended, run)
        tolerated = {kind for kind in _SENTENCES if self._tolerates(kind)}
        errors = {
            kind: left
            for kind, number in numbers.items()
            if kind not in tolerated and (left := number - judged.doubted(kind))
        }
        tolerated |= {kind for kind, number in numbers.items() if number and kind not in errors}
        errors.pop(cycles.G1C, None)
        if judged.cycles.polls:
            errors[cycles.G1C] = judged.cycles.polls
        return CheckResult(
            counts={
                **judged.counts._asdict(),
                **numbers,
                "worst_realtime_lag_s": _lag_s(judged.lag) if run.facts.timed else None,
            },
            findings=found.table(
                judged.found,
                judged.ops,
                judged.keys,
                run_id=run.facts.run_id,
                texts=run.facts.texts,
                tolerated=tolerated.__contains__,
            ),
            counter_examples=tuple(
                Statement(kind, sentence.format(n=f"{errors[kind]:,}"))
                for kind, sentence in _SENTENCES.items()
                if kind in errors
            ),
            doubts=(*self._doubts(judged), *_open(open_, run), *_disputed(judged)),
            all_well=f"all {judged.counts.acknowledged:,} acknowledged values were polled",
            details=_details(judged, run, tolerated),
        )

    def _tolerates(self, kind: str) -> bool:
        """Whether an anomaly of this kind is reported, and no counter-example."""
        if kind in _CONSUMED:
            return not self.exactly_once
        return kind in _ALWAYS_TOLERATED or (kind == "unseen" and self.unseen == "doubt")

    def _doubts(self, judged: Judged) -> Iterator[Statement]:
        if not judged.counts.acknowledged:
            yield Statement(DOUBTS.vacuous, "no send was acknowledged")
        if not judged.counts.polled_ok:
            yield Statement(DOUBTS.vacuous, "no ok poll returned anything")
        if judged.uncommitted and not judged.counts.polled_uncommitted:
            yield Statement(DOUBTS.vacuous, "no poll of read_uncommitted returned anything")
        if self.exactly_once and not judged.counts.consumed:
            sentence = "no transaction of a process that had subscribed consumed anything"
            yield Statement(DOUBTS.vacuous, f"{sentence} and committed")
        if self.unseen == "doubt" and (number := judged.number("unseen")):
            sentence = _SENTENCES["unseen"].format(n=f"{number:,}")
            yield Statement(DOUBTS.not_yet_visible, sentence)


def _ours(run: Run) -> bool:
    """Whether it is a run of our own: it ends with reads of all logs, by two readers."""
    return run.facts.folder is not None


def _not_read_to_the_end(judged: Judged, ended: Ints, run: Run) -> Ints:
    """The numbers of the keys that not both readers have read to the end, of a run of our own. What
    nobody polled of them is late, or lost, or one reader's mistake."""
    return np.setdiff1d(judged.keys, ended) if _ours(run) else judged.keys[:0]


def _open(keys: Ints, run: Run) -> Iterator[Statement]:
    """The doubt that logs were not read to their ends."""
    if len(keys):
        names = ", ".join(named(key, run.facts.texts) for key in keys[:_NAMED].tolist())
        more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        sentence = f"no read met the end of logs {names}{more}, or no second reader did"
        yield Statement(DOUBTS.incomplete, sentence)


def _disputed(judged: Judged) -> Iterator[Statement]:
    """The doubt that the two readers of the logs disagree."""
    if number := judged.second.differ:
        sentence = f"two readers of the same logs differ in what committed, in {number:,} values"
        yield Statement(DOUBTS.readers, sentence)


def _number(judged: Judged, kind: str) -> int:
    found = judged.cycles
    components = {
        cycles.G0: found.writes,
        cycles.G1C: found.polls + found.mixed,
        cycles.REALTIME: found.realtime,
    }
    return components[kind] if kind in components else judged.number(kind)


def _lag_s(lag: Lag | None) -> float | None:
    return None if lag is None else lag.lag_ns / 1e9


def _details(judged: Judged, run: Run, tolerated: set[str]) -> dict[str, Any]:
    """The kinds that were found, the cycles that are shown, and where polls lagged most."""
    texts, lag = run.facts.texts, judged.lag
    return {
        "second_reader": {
            name: dict(zip(STATES, row.tolist(), strict=True))
            for name, row in zip(OUTCOMES, judged.second.sent, strict=True)
        }
        if _ours(run)
        else None,
        "error_types": sorted(kind for kind in _SENTENCES if _number(judged, kind)),
        "tolerated": sorted(kind for kind in tolerated if _number(judged, kind)),
        "cycles": [
            cycles.document(each, judged.ops, texts, tolerated=not each.wr_alone)
            for each in judged.cycles.shown
        ],
        "worst_realtime_lag": None
        if lag is None or not run.facts.timed
        else {
            "lag_s": lag.lag_ns / 1e9,
            "process": lag.process,
            "key": named(lag.key, texts),
            "time_s": lag.time_ns / 1e9,
        },
    }

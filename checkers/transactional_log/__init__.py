"""The checker of transactions on logs: Jepsen's `kafka` family of anomalies.

Transactions that consume from one log and produce to another: is each input consumed once?

A process that has subscribed gets logs distributed and commits how far it has consumed with what it
sends, so in a transaction the two stand or fall together. All processes that subscribe are one
group. Inputs are what such an operation polled, where it also sent something.

    output-without-offsets  two operations that committed polled the same input: the output of the
                            first stands, and how far it had consumed does not
    offsets-without-output  no operation of the group that may have committed polled the input, and
                            the group has gone past it: one that committed polled a later value of
                            its log. Either an operation that failed polled the input, or it
                            committed, a reader has polled it, and it is behind the first input of
                            its log that the group consumed (in a run of our own, anywhere: its
                            groups begin where the log begins)

An operation that polled an input and sent nothing has consumed it, unless it failed: a group may
filter. Where an operation of unknown outcome does not report what it polled, it may have consumed
whatever had been sent before it ended, and was not passed before it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.graphs import (
    ABSENT,
    POLLING,
    SUBSCRIBE,
    Ops,
    any_of,
    begins,
    codes_of,
    joined,
    named,
    ordered,
    starts,
)
from checkers.transactional_log import cycles, positions, values
from checkers.transactional_log.columns import History, MicroOps, history_of
from checkers.transactional_log.cycles import Cycles, cycles_of, edges_of
from checkers.transactional_log.positions import DIRTY_READ, Lag, worst_lag
from checkers.transactional_log.values import (
    NOWHERE,
    OUTCOMES,
    Found,
    Shown,
    Values,
    Versions,
    differing,
    missing,
    second_of,
    shown_of,
    states_of,
    versions_of,
)
from harness.models.micro_ops import POLL, SEND, UNCOMMITTED
from harness.protocols import (
    DOUBTS,
    Bools,
    CheckResult,
    Count,
    Ints,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import LOST_WRITES, counter_examples
from harness.protocols.runs import FAIL, INFO, NULL, OK

ONE_EACH: Final = ("precommitted-read", "torn-transaction", "zombie-commit")
"""Kinds of which an operation counts once, whatever number of keys show it."""
POSITIONS: Final = frozenset({"poll-skip", "nonmonotonic-poll"})
"""Kinds of steps between polls."""


class Dirty(NamedTuple):
    """A transaction that was aborted, and an operation that polled some of it: rows of both, and
    the keys and values that were sent, and of these polled."""

    kind: str
    writer: int
    reader: int
    sent: list[tuple[int, int]]
    polled: list[tuple[int, int]]


class Judged(NamedTuple):
    """What a history shows; `keys` and `ops` are its own; `second`: what the second reader says of
    the values, and `differ`: how many the two do not have at the same offsets; `ended`: the numbers
    of the keys that both have read to their ends; `uncommitted`: whether any poll was to be one of
    read_uncommitted; `dirty`: some of the aborted transactions that were read."""

    counts: dict[str, int]
    found: tuple[Found, ...]
    cycles: Cycles
    lag: Lag | None
    keys: Ints
    ops: Ops
    second: dict[str, dict[str, int]]
    differ: int
    ended: Ints
    uncommitted: bool
    dirty: tuple[Dirty, ...]
    lost: pa.Table | None

    def number(self, kind: str) -> int:
        """How many anomalies of a kind there are; of cycles, how many components."""
        alone = sum(each.number for each in self.found if each.kind == kind)
        return alone + self.cycles.numbers.get(kind, 0)

    def doubted(self, kind: str) -> int:
        """How many of them are not backed."""
        of_kind = (each.backed for each in self.found if each.kind == kind)
        return sum(int(np.count_nonzero(~backed)) for backed in of_kind)


def judge(history: History, *, ours: bool = False, reassigned: bool = False) -> Judged:
    """Judge a complete history. `ours`: a run of our own, which ends with reads of all logs by two
    readers. `reassigned`: the logs of a process that subscribes may be distributed again between
    its polls."""
    shown = shown_of(history)
    group = group_of(history, shown, ours=ours)
    versions = versions_of(history, shown.committed)
    became = values.values_of(history)
    states = states_of(history)
    found = [
        *values.anomalies(history, became, versions, shown, states, ours=ours),
        *positions.anomalies(history, versions),
        *anomalies(history, versions, became, shown, group),
        *values.taken_back(history, became, states),
    ]
    edges = edges_of(history, became, versions)
    if history.uncommitted:
        more, of_polls = positions.judged(history, shown.committed, found)
        found += more
        edges = joined([edges, of_polls])
    if reassigned:
        found = [_excused(each, history.ops, everybody=not ours) for each in found]
    by_kind: dict[str, Found] = {}
    for one in found:
        by_kind[one.kind] = _both(by_kind[one.kind], one) if one.kind in by_kind else one
    for kind in ONE_EACH:
        by_kind[kind] = _once(by_kind[kind])
    return Judged(
        _counts(history, consumed(history, shown, group)),
        tuple(by_kind.values()),
        cycles_of(edges, history.ops),
        worst_lag(history),
        history.keys,
        history.ops,
        second_of(history, states),
        differing(history),
        history.final.both,
        history.uncommitted,
        tuple(_dirty(history, [by_kind[kind] for kind in ("G1a", DIRTY_READ) if kind in by_kind])),
        values.lost_of(history, became, states) if ours else None,
    )


def _dirty(history: History, kinds: Iterable[Found]) -> Iterator[Dirty]:
    """The first few of each kind that are backed, or of none if none is."""
    micro = history.micro
    for found in kinds:
        found = found.take(found.backed)
        pairs = dict.fromkeys(zip(found.op.tolist(), found.other.tolist(), strict=True))
        for writer, reader in list(pairs)[:_DRAWN]:
            sends = micro.take((micro.op == writer) & (micro.kind == SEND))
            seen = np.isin(sends.thing, micro.thing[micro.op == reader])
            sent = list(zip(history.keys[sends.key].tolist(), sends.value.tolist(), strict=True))
            polled = [each for each, is_seen in zip(sent, seen, strict=True) if is_seen]
            yield Dirty(found.kind, writer, reader, sent, polled)


def _excused(found: Found, ops: Ops, *, everybody: bool) -> Found:
    """Steps between the polls of a process that has subscribed, or of any, are not backed."""
    if found.kind not in POSITIONS:
        return found
    process = ops.process if everybody else ops.process[ops.f == SUBSCRIBE]
    return found._replace(backed=~np.isin(ops.process[found.op], np.unique(process)))


def _both(one: Found, other: Found) -> Found:
    columns = (np.concatenate(pair) for pair in zip(one[1:], other[1:], strict=True))
    return Found._make([one.kind, *columns])


def _once(found: Found) -> Found:
    """One row an operation: that of the least key and value, of those that are backed if any is."""
    found = found.take(np.lexsort((found.value, found.key, ~found.backed, found.op)))
    return found.take(np.unique(found.op, return_index=True)[1])


def _counts(history: History, consumed: MicroOps) -> dict[str, int]:
    """Operations that sent; values that were sent, by how their operations ended; records that
    were polled, by ok operations, by readers of read_uncommitted, and as inputs by a group's
    operations that committed."""
    ops, micro = history.ops, history.micro
    sends = np.compress(micro.kind == SEND, micro.op)
    marks = np.take(ops.mark, sends)
    polls = np.take(ops.mark, np.compress(micro.kind == POLL, micro.op))
    return {
        "transactions": len(np.unique(sends)),
        "attempted": len(marks),
        **{name: int(np.count_nonzero(marks == mark)) for name, mark in OUTCOMES.items()},
        "polled": len(polls),
        "polled_ok": int(np.count_nonzero(polls == OK)),
        "polled_uncommitted": int(np.count_nonzero(micro.kind == UNCOMMITTED)),
        "consumed": len(consumed.op),
    }


class Group(NamedTuple):
    """Operations of a complete history whose process had subscribed. `consuming`: sent something;
    `maybe`: may have committed; `silent`: of those, the ones of which nobody knows what they
    polled. `from_start`: the group begins where its logs begin."""

    consuming: Bools
    maybe: Bools
    silent: Bools
    from_start: bool


def group_of(history: History, shown: Shown, *, ours: bool) -> Group:
    """The group of a complete history; `ours`: it is that of a run of our own."""
    ops, micro = history.ops, history.micro
    member, number = _members(history), len(ops.mark)
    sent, polled = (any_of(micro.op[micro.kind == kind], number) for kind in (SEND, POLL))
    maybe = member & (ops.mark != FAIL)
    if ours and maybe.any():
        maybe &= ~_undone(history, shown, sent)
    silent = maybe & (ops.mark == INFO) & (ops.f == POLLING) & ~polled
    return Group(sent & member, maybe, silent, from_start=ours)


def _undone(history: History, shown: Shown, sent: Bools) -> Bools:
    """Operations of unknown outcome that did not commit: two readers have found nothing of what
    they sent to be committed."""
    micro = history.micro
    sends = micro.take(micro.kind == SEND)
    committed = ~missing(history, states_of(history))[sends.thing]
    there = any_of(sends.op[committed], len(history.ops.mark))
    undone: Bools = sent & ~there & ~shown.committed & (history.ops.mark == INFO)
    return undone


def _members(history: History) -> Bools:
    """Operations of processes whose last assignment was a subscription."""
    ops = history.ops
    if not (ops.f == SUBSCRIBE).any():
        return np.zeros(len(ops.mark), np.bool_)
    process = codes_of(ops.process)
    order = ordered(*process)
    chose = np.where(
        (ops.f[order] <= SUBSCRIBE) & (ops.mark[order] != FAIL), np.arange(len(order)), -1
    )
    last = np.maximum.accumulate(chose)
    first = starts(begins(process.codes[order]))
    subscribed = np.zeros(len(order), np.bool_)
    subscribed[order] = (last >= first) & (ops.f[order][last] == SUBSCRIBE)
    return subscribed


def consumed(history: History, shown: Shown, group: Group) -> MicroOps:
    """The inputs that operations consumed which committed."""
    micro = history.micro
    return micro.take((micro.kind == POLL) & (group.consuming & shown.committed)[micro.op])


def anomalies(
    history: History, versions: Versions, became: Values, shown: Shown, group: Group
) -> Iterator[Found]:
    if group.consuming.any():
        done = consumed(history, shown, group)
        there = became.ok_read & (became.writer != ABSENT) & shown.committed[became.writer]
        yield _twice(history, done)
        yield _passed(history, versions, became, group, done, there)


def _twice(history: History, done: MicroOps) -> Found:
    """One row for each time but the first that an input was consumed."""
    ops = max(1, len(history.ops.mark))
    once = np.unique(done.thing * ops + done.op)
    thing, op = once // ops, once % ops
    again = np.flatnonzero(np.diff(thing) == 0) + 1
    return Found.of(
        "output-without-offsets",
        key=history.key_of[thing[again]],
        value=history.value_of[thing[again]],
        op=op[again],
        other=op[again - 1],
    )


def _passed(
    history: History, versions: Versions, became: Values, group: Group, done: MicroOps, there: Bools
) -> Found:
    """One row for each input; `op`: the last that polled it, or who sent it; `other`: the first
    that went past it. `there`: things that committed and that an ok operation polled."""
    polls = history.micro.take(history.micro.kind == POLL)
    inputs = polls.take(group.consuming[polls.op])
    tried = np.full(history.things, ABSENT)
    tried[inputs.thing] = inputs.op
    maybe = any_of(polls.thing[group.maybe[polls.op]], history.things)
    first = np.full(len(history.keys), NOWHERE if group.from_start else len(versions.offset))
    np.minimum.at(first, done.key, versions.first[done.thing])
    place = versions.last
    inside = (tried != ABSENT) | (there & (place > first[history.key_of]))
    things = np.flatnonzero(inside & ~maybe & (place != NOWHERE))
    by = _passing(history, versions, done)[place[things]]
    passed = (by != ABSENT) & ~_perhaps(history, group, became.writer[things], by)
    things = things[passed]
    return Found.of(
        "offsets-without-output",
        key=history.key_of[things],
        value=history.value_of[things],
        op=np.where(tried == ABSENT, became.writer, tried)[things],
        other=by[passed],
    )


def _passing(history: History, versions: Versions, done: MicroOps) -> Ints:
    """Of each slot, the first operation that consumed something behind it in its log, ABSENT if
    none did."""
    slots, nobody = len(versions.offset), len(history.ops.mark)
    known = done.take(versions.last[done.thing] != NOWHERE)
    by = np.full(slots, nobody)
    np.minimum.at(by, versions.last[known.thing], known.op)
    key = np.searchsorted(versions.begins, np.arange(slots), side="right") - 1
    by += key * (nobody + 1)  # so that no minimum goes from one log into another
    by = np.minimum.accumulate(by[::-1])[::-1] % (nobody + 1)
    passing = np.full(slots, ABSENT)
    passing[:-1] = np.where((key[1:] == key[:-1]) & (by[1:] < nobody), by[1:], ABSENT)
    return passing


def _perhaps(history: History, group: Group, writer: Ints, by: Ints) -> Bools:
    """Whether an operation that does not report what it polled may have consumed each of some
    values, from who sent it and who went past it."""
    ops, silent = history.ops, np.flatnonzero(group.silent)
    silent = silent[np.argsort(ops.begun[silent], kind="stable")]
    ended = ops.ended[silent]
    never = int(max(ops.begun.max(initial=0), ops.ended.max(initial=0))) + 1
    latest = np.maximum.accumulate(np.where(ended == ABSENT, never, ended))
    before = np.searchsorted(ops.begun[silent], ops.ended[by])
    sent = np.where(writer == ABSENT, ABSENT, ops.begun[writer])
    perhaps: Bools = np.append(ABSENT, latest)[before] > sent
    return perhaps


_WRONG: Final = tuple(
    Count(name, name, meaning, among=(of,) if of else ())
    for name, of, meaning in (
        ("lost-write", "attempted", "committed values that polls skipped and none returned"),
        (
            "lost-after-poll",
            "acknowledged",
            "acknowledged values that were polled, and lost after that",
        ),
        ("G1a", "polled", "records that were polled although the operation that sent them failed"),
        ("unexpected", "polled", "values that were polled but never sent"),
        ("phantom", "polled", "unacknowledged values that were polled, and taken back after that"),
        ("inconsistent-offsets", "", "offsets that hold several values"),
        ("duplicate", "attempted", "values that are at several offsets"),
        (
            "torn-transaction",
            "transactions",
            "transactions of which a part was polled and a part is lost",
        ),
        (
            "zombie-commit",
            "transactions",
            "acknowledged commits of producers that had been fenced before",
        ),
        (
            "offsets-without-output",
            "attempted",
            "inputs that a group went past without processing them",
        ),
        (
            "output-without-offsets",
            "consumed",
            "inputs that were consumed again after their output",
        ),
        ("precommitted-read", "transactions", "operations that polled values that they had sent"),
        (
            "unseen",
            "acknowledged",
            "acknowledged values that no ok poll returned by the end, lost or late",
        ),
        ("poll-skip", "polled", "polls that skip values after the process's previous poll"),
        ("nonmonotonic-poll", "polled", "polls that go back behind the process's previous poll"),
        ("int-poll-skip", "polled", "skips of values within the polls of one operation"),
        ("int-nonmonotonic-poll", "polled", "steps back within the polls of one operation"),
        (
            "nonmonotonic-send",
            "attempted",
            "sends at or before the offset of the process's previous send",
        ),
        (
            "int-nonmonotonic-send",
            "attempted",
            "sends of one operation whose offsets are out of order",
        ),
        ("int-send-skip", "", "other values between the sends of one operation"),
        (cycles.G0, "", "cycles of operations whose sends interleave"),
        (cycles.G1C, "", "cycles of operations that polled each other's values"),
        (cycles.REALTIME, "", "cycles of polls and real time (a value polled before it was sent)"),
        (DIRTY_READ, "", "records of failed operations that polls of read_uncommitted returned"),
    )
)
"""By Jepsen's names, with the count that each is a part of, in the order in which a verdict gives
them; `lost-after-poll`, `unexpected`, `phantom`, `torn-transaction`, `zombie-commit`,
`offsets-without-output`, `output-without-offsets` and `dirty-read` are not Jepsen's."""

_ALWAYS_TOLERATED: Final = frozenset({"int-send-skip", cycles.G0, DIRTY_READ})
"""Writes of transactions are not isolated from each other, in no log that is known; and readers of
read_uncommitted ask for dirty reads."""
_NAMED: Final = 8
_DRAWN: Final = 3
_CONSUMED: Final = frozenset({"offsets-without-output", "output-without-offsets"})


@dataclass(frozen=True)
class TransactionalLog(OneShard[Judged]):
    """Transactions that send to logs and poll them, as Jepsen's workload kafka checks them: lost
    and unseen writes, aborted, precommitted and unexpected reads, inconsistent offsets, duplicates,
    skips and steps back of polls and sends, cycles (G0, G1c), transactions that are torn.

    sub_via       subscribe: poll-skip and nonmonotonic-poll of processes that have subscribed are
                  only reported, as their logs may be distributed again
    unseen        doubt: a run is unknown, not invalid, where only acknowledged values were not
                  polled by the end
    exactly_once  offsets-without-output and output-without-offsets are errors, not only reported;
                  a run in which no such transaction consumed anything and committed is unknown
    """

    plugin: ClassVar[str] = "kafka"
    models: ClassVar[frozenset[str]] = frozenset({"transaction"})
    title: ClassVar[str] = "Transactions"
    primary: ClassVar[PrimaryFinding] = replace(
        LOST_WRITES, counter_examples=("lost-write", "lost-after-poll", "unseen")
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("transactions", "transactions that sent"),
        Count("attempted", "values sent"),
        Count("consumed", "inputs consumed"),
        Count("acknowledged", "acknowledged", "values of sends and of transactions that were ok"),
        Count("failed", "failed"),
        Count("unknown", "of unknown outcome"),
        Count("polled", "values polled"),
        Count("polled_ok", "of these, by polls that were ok"),
        *_WRONG,
        Count("worst_realtime_lag_s", "age of the oldest value that a poll left out, at most"),
    )
    short: ClassVar[tuple[str, ...]] = (
        *("acknowledged", "lost-write", "unseen", "torn-transaction", "G1a", "duplicate"),
    )

    sub_via: Literal["assign", "subscribe"] = "assign"
    unseen: Literal["error", "doubt"] = "error"
    exactly_once: bool = False

    def gather(self, run: Run) -> Judged:
        history = history_of(run.operations(), file=run.facts.source)
        return judge(history, ours=_ours(run), reassigned=self.sub_via == "subscribe")

    def judge(self, run: Run, judged: Judged) -> CheckResult:
        numbers = {each.name: judged.number(each.name) for each in _WRONG}
        # What nobody polled of a key not read to its end is late, or lost, or one reader's mistake.
        open_ = np.setdiff1d(judged.keys, judged.ended) if _ours(run) else judged.keys[:0]
        tolerated = {kind for kind in numbers if self._tolerates(kind)}
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
                **judged.counts,
                **numbers,
                "worst_realtime_lag_s": judged.lag.lag_ns / 1e9
                if judged.lag is not None and run.facts.timed
                else None,
            },
            findings=values.table(
                judged.found,
                judged.ops,
                judged.keys,
                run_id=run.facts.run_id,
                texts=run.facts.texts,
                tolerated=tolerated.__contains__,
            ),
            counter_examples=counter_examples(_WRONG, {**judged.counts, **errors}),
            doubts=(*self._doubts(judged), *_open(open_, run), *_disputed(judged)),
            all_well=f"all {judged.counts['acknowledged']:,} acknowledged values were polled",
            details=_details(judged, run, tolerated),
            lost=judged.lost,
        )

    def _tolerates(self, kind: str) -> bool:
        """Whether an anomaly of this kind is reported, and no counter-example."""
        if kind in _CONSUMED:
            return not self.exactly_once
        return kind in _ALWAYS_TOLERATED or (kind == "unseen" and self.unseen == "doubt")

    def _doubts(self, judged: Judged) -> Iterator[Statement]:
        if not judged.counts["acknowledged"]:
            yield Statement(DOUBTS.vacuous, "no send was acknowledged")
        if not judged.counts["polled_ok"]:
            yield Statement(DOUBTS.vacuous, "no ok poll returned anything")
        if judged.uncommitted and not judged.counts["polled_uncommitted"]:
            yield Statement(DOUBTS.vacuous, "no poll of read_uncommitted returned anything")
        if self.exactly_once and not judged.counts["consumed"]:
            sentence = "no transaction of a process that had subscribed consumed anything"
            yield Statement(DOUBTS.vacuous, f"{sentence} and committed")
        if self.unseen == "doubt" and (number := judged.number("unseen")):
            sentence = "acknowledged values that no ok poll returned by the end, lost or late"
            yield Statement(DOUBTS.not_yet_visible, f"{sentence}: {number:,}")


def _ours(run: Run) -> bool:
    """Whether it is a run of our own: it ends with reads of all logs, by two readers."""
    return run.facts.folder is not None


def _open(keys: Ints, run: Run) -> Iterator[Statement]:
    """The doubt that logs were not read to their ends."""
    if len(keys):
        names = ", ".join(named(key, run.facts.texts) for key in keys[:_NAMED].tolist())
        more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        sentence = f"no read met the end of logs {names}{more}, or no second reader did"
        yield Statement(DOUBTS.incomplete, sentence)


def _disputed(judged: Judged) -> Iterator[Statement]:
    """The doubt that the two readers of the logs disagree."""
    if number := judged.differ:
        sentence = f"two readers of the same logs differ in what committed, in {number:,} values"
        yield Statement(DOUBTS.readers, sentence)


def _example(dirty: Dirty, ops: Ops, texts: Sequence[str]) -> dict[str, Any]:
    """An aborted transaction and its reader as JSON, as a register's counter-example is."""

    def words(pairs: list[tuple[int, int]]) -> str:
        more = f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
        each = (f"{value} in log {named(key, texts)}" for key, value in pairs[:_NAMED])
        return ", ".join(each) + more

    def operation(at: int, text: str) -> dict[str, Any]:
        ended_ns = int(ops.ended_ns[at])
        return {
            "row": int(ops.place[at]),
            "process": int(ops.process[at]),
            "type": {OK: "ok", FAIL: "fail", INFO: "info"}[int(ops.mark[at])],
            "invoke_ns": int(ops.begun_ns[at]),
            "complete_ns": None if ended_ns == NULL else ended_ns,
            "text": text,
        }

    isolation = (
        "read_uncommitted, which asks for that" if dirty.kind == DIRTY_READ else "read_committed"
    )
    writer, reader = (int(ops.process[at]) for at in (dirty.writer, dirty.reader))
    sent, polled = words(dirty.sent), words(dirty.polled)
    return {
        "kind": dirty.kind,
        "stuck": int(ops.place[dirty.reader]),
        "words": f"The transaction of process {writer} sent {sent}, and was aborted. "
        f"Process {reader} polled {polled}, with {isolation}.",
        "operations": [
            operation(dirty.writer, f"sends {sent}: aborted"),
            operation(dirty.reader, f"polls {polled}"),
        ],
    }


def _details(judged: Judged, run: Run, tolerated: set[str]) -> dict[str, Any]:
    """The kinds that were found, the cycles and the aborted transactions that are shown, and where
    polls lagged most."""
    texts, lag = run.facts.texts, judged.lag
    return {
        "second_reader": judged.second if _ours(run) else None,
        "error_types": sorted(each.name for each in _WRONG if judged.number(each.name)),
        "examples": [_example(each, judged.ops, texts) for each in judged.dirty]
        if run.facts.timed
        else [],
        "tolerated": sorted(kind for kind in tolerated if judged.number(kind)),
        "cycles": [cycles.document(each, judged.ops, texts) for each in judged.cycles.shown],
        "worst_realtime_lag": None
        if lag is None or not run.facts.timed
        else {
            "lag_s": lag.lag_ns / 1e9,
            "process": lag.process,
            "key": named(lag.key, texts),
            "time_s": lag.time_ns / 1e9,
        },
    }

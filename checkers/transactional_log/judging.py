"""Judges a history of transactions on logs, in one piece or in shards of keys that merge exactly.

judge(history)                          a complete history
merge([tally(history, n, of=k) ...])    the same, each shard tallied anywhere

The judgement of a log depends on the other logs only by what committed, which is determined for the
complete history first. Cycles go through all logs: shards hand their edges over, and they are
joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

import numpy as np

from checkers.transactional_log import exactly_once, positions, taken_back, uncommitted, values
from checkers.transactional_log.columns import SUBSCRIBE, History, MicroOps, Ops, shard
from checkers.transactional_log.cycles import Cycles, cycles_of
from checkers.transactional_log.edges import Edges, edges_of, joined
from checkers.transactional_log.found import Found
from checkers.transactional_log.lag import Lag, worst, worst_lag
from checkers.transactional_log.second_reader import Second, second_of, states_of
from checkers.transactional_log.shown import shown_of
from checkers.transactional_log.versions import versions_of
from harness.models.micro_ops import POLL, SEND, UNCOMMITTED
from harness.protocols import Ints
from harness.protocols.runs import FAIL, INFO, OK

ONE_EACH: Final = ("precommitted-read", "torn-transaction", "zombie-commit")
"""Kinds of which an operation counts once, whatever number of keys show it."""
POSITIONS: Final = frozenset({"poll-skip", "nonmonotonic-poll"})
"""Kinds of steps between polls."""


class Counts(NamedTuple):
    """Values that were sent, by how their operations ended; records that were polled, by ok
    operations, by readers of read_uncommitted, and as inputs by a group's operations that
    committed."""

    attempted: int
    acknowledged: int
    failed: int
    unknown: int
    polled: int
    polled_ok: int
    polled_uncommitted: int
    consumed: int


class Tally(NamedTuple):
    """What a shard says. `keys`: the numbers of the keys that rows of `found` name by their
    place."""

    counts: Counts
    found: tuple[Found, ...]
    edges: Edges
    lag: Lag | None
    keys: Ints
    second: Second
    uncommitted: bool


class Judged(NamedTuple):
    """What a complete history shows; `ops` are its operations. `uncommitted`: whether any poll was
    to be one of read_uncommitted."""

    counts: Counts
    found: tuple[Found, ...]
    cycles: Cycles
    lag: Lag | None
    keys: Ints
    ops: Ops
    second: Second
    uncommitted: bool

    def number(self, kind: str) -> int:
        """How many anomalies of a kind there are; cycles are none."""
        return sum(each.number for each in self.found if each.kind == kind)

    def doubted(self, kind: str) -> int:
        """How many of them are not backed."""
        of_kind = (each.backed for each in self.found if each.kind == kind)
        return sum(int(np.count_nonzero(~backed)) for backed in of_kind)


def judge(history: History, *, shards: int = 1) -> Judged:
    """Judge a complete history. The answer does not depend on the number of shards."""
    return merge(history.ops, [tally(history, number, of=shards) for number in range(shards)])


def tally(
    history: History,
    number: int = 0,
    *,
    of: int = 1,
    ours: bool = False,
    reassigned: bool = False,
) -> Tally:
    """What the keys of one shard say. `ours`: a run of our own, which ends with reads of all logs
    by two readers. `reassigned`: the logs of a process that subscribes may be distributed again
    between its polls."""
    shown = shown_of(history)
    group = exactly_once.group_of(history, shown, ours=ours)
    part = shard(history, number, of=of)
    versions = versions_of(part, shown.committed)
    became = values.values_of(part)
    states = states_of(part)
    found = [
        *values.anomalies(part, became, versions, shown, states, ours=ours),
        *positions.anomalies(part, versions),
        *exactly_once.anomalies(part, versions, became, shown, group),
        *taken_back.anomalies(part, became, states),
    ]
    edges = edges_of(part, became, versions)
    if part.uncommitted:
        more, of_polls = uncommitted.judged(part, shown.committed, found)
        found += more
        edges = joined([edges, of_polls])
    if reassigned:
        found = [_excused(each, history.ops, everybody=not ours) for each in found]
    return Tally(
        _counts(part, exactly_once.consumed(part, shown, group)),
        tuple(found),
        edges,
        worst_lag(part),
        part.keys,
        second_of(part, states),
        history.uncommitted,
    )


def _excused(found: Found, ops: Ops, *, everybody: bool) -> Found:
    """Steps between the polls of a process that has subscribed, or of any, are not backed."""
    if found.kind not in POSITIONS:
        return found
    process = ops.process if everybody else ops.process[ops.f == SUBSCRIBE]
    return found._replace(backed=~np.isin(ops.process[found.op], np.unique(process)))


def merge(ops: Ops, tallies: Sequence[Tally]) -> Judged:
    """What all shards of one history say together."""
    keys = np.unique(np.concatenate([each.keys for each in tallies]))
    found: dict[str, Found] = {}
    for each in tallies:
        place = np.searchsorted(keys, each.keys)
        for one in each.found:
            moved = one._replace(key=place[one.key])
            found[one.kind] = _both(found[one.kind], moved) if one.kind in found else moved
    for kind in ONE_EACH:
        found[kind] = _once(found[kind])
    return Judged(
        Counts._make(map(sum, zip(*(each.counts for each in tallies), strict=True))),
        tuple(found.values()),
        cycles_of(joined([each.edges for each in tallies]), ops),
        reduce(worst, (each.lag for each in tallies)),
        keys,
        ops,
        Second.of_all(each.second for each in tallies),
        any(each.uncommitted for each in tallies),
    )


def _both(one: Found, other: Found) -> Found:
    columns = (np.concatenate(pair) for pair in zip(one[1:], other[1:], strict=True))
    return Found._make([one.kind, *columns])


def _once(found: Found) -> Found:
    """One row an operation: that of the least key and value, of those that are backed if any is."""
    found = found.take(np.lexsort((found.value, found.key, ~found.backed, found.op)))
    return found.take(np.unique(found.op, return_index=True)[1])


def _counts(history: History, consumed: MicroOps) -> Counts:
    ops, micro = history.ops, history.micro
    marks = np.take(ops.mark, np.compress(micro.kind == SEND, micro.op))
    polls = np.take(ops.mark, np.compress(micro.kind == POLL, micro.op))
    ok, failed, unknown = (int(np.count_nonzero(marks == mark)) for mark in (OK, FAIL, INFO))
    return Counts(
        attempted=len(marks),
        acknowledged=ok,
        failed=failed,
        unknown=unknown,
        polled=len(polls),
        polled_ok=int(np.count_nonzero(polls == OK)),
        polled_uncommitted=int(np.count_nonzero(micro.kind == UNCOMMITTED)),
        consumed=len(consumed.op),
    )

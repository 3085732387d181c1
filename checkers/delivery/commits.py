"""The outcome of commits: refused, lost, gone back, of a member that does not own the partition.

A commit that was never answered, or answered with an error that does not refuse it, is unknown: it
may have taken effect at any time after it began. The definitions are those of docs/consumers.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

import numpy as np

from checkers.delivery.columns import Did, GroupRows
from harness.protocols.groups import KINDS
from harness.protocols.runs import FAIL, INVOKED, NULL, OK, Bools, Ints

_NEVER: Final = 2**62
_NEVER_BEFORE: Final = -_NEVER


class Commits(NamedTuple):
    """The commits of a group, one row each: those that were acknowledged (`ok`) and those with an
    unknown outcome; `ended_ns` of these is never. `refused` were not kept for sure."""

    rows: Did
    ok: Bools
    ended_ns: Ints
    refused: int

    @classmethod
    def of(cls, rows: GroupRows) -> Self:
        """Pair invocations with completions."""
        every = rows.did[KINDS.commit]
        begun = every.mark == INVOKED
        key = np.stack([every.who, every.partition, every.offset, every.begun_ns])
        _, inverse = np.unique(key, axis=1, return_inverse=True)
        answered = np.zeros(int(inverse.max(initial=-1)) + 1, np.bool_)
        answered[inverse.ravel()[~begun]] = True
        unanswered = begun & ~answered[inverse.ravel()]
        kept = every.some(np.flatnonzero((~begun & (every.mark != FAIL)) | unanswered))
        ok = kept.mark == OK
        return cls(
            rows=kept,
            ok=ok,
            ended_ns=np.where(ok, kept.time_ns, _NEVER),
            refused=int(np.count_nonzero(every.mark == FAIL)),
        )

    def floors(self, partitions: Ints, times_ns: Ints) -> Ints:
        """For partitions at instants, the least offset that may have been committed there then; 0
        where none was acknowledged."""
        found = np.zeros(len(partitions), np.int64)
        for at, (partition, time_ns) in enumerate(zip(partitions, times_ns, strict=True)):
            here = self.rows.partition == partition
            done = here & self.ok & (self.ended_ns <= time_ns)
            if not done.any():
                continue
            superseded_before_ns = self.rows.begun_ns[done].max()
            possible = here & (self.rows.begun_ns <= time_ns)
            possible &= self.ended_ns >= superseded_before_ns
            found[at] = self.rows.offset[possible].min()
        return found

    def lost(self, rows: GroupRows) -> tuple[Did, Ints]:
        """Reads of a committed offset that show that a commit was lost, and the offset that was."""
        queried, final = rows.did[KINDS.committed], rows.did[KINDS.final]
        queried, final = queried.some(queried.mark == OK), final.some(final.mark == OK)
        reads = Did(*(np.concatenate(pair) for pair in zip(queried, final, strict=True)))
        lost = np.full(len(reads.row), NULL)
        for at in range(len(reads.row)):
            lost[at] = self._lost_by(reads.some(np.array([at])))
        shown = lost != NULL
        return reads.some(shown), lost[shown]

    def _lost_by(self, read: Did) -> int:
        """The greatest offset that was committed, and that this read shows to be lost."""
        (partition,), (offset,), (begun_ns,) = read.partition, read.offset, read.begun_ns
        here = self.rows.partition == partition
        done = here & self.ok & (self.ended_ns <= begun_ns)
        if offset != NULL:
            done &= self.rows.offset > offset
            same = here & (self.rows.offset == offset) & (self.rows.begun_ns <= read.time_ns[0])
            done &= self.rows.begun_ns > self.ended_ns[same].max(initial=-_NEVER)
        return int(self.rows.offset[done].max(initial=NULL))

    def back(self) -> Did:
        """Acknowledged commits of an offset below one that had been acknowledged before they
        began."""
        acknowledged, found = self.rows.some(self.ok), []
        for partition in np.unique(acknowledged.partition):
            here = np.flatnonzero(acknowledged.partition == partition)
            by_end = here[np.argsort(acknowledged.time_ns[here], kind="stable")]
            highest = np.maximum.accumulate(acknowledged.offset[by_end])
            before = np.searchsorted(
                acknowledged.time_ns[by_end], acknowledged.begun_ns[here], side="left"
            )
            earlier = np.where(before > 0, highest[np.maximum(before - 1, 0)], -1)
            found.append(here[acknowledged.offset[here] < earlier])
        return acknowledged.some(np.sort(_all(found)))

    def zombies(self, rows: GroupRows) -> Did:
        """Acknowledged commits of a partition that had been assigned to another life when they
        began, after its last assignment to their own until they ended, and in a later generation
        than any of these (when an auto-commit began is known roughly, and when it ended exactly).
        The generation alone would not do: a group that its coordinator has forgotten counts from 1
        again. Nor would the time: an assignment may be recorded late."""
        acknowledged, assign, found = self.rows.some(self.ok), rows.did[KINDS.assign], []
        for partition in np.unique(acknowledged.partition):
            here = np.flatnonzero(acknowledged.partition == partition)
            given = assign.some((assign.partition == partition) & (assign.generation != NULL))
            commit = acknowledged.some(here)
            own = given.who[None, :] == commit.who[:, None]
            by_end = given.time_ns[None, :] < commit.time_ns[:, None]
            by_begin = given.time_ns[None, :] < commit.begun_ns[:, None]
            later = ~own & by_begin
            for column in (given.generation, given.time_ns):
                until = np.where(own & by_end, column[None, :], _NEVER_BEFORE)
                later &= column[None, :] > until.max(axis=1, initial=_NEVER_BEFORE)[:, None]
            found.append(here[later.any(axis=1)])
        return acknowledged.some(np.sort(_all(found)))

    def beyond_end(self, rows: GroupRows) -> Ints:
        """The partitions whose committed offset is beyond the end of the log."""
        final = rows.did[KINDS.final]
        known = (final.mark == OK) & (final.offset != NULL)
        behind = final.offset[known] > rows.log.end[final.partition[known]]
        return np.unique(final.partition[known][behind])


def _all(found: list[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *found])

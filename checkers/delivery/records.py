"""The outcome of records: skipped, pending, gone, processed twice, phantoms, out of order.

Everything is counted by partition, offset and value, never by value alone: a value may be stored
twice, by a retry, and then looks processed twice.

The outcome of commits: refused, lost, gone back, of a member that does not own the partition.

A commit that was never answered, or answered with an error that does not refuse it, is unknown: it
may have taken effect at any time after it began. The definitions are those of
docs/how-to/consumers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np

from harness.protocols import Deliveries, Facts, Reads, Run, Texts, Writes
from harness.protocols.groups import KINDS
from harness.protocols.runs import FAIL, INVOKED, NULL, OK, Bools, Ints

# A group's run in columns: what was written, what the log holds at the end, what consumers did.

WIDTH: Final = 2**40
"""More records than a partition has: a partition and an offset are one number, as `place`."""

NOBODY: Final = -1


def place(partition: Ints, offset: Ints) -> Ints:
    """A partition and an offset as one number."""
    return partition * WIDTH + offset


class Written(NamedTuple):
    """The writes: how many began, and of those that were acknowledged (none, if producers do not
    request it) the value, the partition, the offset (NULL: unknown), the instant, and when they had
    begun (NULL: unknown)."""

    attempted: int
    value: Ints
    partition: Ints
    offset: Ints
    time_ns: Ints
    begun_ns: Ints


class Log(NamedTuple):
    """The records of the final log, sorted by place; of each partition its first offset, the one
    after the last, whether every replica was in sync as it was read, and whether two complete
    readers confirm what is and what is not in it. `complete`: every partition was read to its end;
    `agreed`: and by readers that met the same."""

    place: Ints
    value: Ints
    start: Ints
    end: Ints
    whole: Bools
    confirmed: Bools
    complete: bool
    agreed: bool

    def find(self, partition: Ints, offset: Ints, value: Ints) -> Ints:
        """Where these records are in the columns of the log; NOBODY for those that do not."""
        at = np.searchsorted(self.place, wanted := place(partition, offset))
        if not len(self.place):
            return np.full(len(wanted), NOBODY)
        at = np.minimum(at, len(self.place) - 1)
        there = (self.place[at] == wanted) & (self.value[at] == value)
        return np.where(there, at, NOBODY)


class Did(NamedTuple):
    """Rows of `deliveries/` of one kind, in the order in which they were recorded. `who` numbers
    the lives of consumers, `row` the rows of all kinds."""

    row: Ints
    who: Ints
    partition: Ints
    offset: Ints
    value: Ints
    mark: Ints
    begun_ns: Ints
    time_ns: Ints
    generation: Ints

    def some(self, chosen: Bools | Ints) -> Did:
        return Did(*(column[chosen] for column in self))


class Stage(NamedTuple):
    """Statements about the complete group: whether it was so, or why not."""

    reached: bool
    error: str


@dataclass(frozen=True, kw_only=True)
class GroupRows:
    """All of it. `did` by kind; `lives`: the consumer of each number of `who`, and which of its
    lives that is; `errors`: by row, how gates, drains, commits and lives ended."""

    written: Written
    log: Log
    did: dict[str, Did]
    generations: int
    lives: list[tuple[str | None, int]]
    errors: dict[int, str]
    gate: Stage
    drain: Stage


def rows_of(run: Run) -> GroupRows:
    """The rows of a run. Raises HistoryError."""
    did, generations, lives, errors = _did(run.deliveries())
    return GroupRows(
        written=_written(run.writes(), acknowledges=run.facts.promises.acknowledges),
        log=_log(run.facts, run.reads()),
        did=did,
        generations=generations,
        lives=[*lives],
        errors=errors,
        gate=_stage(did[KINDS.gate], errors),
        drain=_stage(did[KINDS.drain], errors),
    )


def _written(parts: Iterable[Writes], *, acknowledges: bool) -> Written:
    began, kept = [], []
    for part in parts:
        begins = part.mark == INVOKED
        began.append([part.value[begins], part.time_ns[begins]])
        ok = (part.mark == OK) & acknowledges
        columns = (part.value, part.partition, part.offset, part.time_ns)
        kept.append([column[ok] for column in columns])
    value, partition, offset, time_ns = _joined(kept, 4)
    begun, begun_ns = (np.append(each, NULL) for each in _joined(began, 2))
    order = np.argsort(begun)
    at = order[np.minimum(np.searchsorted(begun[order], value), len(order) - 1)]
    begun_ns = np.where(begun[at] == value, begun_ns[at], NULL)
    return Written(len(order) - 1, value, partition, offset, time_ns, begun_ns)


def _log(facts: Facts, parts: Iterable[Reads]) -> Log:
    """The records of complete readers. Two that were complete and met different ones do not agree;
    then both count."""
    partitions = facts.promises.partitions
    start, end = np.zeros(partitions, np.int64), np.zeros(partitions, np.int64)
    whole, confirmed = np.zeros(partitions, np.bool_), np.zeros(partitions, np.bool_)
    believed: list[tuple[str, ...]] = [()] * partitions
    for each in facts.ends:
        if 0 <= each.partition < partitions:
            start[each.partition] = each.log_start or 0
            end[each.partition] = each.read_to or 0
            whole[each.partition] = each.whole
            confirmed[each.partition] = facts.one_reader or len(each.readers) > 1
            believed[each.partition] = each.readers
    kept, names = [], list[str]()
    for part in parts:
        names += [name for name in part.reader.names if name not in names]
        readers = part.reader.places(names)
        allowed = np.array([[name in each for name in names] for each in believed], np.bool_)
        chosen = allowed[part.partition, readers]
        where = place(part.partition, part.offset)
        kept.append([column[chosen] for column in (where, part.value, readers, part.partition)])
    where, value, _, partition = _joined(kept, 4)
    times = np.array([len(each) for each in believed], np.int64)[partition]
    records, first, inverse = np.unique(
        np.stack([where, value]), axis=1, return_index=True, return_inverse=True
    )
    met = np.bincount(inverse.ravel(), minlength=records.shape[1])
    one_value = len(np.unique(records[0])) == records.shape[1]
    return Log(
        *(records[0], records[1], start, end, whole, confirmed),
        complete=facts.read_whole,
        agreed=bool((met == times[first]).all()) and one_value,
    )


_ENDINGS: Final = (KINDS.gate, KINDS.drain, KINDS.commit, KINDS.stop)


def _did(
    parts: Iterable[Deliveries],
) -> tuple[dict[str, Did], int, dict[tuple[str | None, int], int], dict[int, str]]:
    """Rows by kind, the number of generations, the lives by their numbers, and the errors."""
    lives = dict[tuple[str | None, int], int]()
    kept: dict[str, list[list[Ints]]] = {kind: [] for kind in KINDS}
    generations, errors, first = set[int](), dict[int, str](), 0
    for part in parts:
        rows = np.arange(first, first + len(part.time_ns))
        first += len(rows)
        who = _numbered(lives, part.consumer, part.life)
        generations.update(np.unique(part.generation[part.generation != NULL]).tolist())
        for kind in KINDS:
            chosen = part.f.isin([kind])
            columns = (
                *(rows, who, part.partition, part.offset, part.value),
                *(part.mark.astype(np.int64), part.begun_ns, part.time_ns, part.generation),
            )
            kept[kind].append([column[chosen] for column in columns])
        ended = np.flatnonzero(part.f.isin(_ENDINGS))
        messages = part.error.objects()
        errors.update({int(rows[at]): str(messages[at] or "") for at in ended})
    did = {kind: Did(*_joined(columns, len(Did._fields))) for kind, columns in kept.items()}
    return did, len(generations), lives, errors


def _numbered(lives: dict[tuple[str | None, int], int], consumer: Texts, life: Ints) -> Ints:
    """A number for each life; NOBODY where a row is of none."""
    names, found = [*consumer.names, None], np.full(len(life), NOBODY)
    pairs, inverse = np.unique(np.stack([consumer.codes, life]), axis=1, return_inverse=True)
    numbers = [
        NOBODY if code < 0 else lives.setdefault((names[code], nth), len(lives))
        for code, nth in pairs.T.tolist()
    ]
    if numbers:
        found = np.array(numbers, np.int64)[inverse.ravel()]
    return found


def _stage(did: Did, errors: dict[int, str]) -> Stage:
    if not len(did.row):
        return Stage(False, "the run ended before")
    return Stage(bool(did.mark[-1] == OK), errors[int(did.row[-1])])


def _joined(parts: list[list[Ints]], columns: int) -> Iterator[Ints]:
    """Columns of all parts, one after the other."""
    nothing = np.zeros(0, np.int64)
    return (
        np.concatenate([nothing, *(part[at] for part in parts)]).astype(np.int64)
        for at in range(columns)
    )


_NEVER: Final = 2**62
_NEVER_BEFORE: Final = -_NEVER


class Commits(NamedTuple):
    """The commits of a group, one row each: those that were acknowledged (`ok`) and those with an
    unknown outcome; `ended_ns` of these is never. `refused` were not kept for sure; `outcomes` are
    all of them."""

    rows: Did
    ok: Bools
    ended_ns: Ints
    refused: int
    outcomes: Did

    @classmethod
    def of(cls, rows: GroupRows) -> Self:
        every = rows.did[KINDS.commit]
        begun = every.mark == INVOKED
        key = np.stack([every.who, every.partition, every.offset, every.begun_ns])
        _, inverse = np.unique(key, axis=1, return_inverse=True)
        answered = np.zeros(int(inverse.max(initial=-1)) + 1, np.bool_)
        answered[inverse.ravel()[~begun]] = True
        unanswered = begun & ~answered[inverse.ravel()]
        outcomes = every.some(np.flatnonzero(~begun | unanswered))
        kept = outcomes.some(outcomes.mark != FAIL)
        ok = kept.mark == OK
        return cls(
            rows=kept,
            ok=ok,
            ended_ns=np.where(ok, kept.time_ns, _NEVER),
            refused=int(np.count_nonzero(every.mark == FAIL)),
            outcomes=outcomes,
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


class Gone(NamedTuple):
    """Rows of the acknowledged writes: `purged` are below the start of the log (or it begins above
    0, and their offset is not known), `beyond` may be beyond what was read of a partition whose
    replicas were not in sync, all others are `lost`."""

    lost: Ints
    purged: Ints
    beyond: Ints


@dataclass(frozen=True, kw_only=True)
class Records:
    """What was found: rows of the log (`skipped`, `pending`) or of what consumers did.

    skipped_delivered  which of the skipped were handed to a consumer
    gone               the acknowledged writes whose records nobody processed, and the log lacks
    delivered          how many records were handed to a consumer
    processed          how many records were processed
    copies             how many of them have a value of which another record was processed, too
    again              rows of `process` that processed a record once more
    again_before       for each of them the row that had processed it before
    most               how often one record was processed, at most
    beyond             which of `again` stand below what had been committed when their reader began
    phantoms           rows of `deliver`, one for each phantom
    """

    skipped: Ints
    skipped_delivered: Bools
    pending: Ints
    gone: Gone
    delivered: int
    processed: int
    copies: int
    again: Did
    again_before: Did
    most: int
    beyond: Bools
    phantoms: Did
    phantoms_acknowledged: Bools
    phantoms_moved: Bools
    out_of_order: Did


def records_of(rows: GroupRows, commits: Commits) -> Records:
    log, written = rows.log, rows.written
    delivered, processed = rows.did[KINDS.deliver], rows.did[KINDS.process]
    at_processed, at_delivered = _at(rows, processed), _at(rows, delivered)
    done, handed = _marked(at_processed, len(log.place)), _marked(at_delivered, len(log.place))
    unprocessed = np.isin(log.value, written.value) & ~np.isin(log.value, processed.value)
    partition = log.place // WIDTH
    passed = log.place < place(partition, _bound(rows)[partition])
    skipped = np.flatnonzero(unprocessed & ~done & passed)
    again, before, most, beyond = _again(rows, commits, processed)
    phantoms = _phantoms(rows, delivered, at_delivered)
    return Records(
        skipped=skipped,
        skipped_delivered=handed[skipped],
        pending=np.flatnonzero(unprocessed & ~done & ~passed),
        gone=_gone(rows, processed),
        delivered=len(np.unique(_triples(delivered))),
        processed=(records := len(np.unique(_triples(processed)))),
        copies=records - len(np.unique(processed.value)),
        again=again,
        again_before=before,
        most=most,
        beyond=beyond,
        phantoms=phantoms,
        phantoms_acknowledged=np.isin(phantoms.value, written.value),
        phantoms_moved=np.isin(phantoms.value, log.value),
        out_of_order=_out_of_order(rows, delivered, at_delivered),
    )


def sessions(rows: GroupRows, did: Did) -> Ints:
    """For each row, the row of `assign` by which its consumer had the partition; NOBODY: none."""
    assign = rows.did[KINDS.assign]
    found = np.full(len(did.row), NOBODY)
    if not len(assign.row):
        return found
    pairs = place(
        np.concatenate([assign.who, did.who]), np.concatenate([assign.partition, did.partition])
    )
    row = np.concatenate([assign.row, did.row])
    is_assign = np.arange(len(row)) < len(assign.row)
    order = np.lexsort((row, pairs))
    last = np.where(is_assign[order], np.arange(len(order)), -1)
    last = np.maximum.accumulate(last)
    same = (last >= 0) & (pairs[order[np.maximum(last, 0)]] == pairs[order])
    session = np.where(same, order[np.maximum(last, 0)], NOBODY)
    by_row = np.empty(len(order), np.int64)
    by_row[order] = session
    return by_row[len(assign.row) :]


def _at(rows: GroupRows, did: Did) -> Ints:
    return rows.log.find(did.partition, did.offset, did.value)


def _marked(at: Ints, length: int) -> Bools:
    marked = np.zeros(length, np.bool_)
    marked[at[at != NOBODY]] = True
    return marked


def _bound(rows: GroupRows) -> Ints:
    """Of each partition the offset below which the group has passed for good: the greater of what
    is committed at the end and of where its last owner stood as it left."""
    bound = np.full(len(rows.log.start), -1)
    position, final = rows.did[KINDS.position], rows.did[KINDS.final]
    order = np.argsort(position.time_ns, kind="stable")
    bound[position.partition[order]] = position.offset[order]  # the last one stays
    known = final.offset != NULL
    np.maximum.at(bound, final.partition[known], final.offset[known])
    return bound


def _gone(rows: GroupRows, processed: Did) -> Gone:
    written, log = rows.written, rows.log
    here, unknown = written.partition, written.offset == NULL
    absent = ~np.isin(written.value, log.value) & ~np.isin(written.value, processed.value)
    purged = absent & (log.start[here] > 0) & (unknown | (written.offset < log.start[here]))
    after = unknown | (written.offset >= log.end[here])
    beyond = absent & ~purged & ~log.whole[here] & after
    lost = np.flatnonzero(absent & ~purged & ~beyond)
    return Gone(lost, np.flatnonzero(purged), np.flatnonzero(beyond))


def _triples(did: Did) -> Ints:
    """A number for each row, equal for rows of one record."""
    pair = np.stack([place(did.partition, did.offset), did.value])
    _, inverse = np.unique(pair, axis=1, return_inverse=True)
    return np.asarray(inverse.ravel(), np.int64)


def _again(rows: GroupRows, commits: Commits, processed: Did) -> tuple[Did, Did, int, Bools]:
    """Each processing of a record but the first, the one before it, and which of them are beyond
    their bound: the reader began after a commit above the record had been acknowledged."""
    if not len(processed.row):
        return processed, processed, 0, np.zeros(0, np.bool_)
    triples = _triples(processed)
    order = np.lexsort((processed.row, processed.time_ns, triples))
    first = np.ones(len(order), np.bool_)
    first[1:] = triples[order][1:] != triples[order][:-1]
    places = np.flatnonzero(~first)
    places = places[np.argsort(order[places])]
    repeated = order[places]
    again = processed.some(repeated)
    session = sessions(rows, again)
    assign = rows.did[KINDS.assign]
    floors = commits.floors(assign.partition, assign.begun_ns)
    known = session != NOBODY
    beyond = np.zeros(len(repeated), np.bool_)
    beyond[known] = again.offset[known] < floors[session[known]]
    before = processed.some(order[places - 1])
    return again, before, int(np.bincount(triples).max()), beyond


def _phantoms(rows: GroupRows, delivered: Did, at: Ints) -> Did:
    absent = (at == NOBODY) & (delivered.offset >= rows.log.start[delivered.partition])
    found = delivered.some(absent)
    _, first = np.unique(_triples(found), return_index=True) if len(found.row) else (None, [])
    return found.some(np.sort(np.asarray(first, np.int64)))


def _out_of_order(rows: GroupRows, delivered: Did, at: Ints) -> Did:
    """Records that were handed over after one of the same or a greater offset in one assignment,
    unless that one is gone from the log: then the log was truncated, and going back is right."""
    session = sessions(rows, delivered)
    order = np.lexsort((delivered.row, session))
    one, two = order[:-1], order[1:]
    back = delivered.offset[two] <= delivered.offset[one]
    gone = (at[one] == NOBODY) & (delivered.offset[one] >= rows.log.start[delivered.partition[one]])
    wrong = (session[one] == session[two]) & (session[two] != NOBODY) & back & ~gone
    return delivered.some(np.sort(two[wrong]))

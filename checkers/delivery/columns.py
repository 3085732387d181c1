"""A group's run in columns: what was written, what the log holds at the end, what consumers did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from harness.protocols import Deliveries, Facts, Reads, Run, Texts, Writes
from harness.protocols.groups import KINDS
from harness.protocols.runs import INVOKED, NULL, OK, Bools, Ints

WIDTH: Final = 2**40
"""More records than a partition has: a partition and an offset are one number, as `place`."""

NOBODY: Final = -1


def place(partition: Ints, offset: Ints) -> Ints:
    """A partition and an offset as one number."""
    return partition * WIDTH + offset


class Written(NamedTuple):
    """The writes: how many began, and of those that were acknowledged (none, if producers do not
    request it) the value, the partition, the offset (NULL: unknown) and the instant."""

    attempted: int
    value: Ints
    partition: Ints
    offset: Ints
    time_ns: Ints


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
        """Some of them."""
        return Did(*(column[chosen] for column in self))


class Stage(NamedTuple):
    """Statements about the complete group: whether it was so, or why not."""

    reached: bool
    error: str


@dataclass(frozen=True, kw_only=True)
class GroupRows:
    """All of it. `did` by kind."""

    written: Written
    log: Log
    did: dict[str, Did]
    generations: int
    gate: Stage
    drain: Stage


def rows_of(run: Run) -> GroupRows:
    """The rows of a run. Raises HistoryError."""
    did, generations, errors = _did(run.deliveries())
    return GroupRows(
        written=_written(run.writes(), acknowledges=run.facts.promises.acknowledges),
        log=_log(run.facts, run.reads()),
        did=did,
        generations=generations,
        gate=_stage(did[KINDS.gate], errors),
        drain=_stage(did[KINDS.drain], errors),
    )


def _written(parts: Iterable[Writes], *, acknowledges: bool) -> Written:
    attempted, kept = 0, []
    for part in parts:
        attempted += int(np.count_nonzero(part.mark == INVOKED))
        ok = (part.mark == OK) & acknowledges
        columns = (part.value, part.partition, part.offset, part.time_ns)
        kept.append([column[ok] for column in columns])
    return Written(attempted, *_joined(kept, 4))


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


def _did(parts: Iterable[Deliveries]) -> tuple[dict[str, Did], int, dict[int, str]]:
    """Rows by kind, the number of generations, and the errors of rows of the complete group."""
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
        of_group = np.flatnonzero(part.f.isin([KINDS.gate, KINDS.drain]))
        messages = part.error.objects()
        errors.update({int(rows[at]): str(messages[at] or "") for at in of_group})
    did = {kind: Did(*_joined(columns, len(Did._fields))) for kind, columns in kept.items()}
    return did, len(generations), errors


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

"""The outcome of records: skipped, pending, gone, processed twice, phantoms, out of order.

Everything is counted by partition, offset and value, never by value alone: a value may be stored
twice, by a retry, and then looks processed twice. The definitions are those of docs/consumers.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from checkers.delivery.columns import NOBODY, WIDTH, Did, GroupRows, place
from checkers.delivery.commits import Commits
from harness.protocols.groups import KINDS
from harness.protocols.runs import NULL, Bools, Ints


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
    processed          how many records were processed
    copies             how many of them have a value of which another record was processed, too
    again              rows of `process` that processed a record once more
    most               how often one record was processed, at most
    beyond             which of `again` stand below what had been committed when their reader began
    phantoms           rows of `deliver`, one for each phantom
    """

    skipped: Ints
    skipped_delivered: Bools
    pending: Ints
    gone: Gone
    processed: int
    copies: int
    again: Did
    most: int
    beyond: Bools
    phantoms: Did
    phantoms_acknowledged: Bools
    phantoms_moved: Bools
    out_of_order: Did


def records_of(rows: GroupRows, commits: Commits) -> Records:
    """Judge the records of a group."""
    log, written = rows.log, rows.written
    delivered, processed = rows.did[KINDS.deliver], rows.did[KINDS.process]
    at_processed, at_delivered = _at(rows, processed), _at(rows, delivered)
    done, handed = _marked(at_processed, len(log.place)), _marked(at_delivered, len(log.place))
    unprocessed = np.isin(log.value, written.value) & ~np.isin(log.value, processed.value)
    passed = log.place < place(_partition(log.place), _bound(rows)[_partition(log.place)])
    skipped = np.flatnonzero(unprocessed & ~done & passed)
    again, most, beyond = _again(rows, commits, processed)
    phantoms = _phantoms(rows, delivered, at_delivered)
    return Records(
        skipped=skipped,
        skipped_delivered=handed[skipped],
        pending=np.flatnonzero(unprocessed & ~done & ~passed),
        gone=_gone(rows, processed),
        processed=(records := _distinct(processed)),
        copies=records - len(np.unique(processed.value)),
        again=again,
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


def _partition(places: Ints) -> Ints:
    numbers: Ints = places // WIDTH
    return numbers


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


def _distinct(did: Did) -> int:
    return len(np.unique(_triples(did)))


def _again(rows: GroupRows, commits: Commits, processed: Did) -> tuple[Did, int, Bools]:
    """Each processing of a record but the first, and which of them are beyond their bound: the
    reader began after a commit above the record had been acknowledged."""
    if not len(processed.row):
        return processed, 0, np.zeros(0, np.bool_)
    triples = _triples(processed)
    order = np.lexsort((processed.row, processed.time_ns, triples))
    first = np.ones(len(order), np.bool_)
    first[1:] = triples[order][1:] != triples[order][:-1]
    repeated = np.sort(order[~first])
    again = processed.some(repeated)
    session = sessions(rows, again)
    assign = rows.did[KINDS.assign]
    floors = commits.floors(assign.partition, assign.begun_ns)
    known = session != NOBODY
    beyond = np.zeros(len(repeated), np.bool_)
    beyond[known] = again.offset[known] < floors[session[known]]
    return again, int(np.bincount(triples).max()), beyond


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

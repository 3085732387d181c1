"""The findings of the loss checker as a table.

What the loss checker counts, and the rates that the 2013 experiment printed.

The outcome of the values that need a closer look: a write can be of several kinds.

From when to when acknowledged writes were lost: of all, and of each client.

An isolated leader keeps acknowledging writes of the clients that still reach it: whether that ends
when another takes over or only when the network heals is decided by the client (which nodes it
queries for the leader), not by the cluster. So the spans of clients are kept separate: from the
first lost write to the last, once by when they were begun and once by when they were acknowledged.

A client is one of `workload.clients` real ones. Processes are distributed to them in turn (process
modulo clients); while one is dead after a `client` fault, others carry its processes, and a span
then stands at the place of the client that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.loss.readers import confirmed
from checkers.loss.tally import Odd
from harness.history import parquet_reader
from harness.history.documents import LOST_KINDS, LostSpan
from harness.history.parquet_writer import numbers, texts, values
from harness.history.rows import NEVER, bounds_ns
from harness.protocols import NULL, Bools, Facts, FaultWindow, Ints, Texts
from harness.protocols.runs import FAIL, INFO, OK


@dataclass(frozen=True)
class Judged:
    """Whether each odd value is of each kind; and, of the copies, whether each is where it should
    be. `owner`: the value of each copy; `extra`: the copies but each value's first."""

    by_name: Mapping[str, Bools]
    home: Bools
    owner: Ints
    extra: Bools

    def counts(self) -> dict[str, int]:
        """How many there are of each, in the words of result.json."""
        again = self.owner[self.extra]
        return {name: int(each.sum()) for name, each in self.by_name.items()} | {
            "duplicates": len(again),
            "duplicates_acknowledged": int(self.by_name["acknowledged"][again].sum()),
            "duplicates_unknown": int(self.by_name["unknown"][again].sum()),
        }


def judge(facts: Facts, odd: Odd) -> Judged:
    attempted = odd.marks != 0
    told_ok = odd.marks & OK != 0
    acknowledged = told_ok & (facts.promises.acknowledges)
    failed = ~told_ok & (odd.marks & INFO == 0) & (odd.marks & FAIL != 0)
    unknown = attempted & ~told_ok & ~failed

    owner = odd.copies[:, 0]
    home = _at_home(odd)
    survivors = any_of(owner[home], len(attempted))
    absent = acknowledged & ~survivors
    beyond, below = _beyond_and_below(facts, odd)
    return Judged(
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
            "unexpected": any_of(owner[~home], len(attempted)),
        },
        home=home,
        owner=owner,
        extra=~is_first(owner),
    )


def _at_home(odd: Odd) -> Bools:
    """Of each copy, whether its value was attempted on its partition; where it is not known where
    a write was sent to, any partition is the right one."""
    owner, where = odd.copies[:, 0], odd.copies[:, 1]
    sent, sent_to = odd.sent_to[:, 0], odd.sent_to[:, 1]
    partitions = 1 + max(where.max(initial=0), sent_to.max(initial=0))
    sent_there = np.isin(owner * partitions + where, sent * partitions + sent_to)
    known = any_of(sent, len(odd.marks))
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


def unconfirmed(facts: Facts, odd: Odd, judged: Judged, *, verified: bool) -> dict[str, int]:
    """How many of each kind rest on a partition that two libraries did not read to the end (nor one
    that did, if it is `verified`). Where it is not known which partition a lost write was sent to,
    it rests on all."""
    two = np.array(sorted(confirmed(facts, verified=verified)), np.int64)
    everywhere = set(range(facts.promises.partitions)) <= set(two.tolist())
    kinds, size, owner = judged.by_name, len(odd.marks), odd.copies[:, 0]
    lost = kinds["lost"] if facts.promises.deletes else kinds["lost"] & ~kinds["deleted"]
    unsure = ~np.isin(odd.copies[:, 1], two)
    nowhere = ~np.where(odd.partition == NULL, everywhere, np.isin(odd.partition, two))
    return {
        "lost": int((lost & nowhere).sum()),
        "failed_found": int((kinds["failed_found"] & any_of(owner[unsure], size)).sum()),
        "unexpected": int((kinds["unexpected"] & any_of(owner[unsure & ~judged.home], size)).sum()),
        "duplicates": int((judged.extra & unsure).sum()),
    }


def any_of(places: Ints, size: int) -> Bools:
    """Whether each of `size` is among these places."""
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


def is_first(owner: Ints) -> Bools:
    """Whether each is its owner's first, of sorted owners."""
    first: Bools = np.diff(owner, prepend=-1) != 0
    return first


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

_OF_THE_CLIENT: Final = (
    *("process", "partition", "offset"),
    *("intended_ns", "invoke_ns", "complete_ns"),
)

ORDER: Final = ("kind", "partition", "complete_ns", "value")


def findings_of(facts: Facts, odd: Odd, judged: Judged) -> pa.Table:
    """The rows of FINDINGS, in order."""
    kinds, home = judged.by_name, judged.home
    at_home, astray = odd.copies[home], odd.copies[~home]
    failed_found = kinds["failed_found"][at_home[:, 0]] & is_first(at_home[:, 0])
    found = {
        "lost": _nowhere(kinds["lost"] & ~kinds["deleted"]),
        "deleted": _nowhere(kinds["deleted"]),
        "not_yet_visible": _nowhere(kinds["not_yet_visible"]),
        "failed_found": at_home[failed_found],
        "unexpected": astray[is_first(astray[:, 0])],
        "duplicate": odd.copies[judged.extra],
    }
    places = np.concatenate(list(found.values()))
    at = places[:, 0]
    kind = np.repeat(np.arange(len(found), dtype=np.int32), list(map(len, found.values())))
    answered_ns = np.where(odd.complete_ns == NULL, odd.invoke_ns, odd.complete_ns)
    columns = {
        "run_id": texts(Texts(np.zeros(len(at), np.int32), [facts.run_id])),
        "kind": texts(Texts(kind, list(found))),
        "key": texts(_at(odd.keys, at)),
        "value": values(odd.values[at]),
        **{name: numbers(getattr(odd, name)[at]) for name in _OF_THE_CLIENT},
        "error": texts(_at(odd.error, at)),
        "fault": texts(_faults(facts.windows, answered_ns[at])),
        "found_partition": numbers(places[:, 1]),
        "found_offset": numbers(places[:, 2]),
    }
    typed = [columns[field.name].cast(field.type) for field in FINDINGS]
    return ordered(pa.Table.from_arrays(typed, schema=FINDINGS))


def _at(column: Texts, places: Ints) -> Texts:
    return Texts(column.codes[places], column.names)


def ordered(findings: pa.Table) -> pa.Table:
    """The same rows, in order."""
    keys = [(name, "ascending", "at_start") for name in ORDER]
    return findings.take(pc.sort_indices(findings, sort_keys=keys))


def _nowhere(chosen: Bools) -> Ints:
    """The chosen values as copies that were not read."""
    at = np.flatnonzero(chosen)
    return np.column_stack([at, np.full((len(at), 2), NULL)])


def _faults(windows: Sequence[FaultWindow], time_ns: Ints) -> Texts:
    """The fault windows that contain each instant; null if none does. Between two instants at which
    a window begins or has ended they are the same."""
    begins, ends = bounds_ns(windows)
    began = begins <= ends
    after = ends[began & (ends < NEVER)] + 1
    edges = np.unique(np.concatenate([begins[began], after]))
    held = ((begins <= edge) & (edge <= ends) for edge in edges)
    names = [
        "",
        *(",".join(windows[at].id for at in np.flatnonzero(each).tolist()) for each in held),
    ]
    codes = np.array([place if name else -1 for place, name in enumerate(names)], np.int32)
    return Texts(codes[np.searchsorted(edges, time_ns, side="right")], names)


def lost_spans(findings: pa.Table, *, clients: int) -> list[LostSpan]:
    """The span of all lost writes, then one of each client if there are several; empty when
    nothing was lost. Writes whose times are not known are left out."""
    process, *times = (np.concatenate(each) for each in zip(*_lost(findings), strict=True))
    if not len(process):
        return []
    spans = [_span(None, *times)]
    for client in range(clients if clients > 1 else 0):
        of = (process >= 0) & (process % clients == client)
        spans.append(_span(client + 1, *(each[of] for each in times)))
    return spans


def _lost(findings: pa.Table) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Process and times of the lost writes."""
    nothing = np.empty(0, np.int64)
    yield nothing, nothing, nothing
    for batch in findings.to_batches():
        begun, answered = (
            parquet_reader.integers(batch, "invoke_ns"),
            parquet_reader.integers(batch, "complete_ns"),
        )
        chosen: Bools = (
            parquet_reader.texts(batch, "kind").isin(LOST_KINDS)
            & (begun != NULL)
            & (answered != NULL)
        )
        yield parquet_reader.integers(batch, "process")[chosen], begun[chosen], answered[chosen]


def spans_together(parts: Iterable[Sequence[LostSpan]]) -> list[LostSpan]:
    """The spans of all parts of a run's findings."""
    together: dict[int | None, LostSpan] = {}
    for span in (span for spans in parts for span in spans):
        other = together.get(span.client, LostSpan(client=span.client, lost=0))
        together[span.client] = LostSpan(
            client=span.client,
            lost=span.lost + other.lost,
            begun_s=_both(span.begun_s, other.begun_s),
            acknowledged_s=_both(span.acknowledged_s, other.acknowledged_s),
        )
    return list(together.values())


def _both(
    one: tuple[float, float] | None, other: tuple[float, float] | None
) -> tuple[float, float] | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _span(client: int | None, begun_ns: Ints, answered_ns: Ints) -> LostSpan:
    if not len(begun_ns):
        return LostSpan(client=client, lost=0)
    return LostSpan(
        client=client,
        lost=len(begun_ns),
        begun_s=_ends_s(begun_ns),
        acknowledged_s=_ends_s(answered_ns),
    )


def _ends_s(times_ns: Ints) -> tuple[float, float]:
    return round(int(times_ns.min()) / 1e9, 3), round(int(times_ns.max()) / 1e9, 3)


MOST: Final = 2**20
"""Of each kind, so many findings are listed at most; all are counted."""


def capped(findings: Iterable[pa.Table]) -> pa.Table:
    """The rows of all of these, in order: of each kind the first MOST."""
    tables = [pa.Table.from_batches([], FINDINGS), *(table for table in findings if len(table))]
    joined = pa.concat_tables(tables)
    rows = ordered(joined) if len(tables) > 2 else joined
    if len(rows) <= MOST:
        return rows
    kinds, begin = [], 0
    for number in pc.value_counts(rows["kind"]).field("counts").to_pylist():
        kinds.append(rows.slice(begin, min(number, MOST)))
        begin += number
    return pa.concat_tables(kinds)

"""The outcome of each element that was added, by the definitions of Jepsen's set-full.

An element is *known* from the completion of its `ok` add, or of the first read that holds it,
whichever is earlier. Of all reads that completed after its add began, those with it and those
without it are compared by when they began. It is

    stable      where the last read to begin with it began after the last one without it
    lost        where the last one without it began after the last one with it, and after the
                element was known
    never_read  else: no read decides

and a stable one is *stale* where the last read without it began after it was known. Stable latency
is the time from when it was known to just after that read began, lost latency that to just after
the last read with it began; at least 0, and 0 if there is no such read.

What Jepsen's set-full does otherwise, and why this does not:

- Jepsen cuts latencies to whole milliseconds, and calls stale what took at least one. Here a read
  that began after an element was known, and misses it, is stale however short that was.
- Jepsen's filter of duplicates keeps none. Here an element that stands twice in one read counts.
- Elements that were read and never added are ignored there, and `unexpected` here.
- A failed add that is read is only one more element there, and an error here.
- A value that is added again starts afresh there, which forgets a loss; here it is bad input.
- A read that holds an element and completed before its add began is ignored there; here it is
  counted as `read_before_add`.

Which reads saw each element, and which did not: two passes over the reads, no sort of elements.

Jepsen's set-full updates every element at every read. Here the reads go by from the last that
began to the first, and an element leaves the list of those whose last absence is still to be found
as soon as a read without it goes by. Who is still on the list was in all later reads, or is not
added yet; so the work is that of reading what was read, and of no more.

A read counts for an element when it completed after the add had begun. One that completed before
and still contains the element saw what was not there yet.

What the last read alone says, in the words of the loss checker: Jepsen's plain `checker/set`.

The last read is the one that completed last; of those that began after every add had completed, if
there are any. Jepsen takes the one that completed last whatever it had begun before, and calls lost
what was acknowledged after it had begun. Here such an element is `not_yet_visible`, as in the loss
checker: the read may have come before it.

No verdict rests on this view: an element that is not in the last read may be in one that began
later and completed earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checkers.sets.columns import ABSENT, SetHistory, SetReads
from harness.protocols.checkers import rates
from harness.protocols.runs import FAIL, NULL, OK, Bools, Int32s, Ints

NEVER: Final = -1
"""The row of a read that never took place."""

_BLOCK: Final = 2**20
_TABLE_SPAN: Final = 2**24


@dataclass(frozen=True, kw_only=True, eq=False)
class Sightings:
    """Columns by element, with rows of reads; NEVER if there is no such read.

    The first `added` elements were added, in the order of `SetHistory.adds`; the others were only
    read. `last_present`, `last_absent`: of the reads with the element and of those without it, the
    one that began last. `first_seen`: the one with it that completed first. `too_early`: the first
    to complete with it before its add began. `copies`: how often it is in one read at most;
    `copied_in`: in which read, the first of several. `in_final`: whether the last read has it;
    `final_copies`: how many entries of that read repeat another.
    """

    values: Ints
    added: int
    last_present: Int32s
    last_absent: Int32s
    first_seen: Int32s
    too_early: Int32s
    copies: Ints
    copied_in: Int32s
    in_final: Bools
    final_copies: int

    @property
    def unexpected(self) -> Bools:
        """Whether each element was read and never added."""
        unexpected: Bools = self.first_seen != NEVER
        unexpected[: self.added] = False
        return unexpected


def sightings(history: SetHistory) -> Sightings:
    """What the reads of a history say of each of its elements."""
    reads, adds = history.reads, history.adds
    only_read, numbers = _numbered(adds.value, reads.elements)
    values = np.concatenate([adds.value, only_read])
    began = np.concatenate([adds.invoke_index, np.full(len(only_read), ABSENT)])
    present, absent = _last(reads, numbers, began)
    seen, early = _first(reads, numbers, began)
    copies, copied_in = _copies(reads, numbers, len(values))
    in_final, final_copies = _in_final(history, numbers, len(values))
    return Sightings(
        values=values,
        added=len(adds.value),
        last_present=present,
        last_absent=absent,
        first_seen=seen,
        too_early=early,
        copies=copies,
        copied_in=copied_in,
        in_final=in_final,
        final_copies=final_copies,
    )


def _numbered(added: Ints, elements: Ints) -> tuple[Ints, Int32s]:
    """The values that were only read, sorted; and the number of the value of each element: of added
    ones their row, the others follow."""
    numbers = np.empty(len(elements), np.int32)
    strange, find = [np.empty(0, np.int64)], _finder(added)
    for at in range(0, len(elements), _BLOCK):
        block = elements[at : at + _BLOCK]
        found = find(block)
        numbers[at : at + _BLOCK] = found
        strange.append(np.unique(block[found < 0]))
    only_read = np.unique(np.concatenate(strange))
    if len(only_read):
        unknown = np.flatnonzero(numbers < 0)
        numbers[unknown] = len(added) + np.searchsorted(only_read, elements[unknown])
    return only_read, numbers


def _finder(values: Ints) -> Callable[[Ints], Int32s]:
    """What finds the place of each value of a block in `values`, or -1: by a table where the values
    are dense, else by bisection."""
    if not len(values):
        return lambda block: np.full(len(block), -1, np.int32)
    low, high = int(values.min()), int(values.max())
    if high - low < _TABLE_SPAN:
        table = np.full(high - low + 1, -1, np.int32)
        table[values - low] = np.arange(len(values))
        return lambda block: np.where(
            (block >= low) & (block <= high), table[block.clip(low, high) - low], np.int32(-1)
        )
    order = np.argsort(values).astype(np.int32)
    ordered = values[order]

    def find(block: Ints) -> Int32s:
        at = np.searchsorted(ordered, block).clip(max=len(ordered) - 1)
        return np.where(ordered[at] == block, order[at], np.int32(-1))

    return find


def _elements(reads: SetReads, numbers: Int32s, row: int) -> Ints:
    """The numbers of the elements of one read; of the type that numpy indexes with."""
    return numbers[reads.start[row] : reads.stop[row]].astype(np.int64)


def _last(reads: SetReads, numbers: Int32s, began: Ints) -> tuple[Int32s, Int32s]:
    """The last read to begin with each element, and the last without it."""
    present, absent, stamp = (np.full(len(began), NEVER, np.int32) for _ in range(3))
    searched = np.arange(len(began))  # the elements whose last absence is still to be found
    latest = np.maximum.accumulate(reads.complete_index)  # to complete, of this and all before
    for row in reversed(range(len(reads.start))):
        ended, seen = reads.complete_index[row], _elements(reads, numbers, row)
        seen = seen[began[seen] < ended]
        stamp[seen] = row
        present[seen[present[seen] == NEVER]] = row
        begun = began[searched]
        missed = (stamp[searched] != row) & (begun < ended)
        absent[searched[missed]] = row
        searched = searched[~missed & (begun < latest[row - 1])]
    return present, absent


def _first(reads: SetReads, numbers: Int32s, began: Ints) -> tuple[Int32s, Int32s]:
    """The first read to complete with each element, of those that may have seen it and of those
    that completed before its add began."""
    seen, early = (np.full(len(began), NEVER, np.int32) for _ in range(2))
    for row in np.argsort(reads.complete_index)[::-1].tolist():
        elements = _elements(reads, numbers, row)
        on_time = began[elements] < reads.complete_index[row]
        seen[elements[on_time]] = row
        early[elements[~on_time]] = row
    return seen, early


def _copies(reads: SetReads, numbers: Int32s, size: int) -> tuple[Ints, Int32s]:
    """How often each element is in one read at most, and in which one first."""
    copies, copied_in = np.ones(size, np.int64), np.full(size, NEVER, np.int32)
    place = np.empty(size, np.int64)
    for row in range(len(reads.start)):
        elements = _elements(reads, numbers, row)
        places = np.arange(len(elements))
        place[elements] = places  # of an element that stands there twice, the last
        repeated, extra = np.unique(elements[place[elements] != places], return_counts=True)
        more = extra + 1 > copies[repeated]
        copies[repeated[more]] = extra[more] + 1
        copied_in[repeated[more]] = row
    return copies, copied_in


def _in_final(history: SetHistory, numbers: Int32s, size: int) -> tuple[Bools, int]:
    """Whether each element is in the last read, and how many of its entries repeat another."""
    inside = np.zeros(size, np.bool_)
    if history.final is None:
        return inside, 0
    elements = _elements(history.reads, numbers, history.final)
    inside[elements] = True
    return inside, len(elements) - int(inside.sum())


_NEVER_INDEX = 2**63 - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """Columns by added element, in the order of the adds. Latencies are NULL if there is none or
    times are not known."""

    acknowledged: Bools
    failed: Bools
    unknown: Bools
    found: Bools
    stable: Bools
    lost: Bools
    stale: Bools
    never_read: Bools
    stable_latency_ns: Ints
    lost_latency_ns: Ints


def outcomes(history: SetHistory, seen: Sightings) -> Outcomes:
    adds, reads = history.adds, history.reads
    present, absent, first = (
        column[: seen.added] for column in (seen.last_present, seen.last_absent, seen.first_seen)
    )
    acknowledged, failed = adds.mark == OK, adds.mark == FAIL
    index, index_ns = _known(history, seen)
    after = (absent != NEVER) & (_at(reads.invoke_index, absent) > index)
    stable, lost = present > absent, after & (absent > present)
    return Outcomes(
        acknowledged=acknowledged,
        failed=failed,
        unknown=~acknowledged & ~failed,
        found=first != NEVER,
        stable=stable,
        lost=lost,
        stale=stable & after,
        never_read=~stable & ~lost,
        stable_latency_ns=_latency_ns(stable, after, _at(reads.invoke_ns, absent), index_ns),
        lost_latency_ns=_latency_ns(
            lost, present != NEVER, _at(reads.invoke_ns, present), index_ns
        ),
    )


def counts(seen: Sightings, became: Outcomes) -> dict[str, int]:
    """How many elements of each kind; always attempted = acknowledged + failed + unknown
    = stable + lost + never_read.

    `stale` ones are stable too; `lost_unacknowledged` of the lost were never acknowledged, but
    read; `never_read_acknowledged` of the never read were acknowledged; `recovered` are unknown
    adds that were read, `failed_found` failed ones, `unacknowledged_found` both.
    """
    kinds = {
        "acknowledged": became.acknowledged,
        "failed": became.failed,
        "unknown": became.unknown,
        "stable": became.stable,
        "lost": became.lost,
        "lost_unacknowledged": became.lost & ~became.acknowledged,
        "stale": became.stale,
        "never_read": became.never_read,
        "never_read_acknowledged": became.never_read & became.acknowledged,
        "recovered": became.unknown & became.found,
        "failed_found": became.failed & became.found,
        "unacknowledged_found": ~became.acknowledged & became.found,
        "duplicated": seen.copies > 1,
        "unexpected": seen.unexpected,
        "read_before_add": seen.too_early != NEVER,
    }
    return {"attempted": seen.added, **_numbers(kinds)}


def rates_of(counts: Mapping[str, int]) -> dict[str, float | None]:
    """Those of the loss checker, of adds."""
    lost = counts["lost"] - counts["lost_unacknowledged"]
    found = counts["unacknowledged_found"]
    return rates(counts["attempted"], counts["acknowledged"], lost, found)


def _numbers(kinds: Mapping[str, Bools]) -> dict[str, int]:
    return {kind: int(np.count_nonzero(chosen)) for kind, chosen in kinds.items()}


def _known(history: SetHistory, seen: Sightings) -> tuple[Ints, Ints]:
    """When each added element was known: index and time."""
    adds, reads = history.adds, history.reads
    first = seen.first_seen[: seen.added]
    added = np.where(adds.mark == OK, adds.complete_index, _NEVER_INDEX)
    read = np.where(first != NEVER, _at(reads.complete_index, first), _NEVER_INDEX)
    index = np.minimum(added, read)
    time_ns = np.where(added <= read, adds.complete_ns, _at(reads.complete_ns, first))
    return index, np.where(index == _NEVER_INDEX, NULL, time_ns)


def _at(column: Ints, rows: Int32s) -> Ints:
    """The column at these rows; NULL where the row is NEVER."""
    return np.append(column, NULL)[rows]


def _latency_ns(of: Bools, later: Bools, began_ns: Ints, known_ns: Ints) -> Ints:
    """From when each element was known to just after a read began; 0 where no read was `later`."""
    timed = of & (known_ns != NULL) & (~later | (began_ns != NULL))
    after_ns = np.where(later & timed, began_ns + 1, known_ns)
    waited: Ints = np.where(timed, np.maximum(after_ns - known_ns, 0), NULL)
    return waited


def final_read(history: SetHistory, seen: Sightings, became: Outcomes) -> dict[str, Any] | None:
    """The last read, `None` if there is none. `is_final`: it began after every add had completed;
    `counts`: how many elements, by this read; always acknowledged + unacknowledged_found
    = survivors + lost + not_yet_visible; `duplicates`: entries that repeat another."""
    row, reads = history.final, history.reads
    if row is None:
        return None
    inside = seen.in_final[: seen.added]
    absent = became.acknowledged & ~inside
    before = history.adds.complete_index < reads.invoke_index[row]
    kinds = {
        "acknowledged": became.acknowledged,
        "survivors": inside,
        "lost": absent & before,
        "not_yet_visible": absent & ~before,
        "unacknowledged_found": inside & ~became.acknowledged,
        "failed_found": inside & became.failed,
        "unknown_found": inside & became.unknown,
        "unexpected": seen.in_final[seen.added :],
    }
    return {
        "index": int(reads.complete_index[row]),
        "process": int(reads.process[row]),
        "is_final": history.is_final,
        "counts": {
            "attempted": seen.added,
            **_numbers(kinds),
            "duplicates": seen.final_copies,
        },
    }

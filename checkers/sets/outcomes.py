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
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from checkers.sets.columns import SetHistory
from checkers.sets.sightings import NEVER, Sightings
from harness.protocols.runs import FAIL, NULL, OK, Bools, Int32s, Ints

_NEVER_INDEX = 2**63 - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """Columns by added element, in the order of the adds.

    `known_index` is the index at which it was known (the largest integer where it never was);
    latencies are NULL if there is none or times are not known.
    """

    acknowledged: Bools
    failed: Bools
    unknown: Bools
    found: Bools
    known_index: Ints
    known_ns: Ints
    stable: Bools
    lost: Bools
    stale: Bools
    never_read: Bools
    stable_latency_ns: Ints
    lost_latency_ns: Ints


@dataclass(frozen=True, kw_only=True)
class SetCounts:
    """How many elements of one history; always attempted = acknowledged + failed + unknown
    = stable + lost + never_read.

    `stale` ones are stable too; `lost_unacknowledged` of the lost were never acknowledged, but
    read; `never_read_acknowledged` of the never read were acknowledged; `recovered` are unknown
    adds that were read, `failed_found` failed ones, `unacknowledged_found` both.
    """

    attempted: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    stable: int = 0
    lost: int = 0
    lost_unacknowledged: int = 0
    stale: int = 0
    never_read: int = 0
    never_read_acknowledged: int = 0
    recovered: int = 0
    failed_found: int = 0
    unacknowledged_found: int = 0
    duplicated: int = 0
    unexpected: int = 0
    read_before_add: int = 0

    def rates(self) -> dict[str, float | None]:
        """The rates of the loss checker: acknowledged adds of all, the lost of the acknowledged,
        unacknowledged success; null where there is nothing to divide by."""
        lost = self.lost - self.lost_unacknowledged
        found, unacknowledged = self.unacknowledged_found, self.attempted - self.acknowledged
        return {
            "ack": _share(self.acknowledged, self.attempted),
            "loss": _share(lost, self.acknowledged),
            "unacknowledged_success": _share(found, self.acknowledged),
            "unacknowledged_success_of_unacknowledged": _share(found, unacknowledged),
        }

    def __add__(self, other: SetCounts) -> SetCounts:
        return SetCounts(**{name: n + getattr(other, name) for name, n in asdict(self).items()})


def outcomes(history: SetHistory, seen: Sightings) -> Outcomes:
    """The outcome of each element."""
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
        known_index=index,
        known_ns=index_ns,
        stable=stable,
        lost=lost,
        stale=stable & after,
        never_read=~stable & ~lost,
        stable_latency_ns=_latency_ns(stable, after, _at(reads.invoke_ns, absent), index_ns),
        lost_latency_ns=_latency_ns(
            lost, present != NEVER, _at(reads.invoke_ns, present), index_ns
        ),
    )


def counts(seen: Sightings, became: Outcomes) -> SetCounts:
    """How many elements of each kind."""
    return SetCounts(
        attempted=seen.added,
        acknowledged=_number(became.acknowledged),
        failed=_number(became.failed),
        unknown=_number(became.unknown),
        stable=_number(became.stable),
        lost=_number(became.lost),
        lost_unacknowledged=_number(became.lost & ~became.acknowledged),
        stale=_number(became.stale),
        never_read=_number(became.never_read),
        never_read_acknowledged=_number(became.never_read & became.acknowledged),
        recovered=_number(became.unknown & became.found),
        failed_found=_number(became.failed & became.found),
        unacknowledged_found=_number(~became.acknowledged & became.found),
        duplicated=_number(seen.copies > 1),
        unexpected=_number(seen.unexpected),
        read_before_add=_number(seen.too_early != NEVER),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _number(chosen: Bools) -> int:
    return int(np.count_nonzero(chosen))


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

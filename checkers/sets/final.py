"""What the last read alone says, in the words of the loss checker: Jepsen's plain `checker/set`.

The last read is the one that completed last; of those that began after every add had completed, if
there are any. Jepsen takes the one that completed last whatever it had begun before, and calls lost
what was acknowledged after it had begun. Here such an element is `not_yet_visible`, as in the loss
checker: the read may have come before it.

No verdict rests on this view: an element that is not in the last read may be in one that began
later and completed earlier.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from checkers.sets.columns import SetHistory
from checkers.sets.outcomes import Outcomes
from checkers.sets.sightings import Sightings
from harness.protocols.runs import Bools


@dataclass(frozen=True, kw_only=True)
class LastRead:
    """The last read; `is_final`: it began after every add had completed."""

    index: int
    process: int
    is_final: bool


@dataclass(frozen=True, kw_only=True)
class FinalCounts:
    """How many elements, by the last read; always acknowledged + unacknowledged_found
    = survivors + lost + not_yet_visible. `duplicates`: entries that repeat another."""

    attempted: int = 0
    acknowledged: int = 0
    survivors: int = 0
    lost: int = 0
    not_yet_visible: int = 0
    unacknowledged_found: int = 0
    failed_found: int = 0
    unknown_found: int = 0
    unexpected: int = 0
    duplicates: int = 0

    def __add__(self, other: FinalCounts) -> FinalCounts:
        return FinalCounts(**{name: n + getattr(other, name) for name, n in asdict(self).items()})


def last_read(history: SetHistory) -> LastRead | None:
    """The last read of a history, `None` if there is none."""
    row, reads = history.final, history.reads
    if row is None:
        return None
    return LastRead(
        index=int(reads.complete_index[row]),
        process=int(reads.process[row]),
        is_final=history.is_final,
    )


def final_counts(history: SetHistory, seen: Sightings, became: Outcomes) -> FinalCounts | None:
    """The counts of the last read, `None` if there is none."""
    if history.final is None:
        return None
    began = history.reads.invoke_index[history.final]
    inside = seen.in_final[: seen.added]
    absent = became.acknowledged & ~inside
    before = history.adds.complete_index < began
    return FinalCounts(
        attempted=seen.added,
        acknowledged=_number(became.acknowledged),
        survivors=_number(inside),
        lost=_number(absent & before),
        not_yet_visible=_number(absent & ~before),
        unacknowledged_found=_number(inside & ~became.acknowledged),
        failed_found=_number(inside & became.failed),
        unknown_found=_number(inside & became.unknown),
        unexpected=_number(seen.in_final[seen.added :]),
        duplicates=seen.final_copies,
    )


def _number(chosen: Bools) -> int:
    return int(np.count_nonzero(chosen))

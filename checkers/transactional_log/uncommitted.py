"""What readers of read_uncommitted polled: also values of transactions that are open or aborted.

Such a reader may get anything that was sent, but each value once, at the offset that it has for
everybody, in the order of the log, and nothing is to be skipped. So steps of these polls are judged
by the order of all that is known to have been in the log, in which aborted values have places too:
by what anybody polled, by the sends that committed, and by what the second reader found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from checkers.transactional_log import positions, values
from checkers.transactional_log.columns import History
from checkers.transactional_log.edges import Edges, polled
from checkers.transactional_log.found import Found
from checkers.transactional_log.grouping import codes_of
from checkers.transactional_log.versions import versions_of
from harness.models.micro_ops import DISCARDED, POLL, STORED, UNCOMMITTED
from harness.protocols import Bools

DIRTY_READ: Final = "dirty-read"

_POLLED: Final = (POLL, UNCOMMITTED)
_THERE: Final = (*_POLLED, STORED, DISCARDED)


def judged(history: History, committed: Bools, known: Iterable[Found]) -> tuple[list[Found], Edges]:
    """All anomalies of these polls, and the edges from who sent a value to who polled it so.
    `committed`: whether each operation has; `known`: the anomalies of the other polls by
    themselves."""
    polls = _as_polls(history, (UNCOMMITTED,))
    became = values.values_of(polls)
    found = list(_moved(history, committed, known))
    found += positions.of_polls(polls, versions_of(_as_polls(history, _THERE), committed))
    found.append(values.aborted_reads(polls, became)._replace(kind=DIRTY_READ))
    return found, polled(polls, became)


def _moved(history: History, committed: Bools, known: Iterable[Found]) -> Iterator[Found]:
    """What polls of both levels show together, and the others by themselves do not."""
    there = {each.kind: each for each in known}
    together = _as_polls(history, _POLLED)
    places = versions_of(together, committed)
    for found in values.misplaced(together, values.values_of(together), places):
        yield found.take(~_among(found, there[found.kind]))


def _as_polls(history: History, kinds: tuple[int, ...]) -> History:
    """The history with micro-operations of these kinds as its only polls."""
    micro = history.micro
    chosen = np.isin(micro.kind, kinds)
    micro = micro._replace(kind=np.where(chosen, POLL, micro.kind)).take(
        chosen | (micro.kind != POLL)
    )
    return history._replace(micro=micro)


def _among(found: Found, known: Found) -> Bools:
    """Which of them are known: the same offset of a key, or the same value."""
    which = "offset" if found.kind == "inconsistent-offsets" else "value"
    here, there = getattr(found, which), getattr(known, which)
    keys = codes_of(np.concatenate([found.key, known.key])).codes
    codes = codes_of(np.concatenate([here, there]), keys).codes
    among: Bools = np.isin(codes[: len(here)], codes[len(here) :])
    return among

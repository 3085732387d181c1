"""What readers of read_uncommitted polled: also values of transactions that are open or aborted.

Such a reader may get anything that was sent, but each value once, at one offset, in the order of
the log, and nothing is to be skipped. So its polls are judged by the order of all that such readers
polled, in which aborted values have their places, and not by the order of what has committed.
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
from harness.models.micro_ops import POLL, UNCOMMITTED
from harness.protocols import Bools
from harness.protocols.runs import OK

DIRTY_READ: Final = "dirty-read"


def as_polls(history: History) -> History:
    """The history with what these readers polled, and without other polls."""
    micro = history.micro.take(history.micro.kind != POLL)
    kind = np.where(micro.kind == UNCOMMITTED, POLL, micro.kind)
    return history._replace(micro=micro._replace(kind=kind))


def anomalies(history: History, known: Iterable[Found]) -> Iterator[Found]:
    """All anomalies of a history `as_polls`, but for `known` ones; and the values of failed
    operations that were polled, which are none."""
    versions = versions_of(history, history.ops.mark == OK)
    became = values.values_of(history)
    there = {each.kind: each for each in known}
    for found in values.misplaced(history, became, versions):
        yield found.take(~_among(found, there[found.kind]))
    yield from positions.of_polls(history, versions)
    yield values.aborted_reads(history, became)._replace(kind=DIRTY_READ)


def edges_of(history: History) -> Edges:
    """From who sent a value to who polled it."""
    return polled(history, values.values_of(history))


def _among(found: Found, known: Found) -> Bools:
    """Which of them are known: the same offset of a key, or the same value."""
    which = "offset" if found.kind == "inconsistent-offsets" else "value"
    here, there = getattr(found, which), getattr(known, which)
    keys = codes_of(np.concatenate([found.key, known.key])).codes
    codes = codes_of(np.concatenate([here, there]), keys).codes
    among: Bools = np.isin(codes[: len(here)], codes[len(here) :])
    return among

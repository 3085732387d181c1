"""From when to when acknowledged writes were lost: of all, and of each client.

An isolated leader keeps acknowledging writes of the clients that still reach it: whether that ends
when another takes over or only when the network heals is decided by the client (which nodes it
queries for the leader), not by the cluster. So the spans of clients are kept separate: from the
first lost write to the last, once by when they were begun and once by when they were acknowledged.

A client is one of `workload.clients` real ones. Processes are distributed to them in turn (process
modulo clients); while one is dead after a `client` fault, others carry its processes, and a span
then stands at the place of the client that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from harness.history.parquet_reader import integers, texts
from harness.protocols import NULL, Bools, Ints

KINDS: Final = ("lost", "deleted")
"""The kinds of findings that are counted as lost."""


@dataclass(frozen=True, kw_only=True)
class LostSpan:
    """The lost writes of one client, numbered from 1, or of all (null): how many, and the first
    and the last in seconds since the run's start, null where nothing was lost."""

    client: int | None
    lost: int
    begun_s: tuple[float, float] | None = None
    acknowledged_s: tuple[float, float] | None = None


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
        begun, answered = integers(batch, "invoke_ns"), integers(batch, "complete_ns")
        chosen: Bools = texts(batch, "kind").isin(KINDS) & (begun != NULL) & (answered != NULL)
        yield integers(batch, "process")[chosen], begun[chosen], answered[chosen]


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

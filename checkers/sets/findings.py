"""The anomalous elements of a history, one row each and kind, with the read that proves it.

Latencies as a histogram of nanoseconds: exact, and exact again when shards are merged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.sets.columns import ABSENT, NOBODY, Adds, SetHistory, SetReads
from checkers.sets.outcomes import NEVER, Outcomes, Sightings
from harness.protocols.runs import FAIL, INFO, NULL, OK, Bools, Int32s, Ints

FINDINGS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("value", pa.int64(), nullable=False),
        *(
            pa.field(name, pa.int64())
            for name in ("process", "invoke_index", "complete_index", "invoke_ns", "complete_ns")
        ),
        pa.field("type", pa.string()),
        *(
            pa.field(f"{read}_{name}", pa.int64())
            for read in ("read", "seen")
            for name in ("process", "invoke_index", "complete_index", "invoke_ns", "complete_ns")
        ),
        pa.field("copies", pa.int64()),
        pa.field("latency_ns", pa.int64()),
    ]
)
"""`process`, `type` and the columns beside them are of the add, null where the element was never
added; `read_*` is the read that proves it, by `kind`:

    lost             the last read without the element; `seen_*`: the last one with it, if any;
                     `latency_ns`: from when it was known to when it was lost
    stale            the last read without it; `seen_*`: the last one with it; `latency_ns`: from
                     when it was known to when it was stable
    never_read       no read decides about an acknowledged element: `read_*` is null
    failed_found, unexpected, read_before_add
                     the first read to complete with it
    duplicated       the read in which it stands most often; `copies`: how often
"""

_PLACES: Final = ("process", "invoke_index", "complete_index", "invoke_ns", "complete_ns")
_NULLS: Final = (NOBODY, ABSENT, ABSENT, NULL, NULL)
_TYPES: Final = ((OK, "ok"), (FAIL, "fail"), (INFO, "info"))
_ORDER: Final = [(name, "ascending") for name in ("kind", "value", "key")]


def findings(history: SetHistory, seen: Sightings, became: Outcomes) -> pa.Table:
    """The rows of FINDINGS, by kind and value."""
    rows = partial(_rows, history, seen)
    absent, first, early = seen.last_absent, seen.first_seen, seen.too_early
    lost_ns, stale_ns = became.lost_latency_ns, became.stable_latency_ns
    return ordered(
        [
            rows("lost", became.lost, absent, seen_in=seen.last_present, latency_ns=lost_ns),
            rows("stale", became.stale, absent, seen_in=seen.last_present, latency_ns=stale_ns),
            rows("never_read", became.never_read & became.acknowledged, None),
            rows("failed_found", became.failed & became.found, first),
            rows("unexpected", seen.unexpected, first),
            rows("read_before_add", early != NEVER, early),
            rows("duplicated", seen.copies > 1, seen.copied_in, copies=seen.copies),
        ]
    )


def ordered(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of all of these, by kind and value."""
    table = pa.concat_tables([FINDINGS.empty_table(), *tables])
    return table.take(pc.sort_indices(table, sort_keys=_ORDER)).combine_chunks()


def _rows(
    history: SetHistory,
    seen: Sightings,
    kind: str,
    chosen: Bools,
    proof: Int32s | None,
    *,
    seen_in: Int32s | None = None,
    copies: Ints | None = None,
    latency_ns: Ints | None = None,
) -> pa.Table:
    """The rows of one kind: of the chosen elements, each with the read that proves it."""
    elements = np.flatnonzero(chosen)
    columns = {
        "kind": pa.array(np.repeat([kind], len(elements)), pa.string()),
        "key": pa.array([history.key] * len(elements), pa.string()),
        "value": pa.array(seen.values[elements]),
        **_placed(history.adds, np.where(elements < seen.added, elements, -1), ""),
        "type": _types(history.adds, elements),
        **_placed(history.reads, _some(proof, elements, NEVER), "read_"),
        **_placed(history.reads, _some(seen_in, elements, NEVER), "seen_"),
        "copies": _known(_some(copies, elements, NULL), NULL),
        "latency_ns": _known(_some(latency_ns, elements, NULL), NULL),
    }
    return pa.table([columns[name] for name in FINDINGS.names], schema=FINDINGS)


def _some(column: Ints | Int32s | None, elements: Ints, nothing: int) -> Ints:
    """The column at these elements; nothing if there is no column."""
    if column is None:
        return np.full(len(elements), nothing, np.int64)
    return column[elements].astype(np.int64)


def _placed(of: Adds | SetReads, rows: Ints, prefix: str) -> dict[str, pa.Array]:
    """Process, indices and times at these rows; null where the row is -1."""
    return {
        prefix + name: _known(np.append(getattr(of, name), null)[rows], null)
        for name, null in zip(_PLACES, _NULLS, strict=True)
    }


def _types(adds: Adds, elements: Ints) -> pa.Array:
    """How the add of each element ended; null where there was none."""
    marks = np.append(adds.mark, 0)[np.where(elements < len(adds.mark), elements, -1)]
    names = pa.array([name for _, name in _TYPES])
    place = np.searchsorted([mark for mark, _ in _TYPES], marks)
    return names.take(pa.array(place, mask=marks == 0))


def _known(numbers: Ints, null: int) -> pa.Array:
    return pa.array(numbers, pa.int64(), mask=numbers == null)


POINTS: Final = ("0", "0.5", "0.95", "0.99", "1")
"""The quantiles that Jepsen's set-full gives, as it names them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Latencies:
    """How many elements (`number`) took how long (`ns`, ascending, no two equal)."""

    ns: Ints
    number: Ints

    @classmethod
    def of(cls, latencies_ns: Ints) -> Latencies:
        """The histogram of a column; NULL is left out."""
        ns, number = np.unique(latencies_ns[latencies_ns != NULL], return_counts=True)
        return cls(ns=ns, number=number)

    def quantiles_ns(self) -> dict[str, int]:
        """By quantile, the latency at place floor(quantile x number) of all in order, as Jepsen
        has it; empty if there are none."""
        total, places = int(self.number.sum()), np.cumsum(self.number)
        if not total:
            return {}
        chosen = [min(total - 1, math.floor(total * float(point))) for point in POINTS]
        at = np.searchsorted(places, chosen, side="right")
        return dict(zip(POINTS, self.ns[at].tolist(), strict=True))

    def quantiles_ms(self) -> dict[str, float]:
        """The same in milliseconds, to the microsecond."""
        return {point: round(ns / 1e6, 3) for point, ns in self.quantiles_ns().items()}


def merged(latencies: Iterable[Latencies]) -> Latencies:
    """The histogram of all of these elements."""
    parts = list(latencies)
    empty = np.empty(0, np.int64)
    ns, at = np.unique(np.concatenate([empty, *(part.ns for part in parts)]), return_inverse=True)
    number = np.zeros(len(ns), np.int64)
    np.add.at(number, at, np.concatenate([empty, *(part.number for part in parts)]))
    return Latencies(ns=ns, number=number)

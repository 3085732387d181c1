"""What the second library reads: the evidence of a counter-example, where it is.

For a value that failed, was never written or is there twice, the evidence is at its offsets. A lost
value is nowhere: the evidence of its loss is that every record of its partition is another one. For
most records there is already a witness other than the reader that is to be confirmed: the broker
acknowledged to the *writing* library that exactly this value is at exactly this offset. If two
independent libraries agree, one of which reported where the value was written while the other found
it there, they do not both mistake another value for it. So the second library reads

    every offset whose record no acknowledgement names,
    the first and the last records of each partition, and where it ends (two replicas' logs that
    agree in their last record agree in all before it, so it is the same log that was read),
    and what is now where the first and the last of the lost writes were acknowledged.

That is sound only where the first reader met every offset of the partition exactly once; where it
did not, where writes have keys, where acknowledgements name no offsets (or wrong ones, as Kafka's
do before 0.8.2), or where it would be most of the log anyway, the second library reads everything.
It also does so if what it read in parts differs from what the first one read, or could not be read.

`checkers.loss` comes to the same conclusion from the files of the run alone, or to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.history.lookup import among
from harness.plan import Plan
from harness.protocols import NULL, Cluster, End, Range, ReadsRanges, Target
from harness.run.answers import Ranges, ranges_by, read_by
from harness.run.recorder import Written

Ints = npt.NDArray[np.int64]

_EDGE: Final = 100
"""This many records are read at both ends of a partition, and around an offset."""
_APART: Final = 2_000
"""Ranges with fewer records between them are merged: a seek takes as long as reading this many
records."""
_MOST_SHARE: Final = 0.5


def read_again(
    target: Target[Any],
    cluster: Cluster,
    plan: Plan,
    reader: str,
    first: pa.Table,
    ends: Sequence[End],
    wanted: Ranges | None,
) -> tuple[pa.Table, list[End]]:
    """What the second library reads: these ranges, if the target can and the first reader is
    confirmed by them; else everything."""
    if wanted is not None and isinstance(target, ReadsRanges):
        table, of_second = ranges_by(target, cluster, plan, reader, wanted)
        if _confirms(table, of_second, first, ends, wanted):
            return table, of_second
    return read_by(target, cluster, plan, reader)


def ranges_of(table: pa.Table, ends: Sequence[End], written: Written) -> Ranges | None:
    """The ranges of each partition that are to be read again; null: everything."""
    if table["key"].null_count != len(table):
        return None
    columns = (table[name].to_numpy() for name in ("partition", "offset", "value"))
    partition, offset, value = columns
    lost = ~among(written.acknowledged, np.sort(value))
    ranges, rows = {}, 0
    for end in ends:
        here = partition == end.partition
        acknowledged = (written.partition == end.partition) & (written.offset != NULL)
        log = (end.log_start_offset or 0, end.position or 0)
        if not np.array_equal(offset[here], np.arange(*log)):
            return None
        places = np.concatenate(
            [
                _unnamed(
                    value[here],
                    log[0],
                    written.offset[acknowledged],
                    written.acknowledged[acknowledged],
                ),
                _ends_of(written.offset[acknowledged & lost]),
                np.array(log),
            ]
        )
        ranges[end.partition] = _around(places, *log)
        rows += sum(behind - first for first, behind in ranges[end.partition])
        rows += _APART * max(0, len(ranges[end.partition]) - 1)
    return ranges if rows <= _MOST_SHARE * len(table) else None


def _unnamed(value: Ints, start: int, offset: Ints, acknowledged: Ints) -> Ints:
    """The offsets whose value, of those from `start` on, no acknowledgement names. If several name
    one offset (those of a leader whose log was truncated, and of its successor), the first and the
    last count."""
    there = (offset >= start) & (offset < start + len(value))
    at, named = offset[there] - start, acknowledged[there]
    seen = np.zeros(len(value), np.bool_)
    for way in (1, -1):
        by_offset = np.full(len(value), NULL)
        by_offset[at[::way]] = named[::way]
        seen |= by_offset == value
    return start + np.flatnonzero(~seen)


def _ends_of(offset: Ints) -> Ints:
    return np.array([offset.min(), offset.max()]) if len(offset) else offset


def _around(places: Ints, start: int, end: int) -> list[Range]:
    """Ranges, within a log, that hold these places and their neighbours."""
    places = np.unique(places.clip(start, max(start, end - 1)))
    cut = np.flatnonzero(np.diff(places) > 2 * _EDGE + _APART)
    firsts, lasts = places[np.r_[0, cut + 1]], places[np.r_[cut, len(places) - 1]]
    pairs = zip((firsts - _EDGE).tolist(), (lasts + _EDGE + 1).tolist(), strict=True)
    return [Range(max(start, first), min(end, behind)) for first, behind in pairs if start < end]


def _confirms(
    table: pa.Table, of_second: Sequence[End], first: pa.Table, ends: Sequence[End], wanted: Ranges
) -> bool:
    """Whether the second library met the same records in the ranges, and the same ends."""
    met = {end.partition: end for end in of_second}
    if not all(
        (there := met.get(end.partition)) is not None
        and there.complete
        and there.position == end.position
        and list(there.ranges or ()) == list(wanted[end.partition])
        for end in ends
    ):
        return False
    return bool(_rows(table, wanted).equals(_rows(first, wanted)))


def _rows(table: pa.Table, ranges: Ranges) -> pa.Table:
    """The records in the ranges, in order."""
    partition, offset = (table[name].to_numpy() for name in ("partition", "offset"))
    chosen = np.zeros(len(table), np.bool_)
    for number, of_partition in ranges.items():
        here, borders = np.flatnonzero(partition == number), np.array(of_partition).ravel()
        chosen[here] = np.searchsorted(borders, offset[here], side="right") % 2 == 1
    kept = table.select(["partition", "offset", "key", "value"]).filter(pa.array(chosen))
    plain = pa.schema([field.with_type(_plain(field.type)) for field in kept.schema])
    return kept.cast(plain).sort_by([("partition", "ascending"), ("offset", "ascending")])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind

"""Double entry for what nodes' logs lost: each acknowledged write that a log no longer has is lost,
or stands elsewhere in the final log. What is neither is left over, and is reported: the checker,
the final read or the copies are wrong then. No verdict rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.documents import DoubleEntry
from harness.history.run_folder import RunDir
from harness.protocols import Removed

_LISTED_AT_MOST = 100


def double_entry(rundir: RunDir, removed: Removed, lost: Sequence[int]) -> DoubleEntry:
    """Of the records that were `removed` during a run, of whose writes these are `lost`."""
    records = {record[2:] for record in removed.records}
    written = {each[-1] for each in records if each[-1] >= 0}
    acknowledged = _having(rundir.parts(rundir.history), written, ("type", "ok"))
    found = _having(rundir.parts(rundir.reads), written)
    gone = written.intersection(lost)
    left = sorted(acknowledged - gone - found)
    return DoubleEntry(
        records=len(records),
        foreign=sum(each[-1] < 0 for each in records),
        writes=len(written),
        lost=len(gone),
        found=len(found - gone),
        unacknowledged=len(written - gone - found - acknowledged),
        left_over=len(left),
        left=tuple(left[:_LISTED_AT_MOST]),
        lost_unseen=len({*lost} - gone),
        not_copied=removed.why_not,
    )


def _having(parts: Sequence[Path], values: set[int], *which: tuple[str, str]) -> set[int]:
    """Those of these values that rows have, in which these columns have these texts."""
    import pyarrow.compute as pc  # which takes as long to import as a target does

    found, wanted = set[int](), pa.array(sorted(values), pa.int64())
    for part in parts if values else ():
        table = pq.ParquetFile(part).read(columns=["value", *(name for name, _ in which)])
        table = table.filter(pc.is_in(table["value"], wanted))
        for name, text in which:
            table = table.filter(pc.equal(table[name].cast(pa.string()), text))
        found.update(table["value"].to_pylist())
    return found

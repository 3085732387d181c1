"""What a check found, one by one: the first findings of each kind, as tables.

Each is a row of `findings/<check>.parquet`, with what its reader looks up: the key or the partition
and offset, the value, the process, the row of the history. Checks name their columns themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from harness.history.parquet_reader import UnusableRow, decoded
from harness.history.run_folder import RunDir
from reports import formatting

MOST: Final = 5
"""Findings of a kind that are shown."""

_KIND: Final = "kind"
_SAME: Final = frozenset({"run_id", _KIND})
"""Columns that are equal in all rows of a table."""


@dataclass(frozen=True)
class Examples:
    """The first `rows` of the `total` findings of a kind, in the order of the check."""

    kind: str
    total: int
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def examples(run: RunDir, check: str) -> list[Examples]:
    """Those of one check by kind, in the order in which the kinds come first; none where it found
    nothing. Raises HistoryError for a damaged file."""
    file = run.findings_of(check)
    totals: Counter[str] = Counter()
    first: dict[str, list[dict[str, Any]]] = {}
    for counted, rows in decoded([file] if file.exists() else [], None, _of_batch):
        totals.update(counted)
        for row in rows:
            kept = first.setdefault(str(row[_KIND]), [])
            if len(kept) < MOST:
                kept.append(row)
    return [_table(kind, totals[kind], rows) for kind, rows in first.items()]


def _of_batch(batch: pa.RecordBatch) -> tuple[Mapping[str, int], list[dict[str, Any]]]:
    """How many findings of each kind there are, and the first of them."""
    if _KIND not in batch.schema.names:
        raise UnusableRow("lacks a column", _KIND)
    table = pa.Table.from_batches([batch])
    counts = {each["values"]: each["counts"] for each in pc.value_counts(table[_KIND]).to_pylist()}
    return counts, [
        row
        for kind in counts
        for row in table.filter(pc.equal(table[_KIND], kind)).slice(0, MOST).to_pylist()
    ]


def _table(kind: str, total: int, rows: Sequence[Mapping[str, Any]]) -> Examples:
    known = [
        name for name in rows[0] if name not in _SAME and any(row[name] is not None for row in rows)
    ]
    return Examples(
        kind=kind,
        total=total,
        columns=[name.removesuffix("_ns").replace("_", " ") for name in known],
        rows=[[_text(name, row[name]) for name in known] for row in rows],
    )


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and name.endswith("_ns"):
        return formatting.seconds(value / 1e9)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return formatting.NOTHING if value is None else str(value)

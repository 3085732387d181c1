"""Anomalies of one kind as columns, and the table of findings that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.transactional_log.columns import ABSENT, Ops, named
from harness.models.micro_ops import TEXT
from harness.protocols import NULL, Bools, Ints

FINDINGS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("tolerated", pa.bool_(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
        pa.field("other_value", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("delta", pa.int64()),
        *(
            pa.field(f"{which}{name}", pa.int64())
            for which in ("", "other_")
            for name in ("index", "process", "time_ns")
        ),
    ]
)
"""One row an anomaly; `kind` has Jepsen's name. `index`, `process` and `time_ns` (of its end) are
of the operation that sent the value or did what is wrong, `other_*` of the one that shows it: that
polled the value, or that the process did before. `delta`: how many places of the log lie between
the two values (1: they follow each other). `tolerated`: reported, and no counter-example, as all of
its kind are, or since a second reader does not confirm it."""


class Found(NamedTuple):
    """Anomalies of one kind, one row each; what a kind has not is ABSENT or NULL. `key` is a place
    among the history's keys, `value` and `before` are values, `op` and `other` operations.
    `backed`: nothing contradicts it that it rests on; one that is not is reported, and no more."""

    kind: str
    key: Ints
    value: Ints
    before: Ints
    offset: Ints
    delta: Ints
    op: Ints
    other: Ints
    backed: Bools

    @classmethod
    def of(cls, kind: str, *, key: Ints, value: Ints, op: Ints, other: Ints | None = None) -> Found:
        """With nothing in the other columns."""
        nothing = np.full(len(key), NULL)
        absent = np.full(len(key), ABSENT) if other is None else other
        backed = np.ones(len(key), np.bool_)
        return cls(kind, key, value, nothing, nothing, nothing, op, absent, backed)

    def take(self, rows: Ints | Bools) -> Found:
        """Some of them."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Found._make([self.kind, *(column[rows] for column in self[1:])])

    @property
    def number(self) -> int:
        """How many."""
        return len(self.key)


def table(
    found: Iterable[Found],
    ops: Ops,
    keys: Ints,
    *,
    run_id: str,
    texts: Sequence[str],
    tolerated: Callable[[str], bool],
) -> pa.Table:
    """The rows of FINDINGS, by kind and in the order of the operations."""
    tables = [
        _rows(each, ops, keys, run_id, texts, tolerated(each.kind)) for each in found if each.number
    ]
    return pa.concat_tables(tables) if tables else FINDINGS.empty_table()


def _rows(
    found: Found, ops: Ops, keys: Ints, run_id: str, texts: Sequence[str], tolerated: bool
) -> pa.Table:
    found = found.take(np.lexsort((found.value, found.key, found.op)))
    size = found.number
    columns = {
        "run_id": pa.array([run_id] * size, pa.string()),
        "kind": pa.array([found.kind] * size, pa.string()),
        "tolerated": pa.array(~found.backed | tolerated),
        "key": _texts(np.where(found.key == ABSENT, NULL, keys[found.key]), texts),
        "value": _texts(found.value, texts),
        "other_value": _texts(found.before, texts),
        "offset": _numbers(found.offset),
        "delta": _numbers(found.delta),
    }
    for which, op in (("", found.op), ("other_", found.other)):
        there = op != ABSENT
        for name, column in (
            ("index", ops.place),
            ("process", ops.process),
            ("time_ns", ops.ended_ns),
        ):
            columns[which + name] = _numbers(np.where(there, column[op], NULL))
    return pa.table(columns, schema=FINDINGS)


def _numbers(column: Ints) -> pa.Array:
    return pa.array(column, mask=column == NULL)


def _texts(column: Ints, texts: Sequence[str]) -> pa.Array:
    if not (column >= TEXT).any():
        return _numbers(column).cast(pa.string())
    return pa.array([None if n == NULL else named(n, texts) for n in column.tolist()], pa.string())

"""What a run's Parquet files hold: one schema each, defined here and nowhere else.

Times are nanoseconds since the run's start on the monotonic clock. Values are int64 and unique
within a run. `type` uses Jepsen's words: invoke, then ok (certainly happened), fail (certainly did
not) or info (unknown).

Files of runs that ended before a column was added lack it: `ADDED`.

Rows of the nemesis are in the same history: process -1, `f` the nemesis' name, `key` the id of
the fault, `node` the nodes it met, joined by commas, type invoke when the fault is being applied
or undone and info when that is done, `error` one of `inject`, `heal` (which of the two it is).
Which of the others are writes depends on the model of the run (`harness.models`): of a log, those
with f = "append".
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 1

NEMESIS_PROCESS: Final = -1

_TEXT = pa.dictionary(pa.int32(), pa.string())


def _schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema(fields, metadata={"ackloss.schema": str(SCHEMA_VERSION)})


HISTORY: Final = _schema(
    pa.field("run_id", _TEXT, nullable=False),
    pa.field("index", pa.int64(), nullable=False),
    pa.field("process", pa.int32(), nullable=False),
    pa.field("type", _TEXT, nullable=False),
    pa.field("f", _TEXT, nullable=False),
    pa.field("key", _TEXT),
    pa.field("value", pa.int64()),
    pa.field("expected", pa.int64()),
    pa.field("result", pa.int64()),
    pa.field("elements", pa.list_(pa.field("element", pa.int64()))),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("node", _TEXT),
    pa.field("error", _TEXT),
    pa.field("intended_ns", pa.int64(), nullable=False),
    pa.field("time_ns", pa.int64(), nullable=False),
)

READS: Final = _schema(
    pa.field("run_id", _TEXT, nullable=False),
    pa.field("reader", _TEXT, nullable=False),
    pa.field("key", _TEXT),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("value", pa.int64(), nullable=False),
    pa.field("leader_epoch", pa.int32()),
    pa.field("time_ns", pa.int64(), nullable=False),
)

MEMBERS: Final = "isr"
"""The stored name of the column of in-sync members: Kafka's, since runs of Kafka came first and
their files are still read."""

RANGES: Final = pa.list_(pa.struct({"first": pa.int64(), "behind": pa.int64()}))
"""Ranges of offsets: the first one, and the one after the last."""

ENDS: Final = _schema(
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("reader", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("log_start_offset", pa.int64()),
    pa.field("end_offset", pa.int64()),
    pa.field("position", pa.int64()),
    pa.field("leader", pa.string()),
    pa.field("leader_epoch", pa.int32()),
    pa.field(MEMBERS, pa.list_(pa.string())),
    pa.field("complete", pa.bool_(), nullable=False),
    pa.field("error", pa.string()),  # why it is not complete
    pa.field("ranges", RANGES),  # what was read; null: all from the log's start to the position
)

OBSERVATIONS: Final = _schema(
    pa.field("run_id", _TEXT, nullable=False),
    pa.field("time_ns", pa.int64(), nullable=False),
    pa.field("answered_by", _TEXT, nullable=False),
    pa.field("partition", pa.int32()),
    pa.field("leader", _TEXT),
    pa.field("leader_epoch", pa.int32()),
    pa.field(MEMBERS, pa.list_(pa.string())),
    pa.field("controller", _TEXT),
    pa.field("controller_epoch", pa.int32()),
)

DELIVERIES: Final = _schema(
    pa.field("run_id", _TEXT, nullable=False),
    pa.field("f", _TEXT, nullable=False),
    pa.field("begun_ns", pa.int64(), nullable=False),
    pa.field("time_ns", pa.int64(), nullable=False),
    pa.field("type", _TEXT, nullable=False),
    pa.field("consumer", _TEXT),
    pa.field("life", pa.int32()),
    pa.field("member", _TEXT),
    pa.field("generation", pa.int64()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("value", pa.int64()),
    pa.field("node", _TEXT),
    pa.field("error", _TEXT),
)
"""What the consumers of a group did: `harness.protocols.groups.Delivery`, one row each. Times
before the load are negative."""

ADDED: Final = frozenset(
    {
        ("ends.parquet", "error"),
        ("ends.parquet", "ranges"),
        ("history", "expected"),
        ("history", "result"),
        ("history", "elements"),
    }
)
"""Columns that files of earlier versions may lack, by the file's or its folder's name: they are
read as null."""

"""The reader of a run's Parquet files: columns, missing values, and what it rejects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import HistoryError
from harness.history import HISTORY, READS, parquet_reader
from harness.history.parquet_reader import (
    decoded,
    integers,
    keys_and_values,
    reads,
    some,
    texts,
    writes,
)
from harness.models import LOG
from harness.protocols.runs import FAIL, INVOKED, NULL, OK, Texts


def op(kind: str | None, value: int | None, **more: Any) -> dict[str, Any]:
    return {
        "run_id": "run", "index": 0, "process": 1, "type": kind, "f": "append", "key": None,
        "value": value, "partition": None, "offset": None, "node": None, "error": None,
        "intended_ns": 10, "time_ns": 30, **more,
    }  # fmt: skip


def part(folder: Path, schema: pa.Schema, *rows: dict[str, Any]) -> Path:
    names = [name for name in schema.names if name in rows[0]]
    table = pa.Table.from_pylist(list(rows))
    columns = {name: table[name].cast(schema.field(name).type) for name in names}
    path = folder / "part-00000.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_writes_are_decoded_into_columns(tmp_path: Path) -> None:
    nemesis = op("info", 77, process=-1, f="partition")
    path = part(
        tmp_path, HISTORY, op("invoke", 1), nemesis,
        op("ok", 1, partition=2, offset=40, key="k"), op("fail", 2, error="E"),
    )  # fmt: skip
    (rows,) = writes([path], LOG.writes)
    assert rows.value.tolist() == [1, 1, 2]
    assert rows.mark.tolist() == [INVOKED, OK, FAIL]
    assert rows.partition.tolist() == [NULL, 2, NULL]
    assert rows.offset.tolist() == [NULL, 40, NULL]
    assert rows.delay_ns.tolist() == [20, 20, 20]
    assert rows.key.objects().tolist() == [None, "k", None]
    assert rows.error.objects().tolist() == [None, None, "E"]
    assert some(rows, rows.mark == OK).offset.tolist() == [40]
    (keys, values), = keys_and_values([path])  # fmt: skip
    assert (keys.names, values.tolist()) == (["k"], [1, 77, 1, 2])


def test_batches_are_as_small_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = part(tmp_path, HISTORY, *(op("invoke", value) for value in range(5)))
    monkeypatch.setattr(parquet_reader, "BATCH_ROWS", 2)
    assert [rows.value.tolist() for rows in writes([path], LOG.writes)] == [[0, 1], [2, 3], [4]]


def test_reads_are_decoded_into_columns(tmp_path: Path) -> None:
    row = {
        "run_id": "run", "reader": "a", "key": None, "partition": 0, "offset": 3, "value": 7,
        "leader_epoch": None, "time_ns": 5,
    }  # fmt: skip
    (rows,) = reads([part(tmp_path, READS, row)])
    assert (rows.reader.objects().tolist(), rows.offset.tolist()) == (["a"], [3])


@pytest.mark.parametrize(
    ("row", "column", "what"),
    [
        (op("invoke", None), "value", "a write has no value"),
        (op("OK", 1), "type", "neither begins nor ends as ok, fail or info"),
        (op(None, 1), "type", "null where something must stand"),
    ],
)
def test_an_unusable_row_is_named(
    tmp_path: Path, row: dict[str, Any], column: str, what: str
) -> None:
    path = part(tmp_path, HISTORY, op("invoke", 1), row)
    with pytest.raises(HistoryError, match=what) as raised:
        list(writes([path], LOG.writes))
    assert (raised.value.key, raised.value.file) == (column, str(path))


def test_a_missing_column_is_an_error_unless_it_is_optional(tmp_path: Path) -> None:
    path = tmp_path / "loss.parquet"
    pq.write_table(pa.table({"kind": ["lost"], "value": [1]}), path)

    def decode(batch: pa.RecordBatch) -> tuple[list[int], list[str | None]]:
        return integers(batch, "offset").tolist(), texts(batch, "error").objects().tolist()

    columns = ("kind", "offset", "error")
    with pytest.raises(HistoryError, match="lacks a column") as raised:
        list(decoded([path], columns, decode))
    assert raised.value.key == "offset"
    assert list(decoded([path], columns, decode, optional=("offset", "error"))) == [
        ([NULL], [None])
    ]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.parquet"
    path.write_bytes(b"PAR1 cut off")
    with pytest.raises(HistoryError, match="its Parquet is damaged") as raised:
        list(writes([path], LOG.writes))
    assert raised.value.file == str(path)


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.int32(), pa.int8(), pa.uint16(), pa.float64(), pa.bool_()], ids=str
)
@pytest.mark.parametrize("given", [[1, None, 0, 1], [None, 1], [0, 1], [None, None], [1] * 70])
def test_integers_of_any_kind_and_of_a_slice(kind: pa.DataType, given: list[int | None]) -> None:
    column = pa.array([None, *given, 1, None] * 3).cast(kind)
    batch = pa.record_batch({"n": column.slice(1, len(given))})
    found = integers(batch, "n")
    assert found.dtype == np.int64
    assert found.tolist() == [NULL if number is None else number for number in given]


def test_texts() -> None:
    column = Texts(np.array([1, -1, 0], np.int32), ["b", "c"])
    assert column.places(["a", "b", "c"]).tolist() == [2, -1, 1]
    assert column.isin(["c", "z"]).tolist() == [True, False, False]
    assert column.objects().tolist() == ["c", None, "b"]

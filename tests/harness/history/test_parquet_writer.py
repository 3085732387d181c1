"""Tables as parts: schemas, encodings, when parts are written, and what a bad disk does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import EnvironmentFailure
from harness.history import OBSERVATIONS, READS
from harness.history.parquet_writer import ParquetWriter, sieve

VIEW = (5, "b1", 0, "b2", 3, ["b1", "b2"], None, None)
CONTROLLER = (6, "c1", None, None, None, None, "c2", 9)


def reads(rows: int) -> pa.Table:
    return pa.table(
        {
            "reader": pa.array(["confluent-kafka"] * rows).cast(READS.field("reader").type),
            "key": pa.nulls(rows, READS.field("key").type),
            "partition": pa.array(np.arange(rows, dtype=np.int32) % 3),
            "offset": pa.array(np.arange(rows) // 3),
            "value": pa.array(np.arange(rows) + 1_000_000),
            "leader_epoch": pa.nulls(rows, pa.int32()),
            "time_ns": pa.array(np.arange(rows) * 2_000),
        }
    )


def test_rows_have_the_schema_and_the_runs_id(tmp_path: Path) -> None:
    with ParquetWriter(tmp_path, OBSERVATIONS, run_id="r-1") as observations:
        observations.append([VIEW])
        observations.append([])
        observations.append([CONTROLLER])
    (part,) = tmp_path.iterdir()
    table = pq.read_table(part)
    assert table.schema.metadata[b"ackloss.schema"] == b"1"
    assert table.schema.names == OBSERVATIONS.names
    assert [f.nullable for f in table.schema] == [f.nullable for f in OBSERVATIONS]
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("r-1", *VIEW),
        ("r-1", *CONTROLLER),
    ]


def test_parts_are_written_when_the_period_is_over(tmp_path: Path) -> None:
    with ParquetWriter(tmp_path, OBSERVATIONS, run_id="r", period_s=3600) as observations:
        observations.append([VIEW])
        assert list(tmp_path.iterdir()) == []
    with ParquetWriter(tmp_path / "..", OBSERVATIONS, run_id="r", period_s=0) as eager:
        eager.append([VIEW])
        eager.append([VIEW])
    assert sorted(path.name for path in (tmp_path / "..").glob("part-*")) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]


def test_nothing_is_written_for_nothing(tmp_path: Path) -> None:
    with ParquetWriter(tmp_path, READS, run_id="r"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_many_threads_append_and_no_row_is_lost(tmp_path: Path) -> None:
    with (
        ParquetWriter(tmp_path, OBSERVATIONS, run_id="r", period_s=0.001) as observations,
        ThreadPoolExecutor(max_workers=8) as pool,
    ):
        for n in range(200):
            pool.submit(observations.append, [(n, *VIEW[1:]), (n, *CONTROLLER[1:])])
    table = pq.read_table(tmp_path)
    assert sorted(table["time_ns"].to_pylist()) == sorted([*range(200), *range(200)])


def test_a_table_is_one_part_packed_by_differences(tmp_path: Path) -> None:
    with ParquetWriter(tmp_path, READS, run_id="r") as writer:
        writer.write(reads(30_000))
        writer.write(reads(3))
    first, second = sorted(tmp_path.iterdir())
    assert pq.read_table(second)["value"].to_pylist() == [1_000_000, 1_000_001, 1_000_002]
    assert first.stat().st_size < 1 * 30_000, "a byte a row where differences are regular"
    group = pq.ParquetFile(first).metadata.row_group(0)
    for place, name in enumerate(READS.names):
        column = group.column(place)
        packed = name in ("partition", "offset", "value", "leader_epoch", "time_ns")
        assert ("DELTA_BINARY_PACKED" in column.encodings) is packed, name
        assert column.compression == "SNAPPY"


def test_a_column_that_may_not_be_null_never_is(tmp_path: Path) -> None:
    writer = ParquetWriter(tmp_path, READS, run_id="r")
    broken = reads(3).set_column(4, "value", pa.nulls(3, pa.int64()))
    with pytest.raises(ValueError, match="'value' with null values to non-nullable"):
        writer.write(broken)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_reported_on_close(tmp_path: Path) -> None:
    writer = ParquetWriter(tmp_path / "gone", OBSERVATIONS, run_id="r", period_s=0)
    writer.append([VIEW])
    assert writer.failure is not None, "kept for whoever closes it, not thrown at the observer"
    with pytest.raises(EnvironmentFailure, match="No such file"):
        writer.close()
    (tmp_path / "gone").mkdir()
    writer.close()
    assert writer.failure is None
    assert len(pq.read_table(tmp_path / "gone")) == 1, "and what was not written still is"


def test_a_failing_body_is_not_hidden_by_a_bad_disk(tmp_path: Path) -> None:
    writer = ParquetWriter(tmp_path / "gone", OBSERVATIONS, run_id="r")

    def body() -> None:
        with writer:
            writer.append([VIEW])
            raise KeyError("the body's own")

    with pytest.raises(KeyError, match="the body's own"):
        body()
    assert writer.failure is not None


@pytest.mark.parametrize("step", [1, 1000, 2**32])
def test_a_sieve_finds_the_places_of_wanted_values_and_no_others(step: int) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(-(2**14), 2**14, 2**16) * step
    wanted = rng.permutation(values)[:500]
    for each in (wanted, wanted[:0], np.array([-(2**63), 2**63 - 1])):
        expected = np.flatnonzero(np.isin(values, each)).tolist()
        assert sieve(each)(values).tolist() == expected

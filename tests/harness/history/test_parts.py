"""Parquet parts: what their footers state, and that nobody asks for it twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.judging.one_run import judge_run
from harness.errors import HistoryError
from harness.history import parquet_reader
from harness.history.manifest import write_manifest
from harness.history.parquet_reader import Part, Parts
from harness.history.run_folder import RunDir
from tests.fixtures.hand_made import Made, R, W

MADE = Made(writes=[W(7, "o"), W(8, "o")], reads=[R(7, offset=3)], nemesis=True)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """Two parts of history, and one of reads and of observations."""
    rundir = MADE.build(tmp_path, "a")
    (first,) = rundir.parts(rundir.history)
    rows = pq.read_table(first)
    pq.write_table(rows.slice(0, 2), first)
    pq.write_table(rows.slice(2), first.with_name("part-00001.parquet"))
    rundir.observations.mkdir(exist_ok=True)
    (read,) = rundir.parts(rundir.reads)
    pq.write_table(pq.read_table(read), rundir.observations / "part-00000.parquet")
    write_manifest(rundir, "a")
    return rundir


@pytest.mark.parametrize("few", [0, 64])
def test_each_footer_is_read_once_for_a_judgement(
    few: int, run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    real = pq.ParquetFile

    def noting(source: object, **how: Any) -> pq.ParquetFile:
        asked.extend([source] if how.get("metadata") is None else [])
        return real(source, **how)

    monkeypatch.setattr(parquet_reader, "_FEW", few)
    monkeypatch.setattr(pq, "ParquetFile", noting)
    for other in ("read_metadata", "read_schema", "read_table"):
        monkeypatch.setattr(pq, other, None)
    document = judge_run(run)
    assert document["counts"]["lost"] == 1, document["reason"]
    written = [*run.findings.iterdir(), run.explanations]
    files = len(list(run.path.rglob("*.parquet"))) - len(written)
    assert files == 5
    assert (len(asked) == files) == bool(few), "of more parts than a few, footers are not kept"


def test_a_part_states_what_it_holds(run: RunDir) -> None:
    second = Part.opened(run.parts(run.history)[1])
    assert (second.name, second.rows) == ("history/part-00001.parquet", len(second.read("index")))
    assert second.span("index") == (2, 1 + second.rows)
    assert second.span("partition") == second.ends_of("partition") == (0, 0)
    pq.write_table(pq.read_table(second.path), second.path, write_statistics=False)
    without = Part.opened(second.path)
    assert without.span("partition") is None
    assert without.ends_of("partition") == (0, 0)


def test_observations_may_be_damaged_and_nothing_else(run: RunDir) -> None:
    (seen,) = run.parts(run.observations)
    seen.write_bytes(seen.read_bytes()[:-9])
    assert Parts.of(run).damaged == ("observations/part-00000.parquet",)
    (read,) = run.parts(run.reads)
    whole = read.read_bytes()
    for content, words in ((whole[:-9], "is cut off, or not Parquet"), (b"", "is empty")):
        read.write_bytes(content)
        with pytest.raises(HistoryError, match=words) as refused:
            Parts.of(run)
        assert refused.value.file == str(read)
    pq.write_table(pa.table({"value": [1]}), read)
    with pytest.raises(HistoryError, match="lacks a column"):
        Parts.of(run)
    read.unlink()
    read.symlink_to("nowhere.parquet")
    with pytest.raises(HistoryError, match="is cut off, or not Parquet"):
        Parts.of(run)

"""Rows as columns: what is null, what is a write, and windows with both their ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.judging.one_run import judge_run
from harness.errors import HistoryError
from harness.history import HISTORY, READS, parquet_reader
from harness.history import rows as reading
from harness.history.parquet_reader import some
from harness.history.rows import Rows, bounds_ns, facts_of, stated
from harness.history.run_folder import RunDir
from harness.protocols import NULL, FaultWindow, Texts
from harness.protocols.runs import FAIL, INFO, INVOKED, OK, Bounds
from tests.fixtures.hand_made import Made, R, W

S = 1_000_000_000
MADE = Made(
    writes=[
        W(7, "o", offset=3, key="x", at_ms=2, late_ms=1, after_ms=5),
        W(8, "f", partition=None),
        W(9, "i", key="y", partition=2),
        W(-4, "."),
    ],
    reads=[R(7, offset=3, key="x", reader="a"), R(9, 2, offset=5, key="y", reader="b")],
    nemesis=True,
    plan={"topic": {"partitions": 3}},
)

STORED = Path(__file__).parents[2] / "histories" / "runs"
INSIDE = pa.struct([("key", pa.string()), ("value", pa.int64())])


def window(from_s: float | None, to_s: float | None) -> FaultWindow:
    how: dict[str, Any] = {"nodes": [], "met": None, "proven": True, "evidence": [], "why": ""}
    return FaultWindow(id="cut", nemesis="partition", from_s=from_s, to_s=to_s, **how)


@pytest.mark.parametrize(
    ("from_s", "to_s", "inside"),
    [
        (4, 6, [False, True, True, True, False, False]),  # both ends belong to it
        (4, None, [False, True, True, True, True, False]),
        (None, None, [False] * 6),
        (None, 6, [False] * 6),
        (4.000000001, 5.999999999, [False, False, True, False, False, False]),
    ],
)
def test_what_stands_in_a_window(
    from_s: float | None, to_s: float | None, inside: list[bool]
) -> None:
    times = np.array([4 * S - 1, 4 * S, 5 * S, 6 * S, 6 * S + 1, NULL], np.int64)
    begins, ends = bounds_ns([window(from_s, to_s)])
    assert ((times >= begins) & (times <= ends)).tolist() == inside


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return MADE.build(tmp_path, "a")


def test_writes_are_rows_of_writes_alone(run: RunDir) -> None:
    (reported,) = Rows(facts_of(run)).writes()
    assert reported.value.tolist() == [7, 7, 8, 8, 9, 9, -4]  # not the nemesis' 77
    assert reported.mark.tolist() == [INVOKED, OK, INVOKED, FAIL, INVOKED, INFO, INVOKED]
    assert reported.process.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert reported.partition.tolist() == [0, 0, NULL, NULL, 2, 2, 0]
    assert reported.offset.tolist() == [NULL, 3, *[NULL] * 5]
    assert reported.intended_ns.tolist()[:2] == [2_000_000, 2_000_000]
    assert reported.time_ns.tolist()[:2] == [3_000_000, 8_000_000]
    assert texts(reported.key) == ["x", "x", None, None, "y", "y", None]
    error = "_MSG_TIMED_OUT"
    assert texts(reported.error) == [None, None, None, error, None, error, None]


def test_the_bounds_of_values_are_what_files_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(writes=[W(7, "o"), W(-4, "f")], reads=[R(7, offset=3), R(9, offset=4)])
    rows = Rows(facts_of(made.build(tmp_path, "a")))
    monkeypatch.setattr(parquet_reader, "decoded", None)  # nothing is read
    assert rows.bounds() == Bounds(4 + 4, False, -4, 9)


def test_the_bounds_of_values_are_read_where_no_file_states_them(run: RunDir) -> None:
    """A nemesis' rows have a key, which is no value's."""
    rows = Rows(facts_of(run))
    assert rows.bounds() == Bounds(7 + 2, True, -4, 9)
    (path,) = run.reads.glob("part-*.parquet")
    table = pq.read_table(path)
    pq.write_table(table, path, write_statistics=False)
    assert rows.bounds() == Bounds(7 + 2, True, -4, 9)
    pq.write_table(table.slice(0, 0), path)
    assert rows.bounds() == Bounds(7, True, -4, 9)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(HistoryError, match="its Parquet is damaged"):
        rows.bounds()


def test_the_key_of_a_nemesis_is_no_values() -> None:
    """A run in parts, some of which hold rows of its nemesis."""
    facts = facts_of(RunDir(STORED / "unclean-election-loses"))
    parts = [stated(path) for path in facts.history]
    assert None in parts
    assert any(parts)
    found = Rows(facts).bounds()
    assert not found.keyed
    values = [value for _, value in Rows(facts).things()]
    assert (found.least, found.most) == (min(map(np.min, values)), max(map(np.max, values)))


def test_the_statistics_of_a_column_inside_another_are_not_those_of_keys(tmp_path: Path) -> None:
    made = Made(writes=[W(7, "o", key="x")], reads=[R(7, offset=3, key="x")])
    run = made.build(tmp_path, "a")
    for path in (*run.history.glob("part-*"), *run.reads.glob("part-*")):
        table = pq.read_table(path)
        inside = pa.array([{"key": None, "value": -1}] * len(table), type=INSIDE)
        pq.write_table(table.append_column("more", inside), path)
    assert Rows(facts_of(run)).bounds() == (4, True, 7, 7)


def texts(column: Texts) -> list[str | None]:
    return [None if code < 0 else column.names[code] for code in column.codes.tolist()]


def test_records_have_their_reader(run: RunDir) -> None:
    (reported,) = Rows(facts_of(run)).reads()
    assert texts(reported.reader) == ["a", "b"]
    assert texts(reported.key) == ["x", "y"]
    assert reported.value.tolist() == [7, 9]
    assert reported.partition.tolist() == [0, 2]
    assert reported.offset.tolist() == [3, 5]
    assert some(reported, np.array([False, True])).value.tolist() == [9]


@pytest.mark.parametrize(
    ("at_most", "kept"),
    [
        ({"_KEPT_BYTES": 0}, False),
        ({"_KEPT_ROWS": 9}, False),
        ({"_KEPT_ROWS": 10}, True),
        ({"_ALONE_BYTES": 0}, True),
        ({}, True),
    ],
)
def test_a_run_that_is_too_large_to_be_kept_is_judged_the_same(
    at_most: dict[str, int], kept: bool, run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    decoded = parquet_reader.decoded

    def noting(paths: Any, columns: Any, decode: Any, **how: Any) -> Any:
        passes.append(columns[0])
        return decoded(paths, columns, decode, **how)

    for name, number in at_most.items():
        monkeypatch.setattr(reading, name, number)
    monkeypatch.setattr(parquet_reader, "BATCH_ROWS", 2)
    monkeypatch.setattr(parquet_reader, "decoded", noting)
    document = judge_run(run)
    counted = {name: n for name, n in document["counts"].items() if n}
    assert counted == {
        "attempted": 4, "acknowledged": 1, "failed": 1, "unknown": 2, "survivors": 2,
        "unacknowledged_found": 1, "unknown_found": 1,
    }  # fmt: skip
    assert len(passes) == (2 if kept else 6), "history and reads once, or three times each"


def test_a_part_that_is_damaged_inside_is_refused(run: RunDir) -> None:
    facts = facts_of(run)
    (part,) = run.parts(run.history)
    content = bytearray(part.read_bytes())
    content[4:400] = bytes(396)  # the footer, which was looked at before, is as it was
    part.write_bytes(content)
    with pytest.raises(HistoryError, match="its Parquet is damaged") as refused:
        list(Rows(facts).writes())
    assert refused.value.file == str(part)


@pytest.mark.parametrize(
    ("folder", "column", "odd", "words"),
    [
        ("history", "value", None, "a write has no value"),
        ("history", "type", "OK", "neither begins nor ends as ok, fail or info"),
        ("history", "type", None, "null where something must stand"),
        ("history", "time_ns", None, "null where something must stand"),
        ("reads", "value", None, "null where something must stand"),
    ],
)
def test_a_row_that_says_nothing_is_refused(
    folder: str, column: str, odd: str | None, words: str, run: RunDir
) -> None:
    """An acknowledged write that is left out is one that cannot be lost."""
    path = run.path / folder / "part-00000.parquet"
    schema = {"history": HISTORY, "reads": READS}[folder]
    rows = pq.read_table(path).to_pylist()
    rows[1] |= {column: odd}
    loose = pa.schema([field.with_nullable(True) for field in schema])
    pq.write_table(pa.Table.from_pylist(rows, schema=loose), path)
    with pytest.raises(HistoryError, match=words) as refused:
        judge_run(run)
    assert (refused.value.file, refused.value.key) == (str(path), column)

"""A second library that reads only what a counter-example rests on: what is confirmed by it is so.

From the final read to the checker: a log, acknowledgements of it, a first reader that may be wrong,
and a second one that is right about what it reads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.loss import Found, Loss, numbering
from checkers.loss.numbering import Slice
from harness.history import ENDS, READS
from harness.history.manifest import write_manifest
from harness.history.rows import Rows, facts_of
from harness.history.run_folder import RunDir
from harness.plan import parse_plan
from harness.protocols import NULL, CheckResult, Cluster, End, Range
from harness.protocols.clock import RunClock
from harness.run import final_read
from harness.run.final_read import read_everything
from harness.run.recorder import Recorder, Written
from tests.fixtures.bare_target import BareTarget
from tests.fixtures.budget import examples
from tests.fixtures.hand_made import Made, W

pytestmark = pytest.mark.slow

PLAN = parse_plan({"schema": 1, "name": "t", "topic": {"partitions": 1}})
STRANGE = 9_000
Log = Sequence[int]


def table(log: Mapping[int, int], reader: str) -> pa.Table:
    rows = len(log)
    columns: dict[str, Any] = {
        "reader": [reader] * rows,
        "key": [None] * rows,
        "partition": [0] * rows,
        "offset": list(log),
        "value": list(log.values()),
        "leader_epoch": [0] * rows,
        "time_ns": [0] * rows,
    }
    return pa.table({name: pa.array(of, READS.field(name).type) for name, of in columns.items()})


def end(position: int) -> End:
    return End(
        partition=0,
        log_start_offset=0,
        end_offset=position,
        position=position,
        leader="b1",
        leader_epoch=0,
        members=("b1", "b2", "b3"),
        complete=True,
    )


@dataclass
class Readers(BareTarget):
    """A target whose first reader reads `first`, but for one offset (or another one in its place),
    and the second one the `log`."""

    first: Log
    log: Log
    skipped: int | None = None
    in_its_place: int | None = None
    asked: list[tuple[str, tuple[Range, ...] | None]] = field(default_factory=list)

    def readers(self, _: object) -> tuple[str, str]:
        return "first", "second"

    def read_all(self, *_: object, reader: str, timeout_s: float) -> tuple[pa.Table, list[End]]:
        self.asked.append((reader, None))
        log = self.first if reader == "first" else self.log
        read = table(dict(enumerate(log)), reader)
        if reader == "first" and (at := self.skipped) is not None:
            other = [] if self.in_its_place is None else [read.slice(self.in_its_place, 1)]
            read = pa.concat_tables([read.slice(0, at), *other, read.slice(at + 1)])
        return read, [end(len(log))]

    def read_ranges(
        self, *_: object, reader: str, ranges: Mapping[int, Sequence[Range]], timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        (of_partition,) = ranges.values()
        self.asked.append((reader, tuple(of_partition)))
        there = {at: self.log[at] for each in of_partition for at in range(*each)}
        return table(there, reader), [replace(end(len(self.log)), ranges=tuple(of_partition))]


@dataclass
class Wrote:
    """What the recorder knows of the writes."""

    writes: Sequence[W]

    def written(self) -> Written:
        ok = [write for write in self.writes if write.end == "o"]
        offsets = [NULL if write.offset is None else write.offset for write in ok]
        columns = (
            [write.value for write in self.writes],
            [write.value for write in ok],
            [write.value for write in self.writes if write.end == "f"],
            [0] * len(ok),
            offsets,
        )
        return Written(*(np.array(column, np.int64) for column in columns))


@dataclass(frozen=True)
class Outcome:
    result: CheckResult
    target: Readers
    ends: list[dict[str, Any]]

    @property
    def names(self) -> set[str]:
        return {each.name for each in self.result.counter_examples}

    @property
    def lost(self) -> set[int]:
        findings = self.result.findings
        return set(findings.filter(pa.compute.equal(findings["kind"], "lost"))["value"].to_pylist())


def outcome(folder: Path, writes: Sequence[W], target: Readers, of: int = 1) -> Outcome:
    """The final read, and what the checker says, in `of` shards."""
    plan = {"topic": {"partitions": 1}}
    rundir: RunDir = Made(writes=writes, ends=(), plan=plan).build(folder, "r")
    read_everything(
        target,
        cast(Cluster, None),
        PLAN,
        RunClock(zero_ns=0),
        cast(Recorder, Wrote(writes)),
        rundir,
        threading.Event(),
    )
    write_manifest(rundir, "r")
    rows, loss = Rows(facts_of(rundir)), Loss()
    parts: list[Found] = [loss.check(rows, Slice(number, of)) for number in range(of)]
    return Outcome(loss.merge(rows, parts), target, pq.read_table(rundir.ends).to_pylist())


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of a few records, in logs of a few dozen."""
    monkeypatch.setattr(final_read, "_EDGE", 1)
    monkeypatch.setattr(numbering, "BLOCK_BITS", 0)
    monkeypatch.setattr(final_read, "_APART", 0)
    monkeypatch.setattr(final_read, "_MOST_SHARE", 0.9)


def named(log: Log, *more: W) -> list[W]:
    """Writes that are acknowledged where they stand."""
    return [*(W(value, offset=at) for at, value in enumerate(log)), *more]


LOG = tuple(range(100, 160))


@pytest.mark.parametrize("shards", [1, 3])
def test_a_lost_write_is_confirmed_by_a_part_of_the_log(tmp_path: Path, shards: int) -> None:
    """One was acknowledged where another one stands, one beyond the end."""
    writes = named(LOG, W(7, offset=20), W(8, offset=70))
    reported = outcome(tmp_path, writes, Readers(LOG, LOG), shards)
    assert reported.names == {"lost"}
    assert (reported.lost, reported.result.doubts) == ({7, 8}, ())
    (_, of_first), (reader, ranges) = reported.target.asked
    assert (of_first, reader) == (None, "second")
    assert ranges == ((0, 2), (19, 22), (58, 60))
    first, second = reported.ends
    assert (first["reader"], first["ranges"]) == ("first", None)
    assert second["ranges"] == [{"first": a, "behind": b} for a, b in ranges]


@pytest.mark.parametrize("shards", [1, 3])
def test_what_no_acknowledgement_names_is_read_again(tmp_path: Path, shards: int) -> None:
    """A failed write that is there, one that nobody wrote, one twice."""
    log = list(LOG)
    log[10], log[30], log[50] = 7, STRANGE, LOG[40]
    writes = [
        *(W(v, offset=at) for at, v in enumerate(LOG) if at not in (10, 30, 50)),
        W(7, "f"),
    ]
    run = {"settings": {"effective": {"producer": {"enable.idempotence": "true"}}}}
    reported = outcome(tmp_path, writes, Readers(log, log), shards)
    assert {"failed_found", "unexpected"} <= reported.names, run
    _, (_, ranges) = reported.target.asked
    assert ranges == ((0, 2), (9, 12), (29, 32), (49, 52), (58, 60))
    assert reported.result.counts["duplicates"] == 1


def test_all_is_well_without_a_second_reader(tmp_path: Path) -> None:
    reported = outcome(tmp_path, named(LOG), Readers(LOG, LOG))
    assert [reader for reader, _ in reported.target.asked] == ["first"]
    assert reported.names == set()


def test_a_log_of_another_leader_shows_in_its_last_records(tmp_path: Path) -> None:
    """The first reader read what a leader holds whose writes since offset 20 are gone: each is
    where it was acknowledged, and all that is really there looks lost."""
    old = [*LOG[:20], *range(300, 340)]
    writes = named(LOG, *(W(value, offset=at) for at, value in enumerate(old) if at >= 20))
    reported = outcome(tmp_path, writes, Readers(old, LOG))
    assert reported.target.asked[-1] == ("second", None), "everything"
    assert reported.names == set()
    assert "readers" in {doubt.name for doubt in reported.result.doubts}


@pytest.mark.parametrize(
    "writes",
    [
        [*(W(value) for value in LOG), W(7)],  # offsets are not known
        [*(W(value, offset=at + 1) for at, value in enumerate(LOG)), W(7)],  # or wrong
        named(LOG, W(7, offset=3), W(8, offset=4, key="k")),  # not unique without its key
    ],
)
def test_where_little_is_named_everything_is_read(tmp_path: Path, writes: list[W]) -> None:
    reported = outcome(tmp_path, writes, Readers(LOG, LOG))
    assert {reader for reader, _ in reported.target.asked} == {"first", "second"}
    if reported.target.asked[-1][1] is None:
        assert reported.names == {"lost"}


@pytest.mark.parametrize("offset", [25, 0, 59])
def test_a_reader_that_mistakes_a_value_confirms_nothing(tmp_path: Path, offset: int) -> None:
    """It reads another value where one stands, which then looks lost."""
    for number, wrong in enumerate((STRANGE, LOG[5], 7)):
        first = [*LOG[:offset], wrong, *LOG[offset + 1 :]]
        folder = tmp_path / str(number)
        folder.mkdir()
        reported = outcome(folder, named(LOG, W(7, "i")), Readers(first, LOG))
        assert reported.names == set()
        assert "readers" in {doubt.name for doubt in reported.result.doubts}


def test_ranges_without_their_records_confirm_nothing(tmp_path: Path) -> None:
    """What the second library read is in the files, or it counts for nothing."""
    reported = outcome(tmp_path, named(LOG, W(7, offset=20)), Readers(LOG, LOG))
    assert reported.names == {"lost"}
    rundir = RunDir(tmp_path / "r")
    for part in rundir.parts(rundir.reads):
        kept = pq.read_table(part)
        if kept["reader"][0].as_py() == "second":
            pq.write_table(kept.slice(1), part)
    write_manifest(rundir, "r")
    rows, loss = Rows(facts_of(rundir)), Loss()
    again = loss.merge(rows, [loss.check(rows, Slice(0, 1))])
    assert not again.counter_examples
    assert again.doubts


@pytest.mark.parametrize("column", ["position", "end_offset"])
def test_a_second_reader_that_met_another_end_confirms_nothing(tmp_path: Path, column: str) -> None:
    assert outcome(tmp_path, named(LOG, W(7, offset=20)), Readers(LOG, LOG)).names == {"lost"}
    rundir = RunDir(tmp_path / "r")
    rows = pq.read_table(rundir.ends).to_pylist()
    rows[1][column] += 1
    pq.write_table(pa.Table.from_pylist(rows, schema=ENDS), rundir.ends)
    write_manifest(rundir, "r")
    read, loss = Rows(facts_of(rundir)), Loss()
    assert not loss.merge(read, [loss.check(read, Slice(0, 1))]).counter_examples


def test_ranges_that_leave_something_out_confirm_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the harness thought of them: at offset 30 stands a value that no acknowledgement
    names, and nobody else has looked."""
    log = [*LOG[:30], STRANGE, *LOG[31:]]
    writes = named(LOG, W(7, offset=20))
    for number, (ranges, lost) in enumerate(
        [([(0, 2), (58, 60)], False), ([(0, 30), (31, 60)], False), ([(30, 31)], True)]
    ):
        given = {0: [Range(*each) for each in ranges]}
        monkeypatch.setattr(final_read, "ranges_of", lambda *_, given=given: given)
        folder = tmp_path / str(number)
        folder.mkdir()
        reported = outcome(folder, writes, Readers(log, log))
        assert reported.target.asked[-1][1] == tuple(given[0])
        assert ("lost" in reported.names) is lost
        assert ("unexpected" in reported.names) is lost
        assert bool(reported.result.doubts) is not lost


@pytest.mark.parametrize(("skipped", "other"), [(30, None), (30, 29), (59, None), (0, None)])
@pytest.mark.parametrize("harness_knows", [True, False])
def test_an_offset_that_the_first_reader_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harness_knows: bool,
    skipped: int,
    other: int | None,
) -> None:
    """It says that it read everything, and what stands there looks lost."""
    if not harness_knows:
        monkeypatch.setattr(final_read, "ranges_of", lambda *_: {0: [Range(5, 7)]})
    target = Readers(LOG, LOG, skipped=skipped, in_its_place=other)
    reported = outcome(tmp_path, named(LOG), target)
    assert reported.target.asked[-1][1] == (None if harness_knows else ((5, 7),))
    assert reported.lost == {LOG[skipped]}
    assert reported.names == set()
    assert "readers" in {doubt.name for doubt in reported.result.doubts}


# --- any log, any mistake ---------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A log, what the clients were answered, and what the first reader makes of it."""

    log: list[int]
    first: list[int]
    writes: list[W]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(1, 40))
    log: list[int] = draw(st.lists(st.integers(0, 60), min_size=size, max_size=size))
    ends = {value: draw(st.sampled_from("ooooooofi")) for value in range(45)}
    first_at = {value: at for at, value in reversed(list(enumerate(log)))}
    wrong = draw(st.sampled_from([0, 0, 0, 0.2]))
    writes = []
    for value, how in ends.items():
        at = first_at.get(value, draw(st.integers(0, 45)))
        unsure = wrong and draw(st.floats(0, 1)) < wrong
        known = draw(st.none() | st.integers(0, 45)) if unsure else at
        writes.append(W(value, how, offset=known if how == "o" else None))
    first = list(log)
    named_at = {(write.offset, write.value) for write in writes}
    for _ in range(draw(st.integers(0, 2))):
        at, value = draw(st.integers(0, size - 1)), draw(st.integers(0, 65))
        if (at, value) not in named_at:  # it would be acknowledged and read there by chance
            first[at] = value
    return World(log, first[: draw(st.sampled_from([size, size, size, size - 1]))], writes)


@settings(deadline=None, max_examples=examples(30))
@given(worlds(), st.sampled_from([1, 2]), st.none() | st.integers(0, 40))
def test_what_is_confirmed_is_true(world: World, shards: int, at: int | None) -> None:
    """Also where only some range or other was read again."""
    with (
        TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(final_read, "_EDGE", 1)
        patch.setattr(final_read, "_APART", 0)
        patch.setattr(final_read, "_MOST_SHARE", 0.9)
        if at is not None and at < len(world.first):
            some = {0: [Range(at, len(world.first))]}
            patch.setattr(final_read, "ranges_of", lambda *_: some)
        target = Readers(world.first, world.log)
        reported = outcome(Path(folder), world.writes, target, shards)
    truly = {write.value for write in world.writes if write.end == "o"} - {*world.log}
    if "lost" in reported.names:
        assert reported.lost == truly
    if world.first == world.log and at is None:
        assert ("lost" in reported.names) == bool(truly)
        assert not reported.result.doubts or "lost" in reported.names or not truly

"""The end of a run: how long is waited for the replicas, and when a second library is asked: for
whatever the first did not find as it was promised."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.history import READS
from harness.history.run_folder import RunDir
from harness.plan import parse_plan
from harness.protocols import Cluster, End, NodeView, PartitionView, Situation, Target
from harness.protocols.clock import RunClock
from harness.protocols.nodes import ProcessState
from harness.run.final_read import (
    as_promised,
    in_sync,
    read_everything,
    wait_until_replicated,
)
from harness.run.observer import Observer, Watched
from harness.run.recorder import Recorder, Written
from tests.fixtures.bare_target import BareTarget
from tests.fixtures.virtual_time import S, VirtualTime

PLAN = parse_plan({"schema": 1, "name": "read"})
WRITTEN = Written(
    *(np.array(values, np.int64) for values in ([0, 1, 2, 3], [0, 1], [2], [0, 0], [0, 1]))
)
END = End(
    partition=0,
    log_start_offset=0,
    end_offset=9,
    position=9,
    leader="b1",
    leader_epoch=0,
    members=("b1",),
    complete=True,
)
HALF = replace(END, complete=False)


def table(values: list[int], *, key: str | None = None, reader: str = "a") -> pa.Table:
    rows = len(values)
    columns: dict[str, Any] = {
        "reader": [reader] * rows,
        "key": [key] * rows,
        "partition": [0] * rows,
        "offset": range(rows),
        "value": values,
        "leader_epoch": [0] * rows,
        "time_ns": [0] * rows,
    }
    return pa.table(
        {name: pa.array(of).cast(READS.field(name).type) for name, of in columns.items()}
    )


@pytest.mark.parametrize(
    ("values", "promised"),
    [
        ([0, 1], True),
        ([3, 1, 0], True),  # an unknown write may be there
        ([0], False),  # an acknowledged one is missing
        ([0, 1, 2], False),  # a failed one is there
        ([0, 1, 7], False),  # nobody wrote it
        ([0, 1, 1], False),  # there twice
        ([], False),
    ],
)
def test_what_a_second_library_is_asked_for(values: list[int], promised: bool) -> None:
    assert as_promised(table(values), WRITTEN) is promised
    assert not as_promised(table([*values, 3], key="x"), WRITTEN)


@dataclass
class FakeTarget(BareTarget):
    """A target whose readers find these values and ends."""

    found: dict[str, tuple[list[int], End]]
    asked: list[str] = field(default_factory=list)

    def readers(self, _: object) -> tuple[str, ...]:
        return tuple(self.found) if len(self.found) > 2 else ("first", "second")

    def read_all(self, *_: object, reader: str, timeout_s: float) -> tuple[pa.Table, list[End]]:
        self.asked.append(reader)
        values, end = self.found[reader]
        return table(values, reader=reader), [end]


class Wrote:
    def written(self) -> Written:
        return WRITTEN


def read_all(
    target: FakeTarget,
    folder: Path,
    stop: threading.Event | None = None,
    *,
    in_parts: bool = True,
) -> RunDir:
    """The run's folder after the final reads; the clock's zero is at 1 s."""
    rundir = RunDir.create(folder, "r")
    read_everything(
        cast(Target, target),
        cast(Cluster, None),
        PLAN,
        RunClock(zero_ns=S),
        cast(Recorder, Wrote()),
        rundir,
        stop or threading.Event(),
        in_parts=in_parts,
    )
    return rundir


@pytest.mark.parametrize(
    ("first", "asked", "in_parts"),
    [
        (([0, 1], END), ["first"], True),
        (([0, 1], END), ["first", "second"], False),  # what consumers did may contradict it
        (([0], END), ["first", "second"], True),
        (([0, 1, 2], END), ["first", "second"], True),
        (([0, 1], HALF), ["first", "second"], True),  # all is there, and the end was not reached
    ],
)
def test_both_readers_are_filed(
    first: tuple[list[int], End], asked: list[str], in_parts: bool, tmp_path: Path
) -> None:
    target = FakeTarget({"first": first, "second": ([0, 1], END)})
    rundir = read_all(target, tmp_path, in_parts=in_parts)
    assert target.asked == asked
    assert pq.read_table(rundir.ends)["reader"].to_pylist() == asked
    rows = sum(pq.read_metadata(part).num_rows for part in rundir.parts(rundir.reads))
    assert rows == sum(len(target.found[reader][0]) for reader in asked)


@pytest.mark.parametrize(
    ("in_sync", "complete"),
    [(("n1", "n2", "n3"), [False] * 3), (("n1", "n3"), [True, False, True])],
)
def test_replicas_are_all_read_and_what_one_may_have_is_not_lost(
    in_sync: tuple[str, ...], complete: list[bool], tmp_path: Path
) -> None:
    end, why = replace(END, members=in_sync), "n2: gone"
    well = {name: ([0, 1], end) for name in ("n1", "n2", "n3")}
    one = {**well, "n2": ([], replace(end, complete=False, error=why))}
    for folder, found, expected in (("well", well, [True] * 3), ("one", one, complete)):
        (tmp_path / folder).mkdir()
        target = FakeTarget(found)
        ends = pq.read_table(read_all(target, tmp_path / folder).ends).to_pylist()
        assert target.asked == [row["reader"] for row in ends] == list(found)
        assert [row["complete"] for row in ends] == expected
        assert [row["error"] for row in ends] == [None if ok else why for ok in expected]


def test_what_was_read_is_filed_with_its_reader_and_in_the_runs_time(tmp_path: Path) -> None:
    rundir = read_all(FakeTarget({"first": ([0], HALF), "second": ([0, 1], END)}), tmp_path)
    records = [
        row for part in rundir.parts(rundir.reads) for row in pq.read_table(part).to_pylist()
    ]
    assert [row["value"] for row in records] == [0, 0, 1]
    assert {row["time_ns"] for row in records} == {-S}
    assert {row["run_id"] for row in records} == {"r"}
    first, second = pq.read_table(rundir.ends).to_pylist()
    assert (first["reader"], first["complete"]) == ("first", False)
    assert (second["reader"], second["complete"]) == ("second", True)
    assert second["isr"] == ["b1"]
    assert (second["position"], second["end_offset"], second["run_id"]) == (9, 9, "r")


def test_a_stop_ends_the_final_read_between_two_readers(tmp_path: Path) -> None:
    stop = threading.Event()

    class Stopping(FakeTarget):
        def read_all(self, *given: object, **how: Any) -> tuple[pa.Table, list[End]]:
            stop.set()
            return super().read_all(*given, **how)

    target = Stopping({"first": ([0], END), "second": ([0, 1], END)})
    rundir = read_all(target, tmp_path, stop)
    assert target.asked == ["first"]
    assert pq.read_table(rundir.ends)["reader"].to_pylist() == ["first"]


def test_a_stop_before_the_first_reader_leaves_no_ends(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    target = FakeTarget({})
    rundir = read_all(target, tmp_path, stop)
    assert not target.asked
    assert not rundir.ends.exists()


def test_one_partition_that_was_not_read_to_its_end_is_enough_for_a_second_reader(
    tmp_path: Path,
) -> None:
    class Two(FakeTarget):
        def read_all(self, *given: object, **how: Any) -> tuple[pa.Table, list[End]]:
            found, ends = super().read_all(*given, **how)
            return found, [replace(END, partition=1), *ends]

    target = Two({"first": ([0, 1], HALF), "second": ([0, 1], END)})
    read_all(target, tmp_path)
    assert target.asked == ["first", "second"]


# --- before it --------------------------------------------------------------------------------

NAMES = ("b1", "b2", "b3")
THREE = parse_plan(
    {"schema": 1, "name": "r", "topic": {"partitions": 2}, "final": {"settle_s": 20}}
)


def situation(*views: tuple[str | None, int], at_ns: int = 0) -> Situation:
    """Partitions by their leader and how many replicas are in sync."""
    return Situation(
        time_ns=at_ns,
        partitions={
            number: PartitionView(
                partition=number, leader=leader, leader_epoch=1, members=NAMES[:in_sync]
            )
            for number, (leader, in_sync) in enumerate(views)
        },
    )


WHOLE = situation(("b1", 3), ("b2", 3))


@pytest.mark.parametrize(
    ("seen", "whole"),
    [
        (WHOLE, True),
        (situation(("b1", 3), ("b2", 2)), False),
        (situation(("b1", 2), ("b2", 3)), False),
        (situation(("b1", 3), (None, 3)), False),
        (situation(("b1", 3)), False),  # of the other partition nobody says anything
        (situation(), False),
    ],
)
def test_every_partition_has_a_leader_and_all_its_replicas(seen: Situation, whole: bool) -> None:
    assert all(each.every for each in in_sync(seen, THREE)) is whole


class Seen:
    """An observer of a cluster that is whole in these spans of seconds, with a node that answers
    from some second on."""

    observes = True

    def __init__(
        self, time: VirtualTime, *spans_s: tuple[float, float], answers_s: float = 0
    ) -> None:
        self._time, self._spans, self._answers_s = time, spans_s, answers_s
        self.cells = [Watched(THREE)]

    def silent(self) -> list[str]:
        return ["c1"] if self._time.now_ns() / S < self._answers_s else []

    def situation(self, cell: int) -> Situation:
        now_s = self._time.now_ns() / S
        whole = any(low <= now_s < high for low, high in self._spans)
        return WHOLE if whole else situation(("b1", 3), ("b2", 2))


@pytest.mark.parametrize(
    ("spans_s", "settled_s"),
    [
        ([(0, 99)], 1),
        ([(4, 99)], 5),
        ([(0, 0.8), (7, 99)], 8),  # right after a heal it may be the old state
        ([(0, 0.8), (0.95, 1.4), (3, 99)], 4),
        ([], None),
        ([(19.5, 99)], None),  # it did not stay so for a second
        ([(0, 0.5), (1, 1.5), (2, 2.5)], None),
    ],
)
def test_replicas_are_waited_for_until_they_stay_in_sync_for_a_second(
    spans_s: list[tuple[float, float]], settled_s: float | None
) -> None:
    time = VirtualTime(ends_s=1000)
    settled = wait_until_replicated(20, cast(Any, Seen(time, *spans_s)), time, time)
    assert settled is (settled_s is not None)
    waited_s = time.now_ns() / S
    assert waited_s == pytest.approx(20 if settled_s is None else settled_s, abs=0.25)


def test_somebody_who_stops_does_not_wait_for_replicas() -> None:
    time = VirtualTime(ends_s=3)
    assert not wait_until_replicated(20, cast(Any, Seen(time)), time, time)
    assert time.now_ns() / S == pytest.approx(3, abs=0.2)


def test_a_node_that_was_started_again_is_awaited() -> None:
    time = VirtualTime(ends_s=1000)
    assert wait_until_replicated(20, cast(Any, Seen(time, (0, 99), answers_s=6)), time, time)
    assert time.now_ns() / S == pytest.approx(7, abs=0.25)


def test_a_node_is_silent_that_runs_and_has_answered_before() -> None:
    time, seen = VirtualTime(ends_s=1000), Watched(THREE)
    nodes = {
        name: SimpleNamespace(process=partial(ProcessState, running=name != "dead"))
        for name in ("started", "dead", "never", "answers")
    }
    observer = Observer(BareTarget(), cast(Any, nodes), [seen], time)
    for name in ("started", "dead"):
        seen.latest[name] = (0, NodeView(answered_by=name))
    time.wait(time, 4)
    seen.latest["answers"] = (time.now_ns(), NodeView(answered_by="answers"))
    assert observer.silent() == ["started"]


def test_nobody_waits_where_nobody_can_be_asked() -> None:
    time = VirtualTime(ends_s=1000)
    idle = Observer(BareTarget(), {}, [Watched(THREE)], time)
    assert wait_until_replicated(20, idle, time, time)
    assert time.now_ns() == 0

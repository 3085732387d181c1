"""The life of a group in a run: gate, rows on the run's clock, drain, and its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from harness.clusters.memory import VirtualClock
from harness.errors import HarnessFailure
from harness.history.run_folder import RunDir
from harness.plan import Plan
from harness.protocols import RunCluster
from harness.protocols.clock import RunClock
from harness.protocols.groups import KINDS, Consumers, Delivery, GroupSettings, Record
from harness.run.cell_run import GroupRun
from tests.fixtures.dry_run import DryRunConsumers


@dataclass(frozen=True)
class Scripted(DryRunConsumers):
    """Consumers that are assigned and drained after so many looks; what is called is kept."""

    record: Record = lambda _: None
    calls: list[str] = field(default_factory=list)
    assigned_after: int = 0
    drained_after: int = 0
    clock: VirtualClock = field(default_factory=VirtualClock)

    def start(self) -> None:
        now_ns = self.clock.now_ns()
        self.record([Delivery(KINDS.start, now_ns, now_ns, consumer="consumer-1", life=1)])

    def assigned(self) -> str | None:
        self.calls.append("assigned")
        enough = self.calls.count("assigned") > self.assigned_after
        return None if enough else "nobody reads partition 0"

    def drained(self) -> str | None:
        self.calls.append("drained")
        return None if self.calls.count("drained") > self.drained_after else "partition 0 ends at 9"

    def close(self, timeout_s: float) -> None:
        self.calls.append(f"close {timeout_s:g}")

    def committed(self, timeout_s: float) -> list[Delivery]:
        return [Delivery(KINDS.final, 0, 0, partition=0, offset=9, node="n1")]


@dataclass(frozen=True)
class Target:
    """Has these consumers."""

    clock: VirtualClock
    options: dict[str, int]
    made: list[Scripted] = field(default_factory=list)

    def consumers(
        self, cluster: RunCluster, plan: Plan, group: GroupSettings, record: Record
    ) -> Consumers:
        del cluster, plan, group
        self.made.append(
            Scripted(say=lambda _: None, record=record, clock=self.clock, **self.options)
        )
        return self.made[0]


@contextmanager
def a_run(
    tmp_path: Path, **options: int
) -> Iterator[tuple[GroupRun, Target, VirtualClock, RunDir]]:
    clock = VirtualClock()
    target = Target(clock, options)
    rundir = RunDir.create(tmp_path, "r1")
    plan = Plan.model_validate(
        {"schema": 1, "name": "p", "target": {"system": "s"}, "final": {"drain_s": 5}}
    )
    with clock.taking_part("main"):
        group = GroupRun(cast("Any", target), cast("Any", None), plan, GroupSettings(), clock)
        yield group, target, clock, rundir


def rows(rundir: RunDir) -> list[dict[str, Any]]:
    parts = [pq.read_table(path).to_pylist() for path in rundir.parts(rundir.deliveries)]
    return [row for part in parts for row in part]


def test_what_comes_before_the_load_has_negative_times(tmp_path: Path) -> None:
    with a_run(tmp_path, assigned_after=3) as (group, target, clock, rundir):
        with group:
            group.begin()
            clock.wait(threading.Event(), 1)
            with group.recording(RunClock(clock), rundir):
                clock.wait(threading.Event(), 1)
                group.drain(threading.Event())
        assert target.made[0].calls[-2:] == ["drained", "close 20"]
    found = {row["f"]: row for row in rows(rundir)}
    assert list(found) == [KINDS.start, KINDS.gate, KINDS.drain, KINDS.final]
    assert found[KINDS.start]["time_ns"] == -1_300_000_000
    assert found[KINDS.gate]["type"] == "ok"
    assert found[KINDS.gate]["time_ns"] == -1_000_000_000
    assert (found[KINDS.drain]["type"], found[KINDS.drain]["time_ns"]) == ("ok", 1_000_000_000)
    assert {row["run_id"] for row in rows(rundir)} == {"r1"}


def test_a_gate_that_is_never_reached_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    with a_run(tmp_path, assigned_after=10_000) as (group, _, clock, rundir), group:
        group.begin()
        assert clock.now_ns() == 60_000_000_000
        with group.recording(RunClock(clock), rundir):
            pass
    (gate,) = [row for row in rows(rundir) if row["f"] == KINDS.gate]
    assert (gate["type"], gate["error"]) == ("info", "nobody reads partition 0")


def test_a_drain_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with a_run(tmp_path, drained_after=10_000) as (group, _, clock, rundir), group:
        group.begin()
        with group.recording(RunClock(clock), rundir):
            group.drain(threading.Event())
        assert clock.now_ns() == 5_000_000_000
    (drain,) = [row for row in rows(rundir) if row["f"] == KINDS.drain]
    assert (drain["type"], drain["error"]) == ("info", "partition 0 ends at 9")


def test_consumers_of_a_run_that_breaks_are_ended_at_once(tmp_path: Path) -> None:
    with a_run(tmp_path) as (group, target, _, _):
        with suppress(ValueError), group:
            group.begin()
            raise ValueError("broken")
        assert target.made[0].calls[-1] == "close 0"


def test_what_is_no_row_is_refused(tmp_path: Path) -> None:
    with a_run(tmp_path) as (group, target, _, _), group:
        for row in (Delivery("read", 0, 0), Delivery(KINDS.process, 0, 0, "done")):
            with pytest.raises(HarnessFailure, match="is not a row"):
                target.made[0].record([row])

"""A worker: when it keeps its cluster, when it does not, and what it says of a run.

Nothing is started: clusters are made up, and what a run does is decided by each test. Plans, run
folders and the pipe to the scheduler are real.
"""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns import worker as workers
from harness.campaigns.worker import (
    Answer,
    Assignment,
    _Kept,
    _listen,
    _next,
    _WorkerProcess,
    cluster_key,
    may_be_kept,
)
from harness.errors import EnvironmentFailure, HarnessFailure, Interrupted
from harness.history.run_folder import RunDir
from harness.machine import state
from harness.plan import parse_plan
from harness.run.interrupts import Interrupts
from harness.run.resolving import ResolvedPlan, resolve

KILL = {"id": "k", "at_s": 2, "nemesis": "kill", "for_s": 2}
CLOCK = {"id": "c", "at_s": 2, "nemesis": "clock", "for_s": 2}


def document(name: str = "base", **how: Any) -> dict[str, Any]:
    head = {"schema": 1, "name": name, "target": {"version": "4.3.1"}}
    return {**head, "workload": {"duration_s": 10}, "faults": [KILL], **how}


def bound(**how: Any) -> ResolvedPlan:
    return resolve(parse_plan(document(**how)))


@dataclass
class Cluster:
    """A cluster that is only a number."""

    run_id: str
    nodes: dict[str, Any] = field(default_factory=dict)
    downs: int = 0

    def down(self) -> None:
        self.downs += 1


class Worker(_WorkerProcess):
    """A worker that builds clusters out of nothing."""

    def __init__(self, folder: Path, judge: Callable[[RunDir], dict[str, Any]]) -> None:
        self.built: list[Cluster] = []
        ours, _ = Pipe()
        super().__init__(ours, folder, judge, Interrupts())

    def _build(self, bound: ResolvedPlan, fits: str) -> _Kept:
        self.built.append(Cluster(f"cluster-{len(self.built)}"))
        self.kept = _Kept(self.built[-1], None, fits)  # type: ignore[arg-type]
        return self.kept


@dataclass
class World:
    """What becomes of runs: each calls the next of `runs`, further ones do nothing."""

    path: Path
    runs: list[Callable[[Any], None]] = field(default_factory=list)
    played: list[tuple[str, str, str]] = field(default_factory=list)
    as_it_was: bool = True

    def __post_init__(self) -> None:
        self.worker = Worker(self.path, lambda rundir: {"verdict": f"judged {rundir.run_id}"})

    def run_on(self, cluster: Any, bound: ResolvedPlan, _: Any, record: Any, how: Any) -> None:
        self.played.append((cluster.run_id, how.run_id, bound.plan.topic.name))
        if self.runs:
            self.runs.pop(0)(record)

    def play(self, run_id: str, **how: Any) -> Answer:
        return self.worker.play(Assignment(run_id, document(**how)))

    @property
    def clusters(self) -> list[str]:
        """The cluster of each run that was kept in the campaign's folder."""
        return [cluster for cluster, run_id, _ in self.played if (self.path / run_id).exists()]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))
    runs = tmp_path / "runs"
    runs.mkdir()
    made = World(runs)
    monkeypatch.setattr(workers, "run_on", made.run_on)
    monkeypatch.setattr(workers, "_as_it_was", lambda cluster, bound: made.as_it_was)
    return made


def raises(error: BaseException) -> Callable[[Any], None]:
    def run(_: Any) -> None:
        raise error

    return run


def test_the_first_run_on_a_cluster_is_a_warm_up_that_is_thrown_away(world: World) -> None:
    answer = world.play("one")
    assert (answer.run_id, answer.verdict, answer.error) == ("one", "judged one", None)
    assert [cluster for cluster, _, _ in world.played] == ["cluster-0", "cluster-0"]
    assert [path.name for path in world.path.iterdir()] == ["one"]
    assert len({topic for _, _, topic in world.played}) == 2


def test_a_cluster_is_kept_for_a_plan_that_fits_it(world: World) -> None:
    settings = {"topic": {"settings": {"min.insync.replicas": 2}}}
    world.play("one")
    world.play("two", **settings)
    world.play("three")
    assert world.clusters == ["cluster-0"] * 3
    assert len(world.played) == 4
    assert len({topic for _, _, topic in world.played}) == 4
    runs = [RunDir(world.path / name).read_json(RunDir(world.path / name).run) for name in
            ("one", "two", "three")]  # fmt: skip
    assert [run["cluster"]["runs_before"] for run in runs] == [1, 2, 3]
    assert [run["state"] for run in runs] == ["done"] * 3


@pytest.mark.parametrize(
    "other",
    [
        {"target": {"version": "4.3.1", "settings": {"replica.lag.time.max.ms": 3000}}},
        {"target": {"version": "4.3.1", "brokers": 5}},
        {"faults": [CLOCK]},
    ],
)
def test_a_plan_that_does_not_fit_gets_a_new_cluster(world: World, other: dict[str, Any]) -> None:
    world.play("one")
    world.play("two", **other)
    assert world.clusters == ["cluster-0", "cluster-1"]
    assert [cluster.downs for cluster in world.worker.built] == [1, 0]


def test_a_fault_that_spoils_what_is_stored_spoils_the_cluster(world: World) -> None:
    spoiling = {"faults": [CLOCK]}
    assert not may_be_kept(bound(**spoiling))
    assert may_be_kept(bound())
    world.play("one", **spoiling)
    assert len(world.played) == 1  # no warm-up on a cluster that serves one run
    world.play("two", **spoiling)
    assert world.clusters == ["cluster-0", "cluster-1"]


def test_a_run_that_did_not_leave_its_cluster_as_it_was_spoils_it(world: World) -> None:
    world.play("one")
    world.as_it_was = False
    world.play("two")
    world.as_it_was = True
    world.play("three")
    assert world.clusters == ["cluster-0", "cluster-0", "cluster-1"]


def nothing(_: Any) -> None:
    pass


def test_a_run_that_fails_is_told_and_takes_its_cluster_with_it(world: World) -> None:
    world.runs = [nothing, raises(ValueError("no such thing"))]
    answer = world.play("one")
    assert (answer.verdict, answer.error) == (None, "ValueError: no such thing")
    assert not answer.broken
    assert world.worker.kept is None
    assert world.worker.built[0].downs == 1
    assert world.play("two").verdict == "judged two"
    assert world.clusters == ["cluster-0", "cluster-1"]


def test_a_judge_that_raises_is_a_run_that_failed(world: World) -> None:
    world.worker.judge = lambda _: {}["verdict"]
    assert world.play("one").error == "KeyError: 'verdict'"


def test_an_interrupted_run_says_nothing_and_is_played_again(world: World) -> None:
    world.runs = [nothing, raises(Interrupted("interrupted by SIGTERM"))]
    answer = world.play("one")
    assert (answer.broken, answer.error) == (True, "interrupted")
    rundir = RunDir(world.path / "one")
    assert rundir.read_json(rundir.run)["state"] == "interrupted"


def test_a_signal_that_came_while_nothing_listened_interrupts_the_run(world: World) -> None:
    world.runs = [nothing, lambda _: world.worker.interrupts.stop.set()]
    assert world.play("one").broken


def test_a_kept_cluster_that_does_not_get_a_run_begun_is_at_fault_itself(world: World) -> None:
    world.play("one")
    world.runs = [raises(EnvironmentFailure("b2 does not answer"))]
    answer = world.play("two")
    assert answer.broken
    assert answer.error is not None
    assert "the kept cluster could not be used again: b2 does not answer" in answer.error
    assert world.worker.kept is None
    assert world.worker.built[0].downs == 1


def test_a_kept_cluster_is_not_at_fault_for_what_happens_in_a_run(world: World) -> None:
    def begun(record: Any) -> None:
        record.update(state="running")
        raise HarnessFailure("the load generator died")

    world.play("one")
    world.runs = [begun]
    answer = world.play("two")
    assert (answer.broken, answer.error) == (False, "HarnessFailure: the load generator died")


def test_a_new_cluster_that_does_not_get_a_run_begun_is_the_runs_own_failure(
    world: World,
) -> None:
    world.runs = [raises(EnvironmentFailure("no room"))]
    answer = world.play("one")
    assert (answer.broken, answer.error) == (False, "EnvironmentFailure: no room")


def test_a_plan_that_cannot_be_bound_is_a_run_that_failed(world: World) -> None:
    answer = world.play("one", target={"system": "nothing"})
    assert not answer.broken
    assert (answer.error or "").startswith("PlanError: ")
    assert not world.worker.built


def test_dropping_ends_what_is_registered(world: World) -> None:
    world.play("one")
    world.worker.kept.stack.enter_context(  # type: ignore[union-attr]
        state.registered("cluster-0", world.path)
    )
    assert [entry.run_id for entry in state.registrations()] == ["cluster-0"]
    world.worker.drop()
    assert not state.registrations()
    world.worker.drop()  # nothing is left to be dropped
    assert world.worker.built[0].downs == 1


def test_plans_that_may_share_a_cluster_have_the_same_key() -> None:
    key = cluster_key(bound())
    assert key == cluster_key(bound(name="other", seed=9))
    assert key == cluster_key(bound(topic={"settings": {"min.insync.replicas": 2}}))
    assert key != cluster_key(bound(target={"version": "4.3.1", "brokers": 5}))
    assert key != cluster_key(bound(faults=[CLOCK]))


def listened(
    *sent: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Assignment | None], list[tuple[int, int]]]:
    """What the worker's listening thread takes in and whom it signals, when the scheduler sends
    these and is gone."""
    ours, theirs = Pipe()
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))
    for each in sent:
        ours.send(each)
    ours.close()
    orders: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
    _listen(theirs, orders)
    return [orders.get() for _ in range(orders.qsize())], signals


def test_a_scheduler_that_is_gone_ends_the_worker_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    order = Assignment("one", {})
    taken, signals = listened(order, monkeypatch=monkeypatch)
    assert taken == [order, None]
    assert signals == [(os.getpid(), signal.SIGTERM)]


def test_a_scheduler_that_says_so_ends_the_worker_after_its_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = Assignment("one", {})
    taken, signals = listened(order, None, monkeypatch=monkeypatch)
    assert taken[:2] == [order, None]
    assert signals  # and, being gone, ends it


def test_there_is_no_next_order_after_a_signal() -> None:
    interrupts = Interrupts()
    orders: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
    orders.put(Assignment("one", {}))
    orders.put(None)
    assert _next(orders, interrupts) == Assignment("one", {})
    assert _next(orders, interrupts) is None
    interrupts.stop.set()
    orders.put(Assignment("two", {}))
    assert _next(orders, interrupts) is None

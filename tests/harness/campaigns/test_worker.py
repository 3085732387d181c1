"""A worker: when it keeps its cluster, when it does not, and how it answers for a run.

Nothing is started: clusters are simulated, and each test decides what its runs do. Plans, run
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
    _KeptCluster,
    _listen,
    _next,
    _Worker,
    cluster_key,
)
from harness.errors import EnvironmentFailure, HarnessFailure, Interrupted
from harness.history.run_folder import RunDir
from harness.machine import state
from harness.plan import parse_plan
from harness.run.final_read import NOT_FULLY_REPLICATED
from harness.run.interrupts import Interrupts
from harness.run.resolving import ResolvedPlan, resolve

KILL = {"id": "k", "at_s": 2, "nemesis": "kill", "for_s": 2}
CLOCK = {"id": "c", "at_s": 2, "nemesis": "clock", "for_s": 2}
WIPE = {**CLOCK, "nemesis": "disk", "form": "wipe", "nodes": "follower(0)"}


def document(name: str = "base", **how: Any) -> dict[str, Any]:
    head = {"schema": 1, "name": name, "target": {"version": "4.3.1"}}
    return {**head, "workload": {"duration_s": 10}, "faults": [KILL], **how}


def resolved(**how: Any) -> ResolvedPlan:
    return resolve(parse_plan(document(**how)))


@dataclass
class Cluster:
    """A cluster that consists of a name only."""

    run_id: str
    nodes: dict[str, Any] = field(default_factory=dict)
    downs: int = 0

    def down(self) -> None:
        self.downs += 1


class Worker(_Worker):
    """A worker whose clusters are simulated."""

    def __init__(self, folder: Path, judge: Callable[[RunDir], dict[str, Any]]) -> None:
        self.built: list[Cluster] = []
        ours, _ = Pipe()
        super().__init__(ours, folder, judge, Interrupts())

    def _build(self, plan: ResolvedPlan, key: str | None) -> _KeptCluster:
        self.built.append(Cluster(f"cluster-{len(self.built)}"))
        self.kept = _KeptCluster(self.built[-1], plan.provider, key)  # type: ignore[arg-type]
        return self.kept


@dataclass
class World:
    """The runs of a worker: each calls the next of `runs`, further ones do nothing."""

    path: Path
    runs: list[Callable[[Any], None]] = field(default_factory=list)
    executed: list[tuple[str, str, str]] = field(default_factory=list)
    reusable: bool = True

    def __post_init__(self) -> None:
        self.worker = Worker(self.path, lambda rundir: {"verdict": f"judged {rundir.run_id}"})

    def run_on(self, cluster: Any, plan: ResolvedPlan, record: Any, options: Any) -> None:
        self.executed.append((cluster.run_id, options.run_id, plan.plan.topic.name))
        if self.runs:
            self.runs.pop(0)(record)

    def execute(self, run_id: str, **how: Any) -> Answer:
        (answer,) = self.worker.execute(Assignment(run_id, document(**how)))
        return answer

    @property
    def clusters(self) -> list[str]:
        """The cluster of each run that was kept in the campaign's folder."""
        return [cluster for cluster, run_id, _ in self.executed if (self.path / run_id).exists()]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))
    runs = tmp_path / "runs"
    runs.mkdir()
    made = World(runs)
    monkeypatch.setattr(workers, "run_on", made.run_on)
    monkeypatch.setattr(workers, "_left_reusable", lambda cluster, plan: made.reusable)
    return made


@pytest.mark.parametrize("error", [HarnessFailure("no answer"), KeyError("topic")])
def test_a_cluster_whose_plug_in_cannot_clean_it_is_not_reusable(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(*_: Any) -> None:
        raise error

    plan = resolved()
    monkeypatch.setattr(workers, "prove_unfaulted", lambda _: None)
    monkeypatch.setattr(type(plan.target), "forget", forget)
    assert not workers._left_reusable(Cluster("c"), plan)  # type: ignore[arg-type]


def raises(error: BaseException) -> Callable[[Any], None]:
    def run(_: Any) -> None:
        raise error

    return run


def test_the_first_run_on_a_cluster_is_a_warm_up_that_is_discarded(world: World) -> None:
    answer = world.execute("one")
    assert (answer.run_id, answer.verdict, answer.error) == ("one", "judged one", None)
    assert [cluster for cluster, _, _ in world.executed] == ["cluster-0", "cluster-0"]
    assert [path.name for path in world.path.iterdir()] == ["one"]
    assert len({topic for _, _, topic in world.executed}) == 2


def test_a_cluster_is_kept_for_a_plan_that_fits_it(world: World) -> None:
    settings = {"topic": {"settings": {"min.insync.replicas": 2}}}
    world.execute("one")
    world.execute("two", **settings)
    world.execute("three")
    assert world.clusters == ["cluster-0"] * 3
    assert len(world.executed) == 4
    assert len({topic for _, _, topic in world.executed}) == 4
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
    world.execute("one")
    world.execute("two", **other)
    assert world.clusters == ["cluster-0", "cluster-1"]
    assert [cluster.downs for cluster in world.worker.built] == [1, 0]


def test_a_fault_that_damages_what_is_stored_makes_the_cluster_single_use(world: World) -> None:
    damaging = {"faults": [CLOCK]}
    assert cluster_key(resolved(**damaging)) is None
    world.execute("one", **damaging)
    assert len(world.executed) == 1  # no warm-up on a cluster that serves one run
    world.execute("two", **damaging)
    assert world.clusters == ["cluster-0", "cluster-1"]


def test_such_a_fault_never_meets_a_cluster_that_has_served_other_runs(world: World) -> None:
    damaging = {"faults": [WIPE]}
    assert cluster_key(resolved(**damaging)) is None
    world.execute("one")
    world.execute("two", **damaging)
    assert world.clusters == ["cluster-0", "cluster-1"]


def test_a_cluster_that_its_warm_up_did_not_leave_reusable_serves_no_run(world: World) -> None:
    world.reusable = False
    answer = world.execute("one")
    assert (answer.broken, answer.verdict) == (True, None)
    assert "after its warm-up" in (answer.error or "")
    assert [cluster.downs for cluster in world.worker.built] == [1]
    assert world.clusters == []


def test_a_cluster_that_a_run_did_not_leave_reusable_is_replaced(world: World) -> None:
    world.execute("one")
    world.reusable = False
    world.execute("two")
    world.reusable = True
    world.execute("three")
    assert world.clusters == ["cluster-0", "cluster-0", "cluster-1"]


def unsettled(record: Any) -> None:
    record.warn(NOT_FULLY_REPLICATED)


def test_a_cluster_whose_replicas_did_not_get_back_in_sync_is_replaced(world: World) -> None:
    """The run says so itself and is done; what keeps a replica away may last."""
    world.runs = [nothing, nothing, unsettled]
    for name in ("one", "two", "three"):
        assert world.execute(name).verdict == f"judged {name}"
    assert world.clusters == ["cluster-0", "cluster-0", "cluster-1"]


def nothing(_: Any) -> None:
    pass


def test_a_run_that_fails_is_reported_and_its_cluster_dropped(world: World) -> None:
    world.runs = [nothing, raises(ValueError("no such thing"))]
    answer = world.execute("one")
    assert (answer.verdict, answer.error) == (
        None,
        "ackloss itself failed: ValueError: no such thing",
    )
    assert not answer.broken
    assert world.worker.kept is None
    assert world.worker.built[0].downs == 1
    assert world.execute("two").verdict == "judged two"
    assert world.clusters == ["cluster-0", "cluster-1"]


def test_a_judge_that_raises_is_a_run_that_failed(world: World) -> None:
    world.worker.judge = lambda _: {}["verdict"]
    assert world.execute("one").error == "ackloss itself failed: KeyError: 'verdict'"


def test_an_interrupted_run_is_to_be_repeated(world: World) -> None:
    world.runs = [nothing, raises(Interrupted("interrupted by SIGTERM"))]
    answer = world.execute("one")
    assert (answer.broken, answer.error) == (True, "interrupted")
    rundir = RunDir(world.path / "one")
    assert rundir.read_json(rundir.run)["state"] == "interrupted"


def test_a_signal_while_nothing_can_raise_interrupts_the_run_afterwards(world: World) -> None:
    world.runs = [nothing, lambda _: world.worker.interrupts.stop.set()]
    assert world.execute("one").broken


def test_a_kept_cluster_on_which_a_run_does_not_begin_is_to_blame(world: World) -> None:
    world.execute("one")
    world.runs = [raises(EnvironmentFailure("b2 does not answer"))]
    answer = world.execute("two")
    assert answer.broken
    assert answer.error is not None
    assert "the kept cluster could not be used again: b2 does not answer" in answer.error
    assert world.worker.kept is None
    assert world.worker.built[0].downs == 1


def test_a_kept_cluster_is_not_to_blame_for_what_happens_in_a_run(world: World) -> None:
    def begun(record: Any) -> None:
        record.update(state="running")
        raise HarnessFailure("the load generator died")

    world.execute("one")
    world.runs = [begun]
    answer = world.execute("two")
    assert (answer.broken, answer.error) == (False, "HarnessFailure: the load generator died")


def test_a_run_that_does_not_begin_on_a_new_cluster_has_failed(
    world: World,
) -> None:
    world.runs = [raises(EnvironmentFailure("no room"))]
    answer = world.execute("one")
    assert (answer.broken, answer.error) == (False, "EnvironmentFailure: no room")


def test_a_plan_that_cannot_be_resolved_is_a_run_that_failed(world: World) -> None:
    answer = world.execute("one", target={"system": "nothing"})
    assert not answer.broken
    assert (answer.error or "").startswith("PlanError: ")
    assert not world.worker.built


def test_dropping_a_cluster_removes_its_registration(world: World) -> None:
    world.execute("one")
    world.worker.kept.stack.enter_context(  # type: ignore[union-attr]
        state.registered("cluster-0", world.path)
    )
    assert [entry.run_id for entry in state.registrations()] == ["cluster-0"]
    world.worker.drop()
    assert not state.registrations()
    world.worker.drop()  # nothing is left to drop
    assert world.worker.built[0].downs == 1


def test_plans_that_may_share_a_cluster_have_the_same_key() -> None:
    key = cluster_key(resolved())
    assert key == cluster_key(resolved(name="other", seed=9))
    assert key == cluster_key(resolved(topic={"settings": {"min.insync.replicas": 2}}))
    assert key != cluster_key(resolved(target={"version": "4.3.1", "brokers": 5}))
    assert key != cluster_key(resolved(faults=[CLOCK]))


def listened(
    *sent: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Assignment | None], list[tuple[int, int]]]:
    """The assignments that the listening thread receives and the signals that it sends, when the
    scheduler sends these and is gone."""
    ours, theirs = Pipe()
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))
    for each in sent:
        ours.send(each)
    ours.close()
    assignments: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
    _listen(theirs, assignments)
    return [assignments.get() for _ in range(assignments.qsize())], signals


def test_a_scheduler_that_is_gone_ends_the_worker_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assignment = Assignment("one", {})
    received, signals = listened(assignment, monkeypatch=monkeypatch)
    assert received == [assignment, None]
    assert signals == [(os.getpid(), signal.SIGTERM)]


def test_a_scheduler_can_end_the_worker_after_its_assignments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assignment = Assignment("one", {})
    received, signals = listened(assignment, None, monkeypatch=monkeypatch)
    assert received[:2] == [assignment, None]
    assert signals  # the scheduler is gone afterwards


def test_there_is_no_next_assignment_after_a_signal() -> None:
    interrupts = Interrupts()
    assignments: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
    assignments.put(Assignment("one", {}))
    assignments.put(None)
    assert _next(assignments, interrupts) == Assignment("one", {})
    assert _next(assignments, interrupts) is None
    interrupts.stop.set()
    assignments.put(Assignment("two", {}))
    assert _next(assignments, interrupts) is None

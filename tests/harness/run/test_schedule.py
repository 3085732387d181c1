"""The fault schedule, step by step in virtual time: when each begins, what it meets, what heals it.

The clock, the cluster and the lever are made up; steps, conditions, selectors, the journal and the
one place that applies faults are the real ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.errors import HarnessFailure
from harness.faults import selectors
from harness.faults.injection import Faults
from harness.faults.journal import Journal, entries, windows
from harness.plan import parse_plan
from harness.protocols import Act, Lever, Nemesis, PartitionView, Proof, Situation, UndoRecord
from harness.run.observer import Watched
from harness.run.resolving import ResolvedStep
from harness.run.schedule import Schedule
from targets.kafka.log import VOCABULARY as KAFKA
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.virtual_time import S, VirtualTime

NAMES = ("b1", "b2", "b3")
TICK_S = 0.05
NO_LEADER = "no leader"


@dataclass
class NotingLever(Lever[UndoRecord]):
    """Notes when it is pulled, on which node, for which fault; `broken`: what it cannot do. A probe
    takes `probe_s`, to apply an act `apply_s`."""

    time: VirtualTime
    broken: Sequence[str] = ()
    probe_s: float = 0
    apply_s: float = 0
    probes: list[tuple[float, str, bool]] = field(default_factory=list)
    pulls: list[tuple[float, str, str, str]] = field(default_factory=list)
    pulled: threading.Event = field(default_factory=threading.Event)
    name: ClassVar[str] = "note"
    record_type: ClassVar[type[UndoRecord]] = UndoRecord

    def unavailable(self, node: object, record: UndoRecord) -> None:
        return None

    def apply(self, record: UndoRecord) -> None:
        self._pull("apply", record)
        self.time.passed_ns += round(self.apply_s * S)

    def undo(self, record: UndoRecord) -> None:
        self._pull("undo", record)

    def probe(self, record: UndoRecord, *, applied: bool) -> Proof:
        self.probes.append((round(self.time.now_ns() / S, 2), record.fault, applied))
        self.time.passed_ns += round(self.probe_s * S)
        return Proof(True, ["noted"])

    def leftover_state(self, node: object) -> list[str]:
        return []

    def _pull(self, what: str, record: UndoRecord) -> None:
        if f"{what} {record.fault}" in self.broken:
            raise HarnessFailure(f"cannot {what} {record.fault}")
        at_s = round(self.time.now_ns() / S, 2)
        self.pulls.append((at_s, what, record.fault, record.node))
        self.pulled.set()


@dataclass(frozen=True, kw_only=True)
class Stays(UndoRecord):
    """What nothing undoes."""

    permanent: ClassVar[bool] = True


@dataclass(frozen=True)
class NotingNemesis(Nemesis):
    """One act on each node; `also` is a further selector; `roll`: nothing undoes it, and it is done
    node by node, or at once."""

    also: str | None = None
    roll: bool | None = None
    plugin: ClassVar[str] = "kill"

    def in_turn(self, acts: Sequence[Act]) -> list[Sequence[Act]]:
        return [[act] for act in acts] if self.roll else [acts]

    def requires(self, node: str) -> list[Act]:
        return [Act("note", UndoRecord(node=node) if self.roll is None else Stays(node=node))]

    def acts(self, nodes: Sequence[Any], select: Callable[[str], Sequence[Any]]) -> list[Act]:
        further = select(self.also) if self.also else []
        return [act for node in (*nodes, *further) for act in self.requires(node.name)]


@dataclass
class Cluster:
    """As time passes: partition 0 has no leader from one instant to another, and the controller
    moves from b1 to b2 at a third. Nobody has answered before `begun_s`, nor b3 in `silent_s`."""

    time: VirtualTime
    cells: Sequence[Watched] = ()
    silent_s: tuple[float, float] = (0, 0)
    observes: bool = True
    leaderless_s: tuple[float, float] = (0, 0)
    moves_s: float = 0
    begun_s: float = 0

    def begun(self) -> bool:
        return self.time.now_ns() >= self.begun_s * S

    def situation(self, cell: int = 0) -> Situation:
        del cell
        now_s = self.time.now_ns() / S
        if not self.begun():
            return Situation(time_ns=self.time.now_ns())
        leader = None if self.leaderless_s[0] <= now_s < self.leaderless_s[1] else "b1"
        view = PartitionView(partition=0, leader=leader, leader_epoch=1, members=NAMES)
        controller = "b1" if now_s < self.moves_s else "b2"
        silent = {"b3"} if self.silent_s[0] <= now_s < self.silent_s[1] else set()
        return Situation(
            time_ns=self.time.now_ns(),
            partitions={0: view},
            controller=controller,
            answered=frozenset(NAMES) - silent,
        )


@dataclass
class Staged:
    """A schedule with everything round it."""

    schedule: Schedule
    lever: NotingLever
    time: VirtualTime
    path: Path

    def run(self) -> list[tuple[float, str, str, str]]:
        """Run until the workload ends: the pulls of the lever."""
        with self.schedule.running():
            assert self.schedule._task is not None
            assert self.schedule._task.thread is not None
            self.schedule._task.thread.join(30)
            assert not self.schedule._task.thread.is_alive()
        return self.lever.pulls

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        return [entry for entry in entries(self.path) if entry["type"] in kinds]


Stage = Callable[..., Staged]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    journals = []

    def staged(
        *steps: Mapping[str, Any],
        ends_s: float = 60,
        seed: int = 1,
        broken: Sequence[str] = (),
        probe_s: float = 0,
        apply_s: float = 0,
        **of_cluster: Any,
    ) -> Staged:
        workload = {"duration_s": 1000}
        plan = parse_plan(
            {"schema": 1, "name": "made", "seed": seed, "workload": workload, "faults": list(steps)}
        )
        path = tmp_path / f"faults-{len(journals)}.jsonl"
        time = VirtualTime(ends_s=ends_s)
        journals.append(journal := Journal(path, time.now_ns))
        lever = NotingLever(time, broken, probe_s, apply_s)
        resolved = [
            ResolvedStep(
                step=step,
                condition=selectors.parse_condition(step.when, KAFKA, key="when")
                if step.when
                else None,
                nemesis=NotingNemesis(step.options.get("also"), step.options.get("roll"))
                if step.nemesis
                else None,
            )
            for step in plan.faults
        ]
        nodes = {
            name: DryRunNode(name, frozenset({"broker"}), f"198.18.0.{place}")
            for place, name in enumerate(NAMES, start=11)
        }
        faults = Faults({"note": lever}, journal)
        schedule = Schedule(
            plan,
            resolved,
            nodes,
            faults,
            Cluster(time, [Watched(plan)], **of_cluster),
            clock=time,
            vocabulary=KAFKA,
            stop=time,
        )
        return Staged(schedule, lever, time, path)

    yield staged
    for journal in journals:
        journal.close()


def kill(name: str, **how: Any) -> dict[str, Any]:
    return {"id": name, "nemesis": "kill", "nodes": "node:b1", **how}


def test_a_step_waits_for_the_first_answer_of_the_cluster(stage: Stage) -> None:
    """Under load that may come after the step is due, and `leader` would be nobody."""
    (pull, *_) = stage(kill("k", nodes="leader", at_s=2), begun_s=2.5).run()
    assert (round(pull[0], 1), pull[3]) == (2.5, "b1")
    (pull, *_) = stage(kill("k", nodes="leader", at_s=4), begun_s=2.5).run()
    assert (pull[0], pull[3]) == (4, "b1")
    silent = stage(kill("k", nodes="leader", at_s=2), kill("all", nodes="all", at_s=3), begun_s=99)
    assert {(round(at_s, 1), node) for at_s, _, _, node in silent.run()} >= {
        (20.0, name) for name in NAMES
    }
    assert silent.lines("step")[0]["nodes"] == []


def test_a_step_that_finds_no_node_waits_for_one(stage: Stage) -> None:
    led = stage(kill("k", nodes="leader", at_s=4, within_s=9), leaderless_s=(3, 12))
    (pull, *_) = led.run()
    assert (pull[0], pull[3]) == (pytest.approx(12, abs=TICK_S), "b1")
    late = stage(kill("k", nodes="leader", at_s=4, within_s=7), leaderless_s=(3, 12))
    assert late.run() == []
    assert [step["nodes"] for step in late.lines("step")] == [[]]
    ended = stage(kill("k", nodes="leader", at_s=4, within_s=9), leaderless_s=(3, 12), ends_s=6)
    assert ended.run() == []
    assert [line["why"] for line in ended.lines("step", "skip")] == ["the workload had ended"]


def at(pulls: Sequence[tuple[float, str, str, str]], what: str, fault: str) -> float:
    """When a fault was applied or undone, which happened once."""
    (at_s,) = {each[0] for each in pulls if each[1:3] == (what, fault)}
    return at_s


def test_a_step_begins_at_its_time_and_is_healed_with_the_workload(stage: Stage) -> None:
    staged = stage(kill("one", at_s=7.5), ends_s=20)
    assert staged.run() == [
        (7.5, "apply", "one", "b1"),
        (pytest.approx(20, abs=TICK_S), "undo", "one", "b1"),
    ]
    (step,) = staged.lines("step")
    assert (step["nodes"], step["met"], step["why"]) == (["b1"], None, "")


def test_a_step_begins_after_s_later(stage: Stage) -> None:
    pulls = stage(kill("one", at_s=3, after_s=4), kill("two", after_s=2)).run()
    assert at(pulls, "apply", "one") == 7
    assert at(pulls, "apply", "two") == 9


def test_steps_begin_in_the_order_of_the_plan(stage: Stage) -> None:
    """A time that has passed already is now, not never, and no step overtakes another."""
    pulls = stage(kill("late", when=NO_LEADER, within_s=9), kill("early", at_s=2)).run()
    assert [pull[2] for pull in pulls if pull[1] == "apply"] == ["late", "early"]
    assert at(pulls, "apply", "early") == at(pulls, "apply", "late") > 8.9


def test_a_step_that_waits_begins_when_its_condition_holds(stage: Stage) -> None:
    staged = stage(kill("one", when=NO_LEADER, after_s=1.5), leaderless_s=(4, 30))
    assert at(staged.run(), "apply", "one") == pytest.approx(5.5, abs=TICK_S)
    (step,) = staged.lines("step")
    assert step["met"] is True
    assert step["why"] == ": 'no leader' held after 4.0 s"


@pytest.mark.parametrize("otherwise", ["continue", "skip"])
def test_a_condition_that_never_holds_is_waited_for_no_longer_than_within_s(
    stage: Stage, otherwise: str
) -> None:
    steps = kill("one", when=NO_LEADER, within_s=6, **{"else": otherwise}), kill("two")
    staged = stage(*steps)
    pulls = staged.run()
    assert at(pulls, "apply", "two") == pytest.approx(6, abs=2 * TICK_S)
    if otherwise == "continue":
        assert at(pulls, "apply", "one") == at(pulls, "apply", "two")
        (step, _) = staged.lines("step")
        assert step["met"] is False
        assert step["why"] == ": 'no leader' did not hold after 6.0 s"
    else:
        assert not [pull for pull in pulls if pull[2] == "one"]
        (skip,) = staged.lines("skip")
        assert (skip["fault"], skip["nemesis"], skip["met"]) == ("one", "kill", False)
        assert skip["why"] == "'no leader' did not hold after 6.0 s"


def test_a_condition_that_held_before_it_was_waited_for_is_no_answer(stage: Stage) -> None:
    """What counts is the situation while the step waits."""
    staged = stage(kill("one", at_s=10), kill("two", when=NO_LEADER), leaderless_s=(2, 9))
    staged.run()
    assert [step["met"] for step in staged.lines("step")] == [None, False]


def test_a_condition_looks_back_to_the_last_fault(stage: Stage) -> None:
    """The controller has moved since `one` began at 5 s, and not since `two` did at 20 s."""
    moved = {"when": "controller moved", "within_s": 2}
    staged = stage(
        kill("one", at_s=5), kill("then", **moved, after_s=10), kill("two", at_s=20),
        kill("since", **moved), moves_s=6,
    )  # fmt: skip
    staged.run()
    assert [step["met"] for step in staged.lines("step")] == [None, True, None, False]


def test_a_fault_with_a_length_is_healed_while_later_steps_are_waited_for(stage: Stage) -> None:
    steps = (
        kill("short", at_s=2, for_s=3),
        kill("long", at_s=3, for_s=12, nodes="node:b2"),
        kill("waits", when=NO_LEADER, within_s=8, nodes="node:b3"),
        kill("last", at_s=20),
    )
    pulls = stage(*steps, ends_s=40).run()
    assert at(pulls, "undo", "short") == pytest.approx(5, abs=2 * TICK_S)
    assert at(pulls, "apply", "waits") == pytest.approx(11, abs=2 * TICK_S)
    assert at(pulls, "undo", "long") == pytest.approx(15, abs=2 * TICK_S)
    assert at(pulls, "apply", "last") == 20
    assert at(pulls, "undo", "waits") == pytest.approx(40, abs=TICK_S)


@pytest.mark.parametrize(("probe_s", "held_s"), [(0, 5), (1, 5), (4, 7)])
def test_a_length_is_counted_from_when_the_acts_were_applied(
    stage: Stage, probe_s: float, held_s: float
) -> None:
    """The first probe is a part of it; the last one begins when it is over, or when the first has
    ended."""
    staged = stage(kill("one", at_s=3, for_s=2), probe_s=probe_s, ends_s=40)
    pulls = staged.run()
    begun_s = [at_s for at_s, _, applied in staged.lever.probes if applied]
    assert begun_s == pytest.approx([3, held_s], abs=2 * TICK_S)
    assert at(pulls, "undo", "one") == pytest.approx(held_s + probe_s, abs=2 * TICK_S)


def test_a_fault_that_could_not_be_applied_is_undone_after_its_length(stage: Stage) -> None:
    staged = stage(kill("one", at_s=3, for_s=2), broken=["apply one"], ends_s=40)
    assert at(staged.run(), "undo", "one") == pytest.approx(5, abs=2 * TICK_S)


def heal(name: str, what: Any, **how: Any) -> dict[str, Any]:
    return {"id": name, "heal": what, **how}


def test_a_heal_step_heals_the_faults_it_names_and_no_other(stage: Stage) -> None:
    steps = (
        kill("one"), kill("two", nodes="node:b2"), kill("three", nodes="node:b3"),
        heal("mend", ["three", "one"], at_s=5),
    )  # fmt: skip
    staged = stage(*steps, ends_s=30)
    pulls = staged.run()
    assert [pull[2] for pull in pulls if pull[1] == "undo"] == ["three", "one", "two"]
    assert at(pulls, "undo", "one") == 5
    assert at(pulls, "undo", "two") == pytest.approx(30, abs=TICK_S)
    (line,) = staged.lines("heal")
    assert (line["step"], line["faults"], line["met"]) == ("mend", ["one", "three"], None)


def test_a_heal_step_may_heal_all_that_is_in_force_the_latest_first(stage: Stage) -> None:
    steps = kill("one", for_s=2), kill("two", nodes="node:b2"), kill("three"), heal("x", "all")
    staged = stage(*steps[:3], {**steps[3], "at_s": 6})
    pulls = staged.run()
    assert [pull[2] for pull in pulls if pull[1] == "undo"] == ["one", "three", "two"]
    assert staged.lines("heal")[0]["faults"] == ["two", "three"]


def test_what_a_heal_step_has_healed_is_not_healed_again_when_its_length_is_over(
    stage: Stage,
) -> None:
    """The same fault may be in force again by then, as another step's."""
    steps = kill("one", for_s=20), heal("mend", ["one"], at_s=4)
    staged = stage(*steps)
    assert at(staged.run(), "undo", "one") == 4
    assert len(staged.lines("healed")) == 1
    assert not staged.schedule._heal_at_ns


def test_a_heal_step_waits_for_its_condition(stage: Stage) -> None:
    staged = stage(
        kill("one"), heal("mend", "all", when=NO_LEADER, after_s=1), leaderless_s=(6, 60)
    )
    assert at(staged.run(), "undo", "one") == pytest.approx(7, abs=2 * TICK_S)
    assert staged.lines("heal")[0]["met"] is True


def test_a_heal_step_that_is_skipped_heals_nothing(stage: Stage) -> None:
    skipped = heal("mend", "all", when=NO_LEADER, within_s=1, **{"else": "skip"})
    staged = stage(kill("one"), skipped, ends_s=30)
    assert at(staged.run(), "undo", "one") == pytest.approx(30, abs=TICK_S)
    assert not staged.lines("heal", "skip")


def test_a_repeated_step_is_as_many_steps(stage: Stage) -> None:
    step = kill("r", at_s=2, for_s=1, repeat={"times": 3, "every_s": 5}, nodes="broker({n})")
    pulls = stage(step).run()
    assert [pull for pull in pulls if pull[1] == "apply"] == [
        (2, "apply", "r-1", "b1"), (7, "apply", "r-2", "b2"), (12, "apply", "r-3", "b3"),
    ]  # fmt: skip
    assert [pull[0] for pull in pulls if pull[1] == "undo"] == pytest.approx(
        [3, 8, 13], abs=2 * TICK_S
    )


@pytest.mark.parametrize(
    "waiting", [{"at_s": 50}, {"at_s": 5, "after_s": 50}, {"when": NO_LEADER, "within_s": 50}]
)
def test_a_step_that_waits_when_the_workload_ends_is_skipped(
    stage: Stage, waiting: dict[str, Any]
) -> None:
    staged = stage(kill("one", at_s=1), kill("two", **waiting), kill("three"), ends_s=10)
    pulls = staged.run()
    assert {pull[2] for pull in pulls} == {"one"}
    assert at(pulls, "undo", "one") == pytest.approx(10, abs=2 * TICK_S)
    skipped = [(skip["fault"], skip["why"]) for skip in staged.lines("skip")]
    assert skipped == [("two", "the workload had ended"), ("three", "the workload had ended")]


def test_leaving_the_context_ends_a_schedule_and_heals_all(stage: Stage) -> None:
    staged = stage(kill("one"), kill("two", when=NO_LEADER, within_s=3600), ends_s=1e9)
    with staged.schedule.running():
        assert staged.lever.pulled.wait(30)
    assert staged.time.is_set()
    assert staged.time.now_ns() < staged.time.ends_ns
    applied, undone = (
        [pull[2] for pull in staged.lever.pulls if pull[1] == what] for what in ("apply", "undo")
    )
    assert applied[0] == "one"
    assert sorted(applied) == sorted(undone)


def test_a_failure_is_raised_once_and_all_is_healed(stage: Stage) -> None:
    """The second step's nemesis raises when it is asked what to do."""
    staged = stage(kill("one"), kill("two", at_s=2, also="nonsense("), ends_s=20)
    with pytest.raises(HarnessFailure, match="is not a selector"):
        staged.run()
    assert [pull[1:3] for pull in staged.lever.pulls] == [("apply", "one"), ("undo", "one")]
    staged.schedule.finish()  # nothing is left to be raised


def test_a_fault_that_cannot_be_undone_is_a_failure_and_the_others_are_undone(
    stage: Stage,
) -> None:
    staged = stage(
        kill("one"), kill("two", nodes="node:b2"), kill("three", nodes="node:b3"),
        ends_s=10, broken=("undo two",),
    )  # fmt: skip
    with pytest.raises(HarnessFailure, match="cannot undo two"):
        staged.run()
    assert {pull[2] for pull in staged.lever.pulls if pull[1] == "undo"} == {"one", "three"}


def test_the_first_failure_is_the_one_that_is_raised(stage: Stage) -> None:
    """Healing fails in the middle, and again at the end."""
    steps = kill("one"), kill("two"), heal("mend", ["two"], at_s=3), kill("three", at_s=5)
    staged = stage(*steps, ends_s=10, broken=("undo one", "undo two"))
    with pytest.raises(HarnessFailure, match="cannot undo two"):
        staged.run()
    assert not [pull for pull in staged.lever.pulls if pull[2] == "three"]


def test_a_fault_that_cannot_be_applied_does_not_stop_the_schedule(stage: Stage) -> None:
    staged = stage(kill("one"), kill("two", at_s=4), broken=("apply one",))
    assert at(staged.run(), "apply", "two") == 4
    assert [line["error"] for line in staged.lines("failed")] == ["cannot apply one"]


def test_the_same_seed_draws_the_same_nodes_whatever_came_before(stage: Stage) -> None:
    """A draw belongs to the seed and the step, not to how many draws there were before it."""

    def drawn(*before: Mapping[str, Any], seed: int = 7) -> list[str]:
        staged = stage(*before, kill("x", at_s=5, nodes="random"), seed=seed)
        return [pull[3] for pull in staged.run() if pull[1:3] == ("apply", "x")]

    alone = drawn()
    assert drawn() == alone
    assert drawn(kill("y", nodes="random"), kill("z", nodes="majority")) == alone
    assert len({tuple(drawn(seed=seed)) for seed in range(6)}) > 1


def test_a_step_meets_what_an_earlier_one_has_met(stage: Stage) -> None:
    steps = kill("one", nodes="one", for_s=1), kill("two", at_s=3, nodes="same:one")
    pulls = stage(*steps, seed=3).run()
    met = {pull[2]: pull[3] for pull in pulls if pull[1] == "apply"}
    assert met["one"] == met["two"]


def test_a_nemesis_can_choose_further_nodes(stage: Stage) -> None:
    staged = stage(kill("one", nodes="leader", also="all - leader"))
    pulls = [pull[3] for pull in staged.run() if pull[1] == "apply"]
    assert sorted(pulls) == ["b1", "b2", "b3"]
    assert staged.lines("step")[0]["nodes"] == ["b1"]


def rolled(name: str, *, roll: bool = True, **how: Any) -> dict[str, Any]:
    return {"id": name, "nemesis": "kill", "nodes": "all", "roll": roll, **how}


def applied(pulls: Sequence[tuple[float, str, str, str]]) -> list[tuple[str, str]]:
    return [(fault, node) for _, what, fault, node in pulls if what == "apply"]


def test_a_roll_goes_from_node_to_node_once_all_has_recovered(stage: Stage) -> None:
    """Answers are of the last three seconds, and must have been so for one."""
    pulls = stage(rolled("r", at_s=5)).run()
    assert applied(pulls) == [("r", name) for name in NAMES]
    first, second, third = (at_s for at_s, what, *_ in pulls if what == "apply")
    assert (first, second, third) == pytest.approx((6, 10, 14), abs=3 * TICK_S)
    assert [round(at_s) for at_s, what, *_ in pulls if what == "undo"] == [18] * 3


def test_a_roll_waits_for_a_node_that_does_not_answer_and_for_replicas(stage: Stage) -> None:
    for trouble in ({"silent_s": (7, 30)}, {"leaderless_s": (7, 30)}):
        times = [p[0] for p in stage(rolled("r", at_s=5), **trouble).run() if p[1] == "apply"]
        assert times == pytest.approx([6, 31, 35], abs=4 * TICK_S)


def test_faults_meet_a_roll_and_the_next_roll_waits_for_its_end(stage: Stage) -> None:
    staged = stage(rolled("one", at_s=5), kill("k", after_s=3, for_s=2), rolled("two", roll=False))
    assert applied(staged.run()) == [
        ("one", "b1"),
        ("k", "b1"),
        *(("one", name) for name in NAMES[1:]),
        *(("two", name) for name in NAMES),
    ]
    pulls = staged.lever.pulls
    assert at(pulls, "undo", "k") == pytest.approx(10, abs=3 * TICK_S)
    assert at(pulls, "undo", "one") < at(pulls, "apply", "two")  # all three at one time
    assert all(window.proven for window in windows(staged.path))


def test_what_stays_is_in_force_before_its_acts_have_ended(stage: Stage) -> None:
    """A node that took long to stop was stopped under load, though the load ended meanwhile."""
    for step, began_s in ((rolled("r", at_s=5), 6), (kill("k", at_s=5), 15)):
        staged = stage({**step, "nodes": "node:b1"}, apply_s=10, ends_s=12)
        staged.run()
        (window,) = windows(staged.path)
        assert window.from_s == pytest.approx(began_s, abs=3 * TICK_S)


def test_a_roll_that_is_not_done_when_the_load_ends_is_not_proven(stage: Stage) -> None:
    staged = stage(rolled("r", at_s=5), ends_s=12)
    assert applied(staged.run()) == [("r", "b1"), ("r", "b2")]
    (window,) = windows(staged.path)
    assert not window.proven
    assert "b3: the load ended before its turn" in window.evidence

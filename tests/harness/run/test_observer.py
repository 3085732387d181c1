"""What many nodes' answers amount to: the epoch first, then an authority, then how many say so;
and the watching itself, in virtual time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from harness.history.metrics import Sample
from harness.plan import parse_plan
from harness.protocols import NodeView, PartitionView
from harness.protocols.clock import RunClock
from harness.run.observer import Observer, Watched, merge
from tests.fixtures.bare_target import BareTarget
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.virtual_time import S, VirtualTime

NO_EPOCH = -1
PLAN = parse_plan({"schema": 1, "name": "watched"})


def said(who: str, leader: str | None, epoch: int, *, authority: bool = False) -> NodeView:
    view = PartitionView(partition=0, leader=leader, leader_epoch=epoch, members=("b1", "b2"))
    return NodeView(answered_by=who, partitions=(view,), authority=authority)


def leader(*views: NodeView) -> str | None:
    """Each reported later than the one before."""
    return merge(9, list(enumerate(views))).partitions[0].leader


def test_an_authority_wins_over_many_that_tell_the_same_epoch() -> None:
    reported = (said("z1", "b2", 3, authority=True), said("b1", "b1", 3), said("b3", "b1", 3))
    assert leader(*reported) == "b2"
    assert leader(*reversed(reported)) == "b2"
    assert leader(said("z1", None, 3, authority=True), said("b1", "b1", 3)) is None


def test_a_higher_epoch_wins_over_an_authority() -> None:
    """A ZooKeeper server may lag behind the others."""
    assert leader(said("b1", "b1", 4), said("z1", "b2", 3, authority=True)) == "b1"


def test_brokers_that_tell_no_epoch_do_not_outvote_it() -> None:
    reported = (said("b1", "b1", NO_EPOCH), said("b2", "b1", NO_EPOCH))
    assert leader(said("z1", "b2", 0, authority=True), *reported) == "b2"
    assert leader(*reported) == "b1"


def test_among_authorities_most_win_then_the_latest() -> None:
    one, two = (said(who, "b1", 3, authority=True) for who in ("z1", "z2"))
    other = said("z3", "b2", 3, authority=True)
    assert leader(one, two, other) == "b1"
    assert leader(one, other) == "b2"
    assert leader(other, one) == "b1"


def test_who_reports_the_same_leader_with_other_members_backs_it() -> None:
    """As in a stored run of RabbitMQ: a server that was cut off led as well, and its answer came
    last; one of the two others had not noticed yet that it was gone."""
    one, other = (said(who, who, 0, authority=True) for who in ("n1", "n3"))
    (seen,) = said("n2", "n1", 0).partitions
    smaller = NodeView(answered_by="n2", partitions=(replace(seen, members=("n1",)),))
    assert leader(one, smaller, other) == "n1"
    assert leader(one, other) == "n3"


def test_the_highest_controller_epoch_tells_who_controls() -> None:
    reported = (
        NodeView(answered_by="b1", controller="c2", controller_epoch=4),
        NodeView(answered_by="b2", controller="c1", controller_epoch=5),
        NodeView(answered_by="b3"),
    )
    situation = merge(9, list(enumerate(reported)))
    assert situation.controller == "c1"
    assert situation.answered == {"b1", "b2", "b3"}
    assert (situation.time_ns, dict(situation.partitions)) == (9, {})
    assert merge(9, []).controller is None


@dataclass
class Answering(BareTarget):
    """Nodes that answer by a script: each of its answers in turn, then no more."""

    scripts: dict[str, list[NodeView | None]]
    time: VirtualTime
    takes_s: float = 0

    def observe(self, node: Any, plan: object, *, timeout_s: float) -> NodeView | None:
        script = self.scripts[node.name]
        answer = script.pop(0) if script and self.takes_s <= timeout_s else None
        self.time.passed_ns += round((self.takes_s if answer else timeout_s) * S)
        return answer


def watched(ends_s: float, **scripts: list[NodeView | None]) -> tuple[Observer, list[Any]]:
    """An observer after it has watched each of these nodes, one after the other, in virtual
    time; and the rows that it wrote."""
    time, rows = VirtualTime(ends_s=ends_s), []
    nodes = {name: DryRunNode(name, frozenset({"broker"}), "198.18.0.11") for name in scripts}
    observer = Observer(
        Answering(scripts, time), nodes, [Watched(PLAN, rows.extend)], clock=time, _stop=time
    )
    for number, node in enumerate(nodes.values(), start=1):
        time.clear()
        time.ends_ns = round(number * ends_s * S)
        observer._watch(node)
    return observer, rows


def test_every_answer_is_written_down_as_it_was_given() -> None:
    reported = NodeView(
        answered_by="b1",
        partitions=said("b1", "b1", 3).partitions,
        controller="c1",
        controller_epoch=7,
    )
    observer, rows = watched(0.5, b1=[reported, None, said("b1", None, 4)])
    assert rows == [
        (0, "b1", 0, "b1", 3, ["b1", "b2"], None, None),
        (0, "b1", None, None, None, None, "c1", 7),
    ]
    _, rows = watched(2, b1=[reported, None, said("b1", None, 4)])
    assert rows[2:] == [(1_400_000_000, "b1", 0, None, 4, ["b1", "b2"], None, None)]
    assert observer.situation().partitions[0].leader == "b1"


@dataclass
class Measuring(BareTarget):
    """A node that reports these metrics in turn; an error is raised."""

    script: list[dict[str, float] | Exception]

    def metrics(self, node: Any, plan: object, *, timeout_s: float) -> Any:
        now = self.script.pop(0)
        if isinstance(now, Exception):
            raise now
        return now


def test_metrics_are_kept_as_what_has_changed() -> None:
    script = [{"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}, OSError("down"), {"a": 3.0}]
    time, node = VirtualTime(ends_s=1.9), DryRunNode("n1", frozenset(), "198.18.0.11")
    target, samples = Measuring([*script]), list[Sample]()
    observer = Observer(target, {"n1": node}, [Watched(PLAN)], clock=time, _stop=time)
    observer._sample(node, samples)
    assert [(each.time_ns / S, each.values, each.all) for each in samples] == [
        (0.0, {"a": 1.0, "b": 2.0}, False),
        (0.5, {}, False),
        (1.5, {"a": 3.0, "b": None}, False),
    ]


def test_what_is_reported_late_was_so_when_the_run_began() -> None:
    """Or else a rule about all nodes together would see only some of them."""
    time, node = VirtualTime(ends_s=1.2), DryRunNode("n1", frozenset(), "198.18.0.11")
    time.passed_ns = round(0.9 * S)
    samples = list[Sample]()
    observer = Observer(
        Measuring([{"a": 1.0}]), {"n1": node}, [Watched(PLAN)], clock=time, _stop=time
    )
    observer._sample(node, samples)
    assert [(each.time_ns / S, each.values) for each in samples] == [
        (0.0, {"a": 1.0}),
        (0.9, {"a": 1.0}),
    ]


def test_a_node_is_asked_five_times_a_second() -> None:
    _, rows = watched(1, b1=[said("b1", "b1", 3)] * 20)
    assert [row[0] for row in rows] == [at * 200_000_000 for at in range(5)]


@dataclass
class Patient(Answering):
    observed_within_s = 3.0


@pytest.mark.parametrize(("system", "seen"), [(Answering, 0), (Patient, 4)])
def test_a_node_has_the_time_that_its_system_needs(system: type[Answering], seen: int) -> None:
    """A server that asks one that is cut off waits for it, and knows who leads all the same."""
    time, rows = VirtualTime(ends_s=5), list[Any]()
    target = system({"b1": [said("b1", "b1", 3)] * 20}, time, takes_s=1.2)
    node = DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")
    Observer(target, {}, [Watched(PLAN, rows.extend)], clock=time, _stop=time)._watch(node)
    assert len(rows) == seen


def test_an_answer_counts_for_three_seconds_and_no_longer() -> None:
    observer, _ = watched(0.1, b1=[said("b1", "b1", 3)])
    for passed_ns, known in ((2_999_999_999, True), (3_000_000_000, False)):
        observer.clock.passed_ns = passed_ns
        situation = observer.situation()
        assert situation.time_ns == passed_ns
        assert bool(situation.partitions) is known
        assert situation.answered == ({"b1"} if known else set())


def test_only_the_latest_answer_of_a_node_counts() -> None:
    """A broker that has heard of nothing since may not be outvoted by its own past."""
    observer, _ = watched(0.5, b1=[said("b1", "b1", 5), said("b1", "b2", 4)])
    assert observer.situation().partitions[0].leader == "b2"


def test_a_node_that_stops_answering_is_believed_for_three_seconds_more() -> None:
    observer, _ = watched(2, b1=[said("b1", "b1", 3)], b2=[said("b2", "b2", 2)])
    for now_s, leader in ((2.9, "b1"), (3, "b2")):  # b1 answered at 0 s, b2 at 2 s
        observer.clock.passed_ns = round(now_s * S)
        assert observer.situation().partitions[0].leader == leader


def test_it_observes_while_it_is_entered_and_no_longer() -> None:
    """Real threads: one for each node, of which one that never answers delays no other."""
    written = threading.Event()
    stuck, freed = threading.Event(), threading.Event()

    class Slow(BareTarget):
        def observe(self, node: Any, plan: object, *, timeout_s: float) -> NodeView | None:
            if node.name == "b2":
                stuck.set()
                freed.wait(10)
                return None
            return said(node.name, "b1", 1)

    nodes = {name: DryRunNode(name, frozenset({"broker"}), "198.18.0.11") for name in
             ("b1", "b2")}  # fmt: skip
    observer = Observer(Slow(), nodes, [Watched(PLAN, lambda _: written.set())], RunClock())
    with observer:
        assert stuck.wait(10)
        assert written.wait(10)
        assert observer.situation().answered == {"b1"}
        freed.set()
    assert not any(task.thread is None or task.thread.is_alive() for task in observer._tasks)
    assert len(observer._tasks) == 2


def test_it_is_idle_over_a_target_that_cannot_be_asked() -> None:
    nodes = {"b1": DryRunNode("b1", frozenset(), "198.18.0.11")}
    time, rows = VirtualTime(ends_s=1), []
    with Observer(BareTarget(), nodes, [Watched(PLAN, rows.extend)], clock=time) as observer:
        assert not observer.observes
        assert observer._tasks == []
    assert (dict(observer.situation().partitions), rows) == ({}, [])


@dataclass
class Answers(BareTarget):
    """A target that answers each query with the next of these, then with the last one again; an
    exception is raised. With several cells, all of them get it."""

    given: list[Any]
    time: VirtualTime
    asked: int = 0

    def observe(self, node: Any, plan: object, *, timeout_s: float) -> Any:
        self.asked += 1
        answer = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    cell_keys = ()

    def of_cell(self, plan: object, name: str, number: int) -> Any:
        return plan

    def observe_cells(self, node: Any, plans: Any, *, timeout_s: float) -> Any:
        answer = self.observe(node, plans, timeout_s=timeout_s)
        return answer if len(plans) > 1 else [answer]


def watch(*given: Any, cells: int = 1) -> tuple[Observer, list[Any], Answers]:
    """An observer after it has watched a node for a second, the rows, and the target."""
    time, rows = VirtualTime(ends_s=1), list[Any]()
    target = Answers(list(given), time)
    watched = [Watched(PLAN, rows.extend) for _ in range(cells)]
    nodes = {"b1": DryRunNode("b1", frozenset(), "198.18.0.11")}
    observer = Observer(target, nodes, watched, clock=time, _stop=time)
    observer._watch(nodes["b1"])
    return observer, rows, target


GOOD = said("b1", "b1", 3)


def odd(**changes: Any) -> NodeView:
    """A view with a partition that is none."""
    return replace(GOOD, partitions=(replace(GOOD.partitions[0], **changes),))


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (LookupError("no such node"), "LookupError: no such node"),
        ("b1 leads", "HarnessFailure: observe() returns ['b1 leads']: 0 should be an instance"),
        (replace(GOOD, answered_by=None), "0.answered_by should be a valid string"),
        (replace(GOOD, partitions=None), "0.partitions should be a valid tuple"),
        (odd(partition=True), "0.partitions.0.partition should be a valid integer"),
        (odd(replicas=(1,)), "0.partitions.0.replicas.0 should be a valid string"),
    ],
)
def test_what_is_no_view_is_no_answer_and_the_node_is_still_queried(view: Any, why: str) -> None:
    observer, rows, target = watch(view, GOOD)
    assert target.asked == 5
    assert len(rows) == 4, "of the good ones"
    assert observer.situation().partitions[0].leader == "b1"
    (sentence,) = observer.new_reports()
    assert sentence.startswith("b1 could not be observed at times: ")
    assert why in sentence
    assert observer.new_reports() == [], "once"


@pytest.mark.parametrize(
    ("views", "why"),
    [
        ([GOOD], "ValueError: zip() argument 2 is shorter than argument 1"),
        ([GOOD] * 3, "ValueError: zip() argument 2 is longer than argument 1"),
        (None, "TypeError: Value after * must be an iterable, not NoneType"),
    ],
)
def test_of_a_wrong_number_of_views_none_is_taken(views: Any, why: str) -> None:
    observer, rows, _ = watch(views, [GOOD, None], cells=2)
    assert len(rows) == 4
    assert observer.new_reports() == [f"b1 could not be observed at times: {why}"]


def test_rows_that_cannot_be_stored_do_not_end_the_observation() -> None:
    def refuse(_: object) -> None:
        raise pa.ArrowInvalid("no such column")

    time = VirtualTime(ends_s=1)
    nodes = {"b1": DryRunNode("b1", frozenset(), "198.18.0.11")}
    target = Answers([GOOD], time)
    observer = Observer(target, nodes, [Watched(PLAN, refuse)], clock=time, _stop=time)
    observer._watch(nodes["b1"])
    assert target.asked == 5
    assert observer.new_reports() == [
        "b1 could not be observed at times: ArrowInvalid: no such column"
    ]


def test_an_observation_that_ended_is_reported() -> None:
    """By what no answer may raise: a library that wants to end the process."""
    nodes = {name: DryRunNode(name, frozenset(), "198.18.0.11") for name in ("b1", "b2")}

    class Ending(BareTarget):
        def observe(self, node: Any, plan: object, *, timeout_s: float) -> NodeView | None:
            if node.name == "b2":
                raise SystemExit(3)
            return GOOD

    observer = Observer(Ending(), nodes, [Watched(PLAN)], RunClock())
    with observer:
        assert observer._tasks[1].join(10)
        assert observer.new_reports() == ["b2 was not observed to the end: SystemExit: 3"]
    assert observer.new_reports() == []


def test_of_the_ballast_changes_and_answers_are_written_down() -> None:
    time, rows = VirtualTime(ends_s=5), []
    first, later = (
        said("b1", leader, epoch).partitions for leader, epoch in (("b1", 3), ("b2", 4))
    )
    given = [first, (), None, later, OSError("gone"), ()]
    takes_s = [0, 0.1, 0, 0, 0, 0]

    def changes(*, timeout_s: float) -> Any:
        assert timeout_s > 0
        if not given:
            time.set()
            return None
        time.passed_ns += round(takes_s.pop(0) * S)
        answer = given.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    cell = Watched(PLAN, ballast=rows.extend)
    observer = Observer(BareTarget(), {}, [cell], clock=time, _stop=time)
    observer._watch_ballast("b1", changes)
    seen = [(row[0] / S, *row[1:5]) for row in rows]
    assert seen == [
        (0.0, "b1", 0, "b1", 3),
        (0.0, "b1", None, None, None),
        (pytest.approx(0.3), "b1", None, None, None),
        (pytest.approx(1.5), "b1", 0, "b2", 4),
        (pytest.approx(1.5), "b1", None, None, None),
        (pytest.approx(1.9), "b1", None, None, None),
    ]
    assert observer.failures == {"b1": "OSError: gone"}

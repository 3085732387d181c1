"""What the leadership lever asks for, what it makes of the answers, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from harness import registry
from harness.errors import HarnessFailure, PlanError
from harness.faults.records import LeadershipRecord
from harness.plan import parse_plan
from harness.protocols import PartitionView
from harness.run.preview import dry_run
from harness.run.resolving import resolve
from nemeses.planned_work import Membership
from targets.kafka.levers import LeadershipLever
from targets.kafka.target import Kafka
from tests.fixtures.dry_run import DryRunNode

PLAN = {
    "schema": 1,
    "name": "planned",
    "target": {"version": "4.3.1", "brokers": 3},
    "topic": {"partitions": 2, "replication_factor": 3},
    "faults": [
        {"id": "move", "at_s": 1, "nemesis": "membership", "nodes": "leader(0)"},
        {"id": "elect", "at_s": 2, "nemesis": "membership", "form": "elect", "nodes": "all"},
    ],
}


def led(partition: int, leader: str | None, replicas: str, isr: str | None = None) -> PartitionView:
    return PartitionView(
        partition=partition,
        leader=leader,
        leader_epoch=0,
        members=tuple(sorted((isr or replicas).split())),
        replicas=tuple(replicas.split()),
    )


@dataclass
class Topic:
    """A topic whose leaders move at once, and every request for it."""

    views: dict[int, PartitionView]
    asked: list[Any] = field(default_factory=list)

    def placements(self) -> Mapping[int, PartitionView]:
        return dict(self.views)

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        self.asked.append({n: " ".join(names) for n, names in wanted.items()})
        for n, names in wanted.items():
            self.views[n] = replace(self.views[n], replicas=tuple(names))

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        self.asked.append(list(partitions))
        refused = {}
        for n in partitions:
            view = self.views[n]
            if view.replicas[0] not in view.members:
                refused[n] = "PREFERRED_LEADER_NOT_AVAILABLE"
            elif view.leader != view.replicas[0]:
                self.lead(n, view.replicas[0])
        return refused

    def lead(self, n: int, leader: str) -> None:
        view = self.views[n]
        self.views[n] = replace(view, leader=leader, leader_epoch=view.leader_epoch + 1)


class Deaf(Topic):
    """A topic of which every request is granted, and none done."""

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        pass

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        return {}


class Unseen(Topic):
    """A topic that no broker reports."""

    def placements(self) -> Mapping[int, PartitionView]:
        raise HarnessFailure("no broker has reported the topic")


@pytest.fixture(autouse=True)
def seen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("targets.kafka.levers._SEEN_S", 0)


def three(kind: type[Topic] = Topic) -> Topic:
    return kind(
        {0: led(0, "b1", "b1 b2 b3"), 1: led(1, "b2", "b2 b3 b1"), 2: led(2, "b3", "b3 b1 b2")}
    )


def record(topic: Topic, nodes: str, form: str = "move") -> LeadershipRecord:
    chosen = [DryRunNode(name, frozenset({"broker"}), "") for name in nodes.split()]
    (act,) = Membership(form=form).acts(chosen, lambda _: [])  # type: ignore[arg-type]
    made: LeadershipRecord = replace(act.record, fault="x", seed=1)  # type: ignore[assignment]
    return LeadershipLever(topic).capture_prior_state(made)


def applied(
    topic: Topic, nodes: str, form: str = "move"
) -> tuple[LeadershipLever, LeadershipRecord]:
    """The lever, and the record of what it has done."""
    lever, asked = LeadershipLever(topic), record(topic, nodes, form)  # type: ignore[arg-type]
    lever.apply(asked)
    return lever, asked


def test_a_move_puts_the_leader_last_elects_the_next_and_is_put_back() -> None:
    topic = three()
    before = topic.placements()
    lever, asked = applied(topic, "b1")
    assert topic.asked == [{0: "b2 b3 b1"}, [0]]
    proof = lever.probe(asked, applied=True)
    assert proof.proven
    assert proof.evidence == [
        "partition 0: led by b1 (epoch 0, replicas b1,b2,b3) before, "
        "led by b2 (epoch 1, replicas b2,b3,b1) now"
    ]
    assert not lever.probe(asked, applied=False).proven
    topic.asked.clear()
    lever.undo(asked)
    lever.undo(asked)
    assert topic.asked == [{0: "b1 b2 b3"}, [0]]
    proof = lever.probe(asked, applied=False)
    assert proof.proven
    assert proof.evidence == ["partition 0: led by b1 (epoch 2, replicas b1,b2,b3) again"]
    assert topic.views == {**before, 0: replace(before[0], leader_epoch=2)}


def test_applied_twice_it_moves_once() -> None:
    lever, asked = applied(topic := three(), "b1")
    once = topic.placements()
    lever.apply(asked)
    assert topic.placements() == once


def test_what_was_never_moved_is_not_put_back() -> None:
    topic = three()
    LeadershipLever(topic).undo(record(topic, "b1"))
    assert topic.asked == []


def test_the_leaders_of_several_nodes_go_to_one_that_was_not_chosen() -> None:
    topic = three()
    LeadershipLever(topic).apply(record(topic, "b1 b2"))
    assert [view.leader for view in topic.views.values()] == ["b3", "b3", "b3"]
    assert topic.asked[0] == {0: "b3 b2 b1", 1: "b3 b1 b2"}


def test_a_leader_that_was_not_the_preferred_one_leads_again_in_the_old_order() -> None:
    topic = Topic({0: led(0, "b2", "b1 b2 b3")})
    lever, asked = applied(topic, "b2")
    assert topic.views[0].leader == "b1"
    lever.undo(asked)
    assert (topic.views[0].leader, topic.views[0].replicas) == ("b2", ("b1", "b2", "b3"))
    assert lever.probe(asked, applied=False).proven


def test_where_no_other_replica_is_in_sync_nothing_moves_and_nothing_is_proven() -> None:
    topic = Topic({0: led(0, "b1", "b1 b2 b3", isr="b1")})
    lever, asked = applied(topic, "b1")
    proof = lever.probe(asked, applied=True)
    assert not proof.proven
    assert proof.evidence[-1] == "no leader has changed"
    assert topic.views == {0: led(0, "b1", "b1 b2 b3", isr="b1")}


def test_an_old_leader_that_is_out_of_sync_leaves_the_undo_unproven_but_not_failed() -> None:
    topic = three()
    lever, asked = applied(topic, "b1")
    topic.views[0] = replace(topic.views[0], members=("b2", "b3"))
    lever.undo(asked)
    proof = lever.probe(asked, applied=False)
    assert not proof.proven
    assert "not as before: b1 is not in the ISR" in proof.evidence[0]
    assert topic.views[0].replicas == ("b1", "b2", "b3")


def test_an_order_that_another_fault_has_made_is_left_to_that_one() -> None:
    topic = three()
    lever, asked = applied(topic, "b1")
    another = record(topic, "b2")
    lever.apply(another)
    here = topic.views[0]
    lever.undo(asked)
    assert topic.views[0] == here
    proof = lever.probe(asked, applied=False)
    assert not proof.proven
    assert "replicas b1,b2,b3 are not back" in proof.evidence[0]
    for latest_first in (another, asked):
        lever.undo(latest_first)
        assert lever.probe(latest_first, applied=False).proven


def test_an_election_changes_who_leads_and_no_order() -> None:
    topic = three()
    topic.lead(0, "b3")
    lever, asked = applied(topic, "b1 b2 b3 c1", "elect")
    assert topic.asked == [[0, 1, 2]]
    proof = lever.probe(asked, applied=True)
    assert proof.proven
    assert "led by b3 (epoch 1, replicas b1,b2,b3) before, led by b1 (epoch 2" in proof.evidence[0]
    lever.undo(asked)
    assert topic.asked == [[0, 1, 2]]
    assert lever.probe(asked, applied=False).proven
    topic.views[2] = replace(topic.views[2], leader=None)
    assert not lever.probe(asked, applied=False).proven


def test_where_every_preferred_leader_led_there_was_nothing_to_elect() -> None:
    topic = three()
    lever, asked = applied(topic, "b1 b2 b3", "elect")
    proof = lever.probe(asked, applied=True)
    assert not proof.proven
    assert proof.evidence[-1] == "no leader has changed"


def test_an_election_that_is_refused_is_named() -> None:
    topic = Topic({0: led(0, "b2", "b1 b2 b3", isr="b2 b3")})
    with pytest.raises(HarnessFailure, match="partition 0: PREFERRED_LEADER_NOT_AVAILABLE"):
        LeadershipLever(topic).apply(record(topic, "b1", "elect"))


@pytest.mark.parametrize("form", ["move", "elect"])
def test_requests_that_do_nothing_are_found_out(form: str) -> None:
    topic = three(Deaf)
    topic.lead(1, "b1")
    lever, asked = applied(topic, "b1 b2", form)
    assert not lever.probe(asked, applied=True).proven


@pytest.mark.parametrize(
    ("form", "reported"), [("move", "leads no"), ("elect", "is the preferred leader of no")]
)
def test_a_node_that_leads_nothing_gives_nothing_to_move(form: str, reported: str) -> None:
    topic = Topic({0: led(0, "b1", "b1 b2")})
    lever, asked = applied(topic, "b3", form)
    proof = lever.probe(asked, applied=True)
    assert not proof.proven
    assert reported in proof.evidence[0]
    assert topic.asked == []


def test_a_topic_that_cannot_be_seen_is_not_touched() -> None:
    topic = three(Unseen)
    asked = record(topic, "b1")
    with pytest.raises(HarnessFailure, match="no broker has reported"):
        LeadershipLever(topic).apply(asked)
    assert not LeadershipLever(topic).probe(asked, applied=True).proven
    assert topic.asked == []


def test_a_dry_run_says_what_would_be_asked() -> None:
    move, elect = dry_run(resolve(parse_plan(PLAN)))["faults"]
    assert move["commands"] == ['b1: leadership (form = "move")']
    assert elect["commands"] == ['b1,b2,b3,c1,c2,c3: leadership (form = "elect")']


@dataclass(frozen=True)
class Leaderless(Kafka):
    """A target that can be resolved, and cannot move leaders."""

    plugin: ClassVar[str] = "leaderless"
    own_levers: ClassVar[frozenset[str]] = frozenset()


def test_a_target_that_cannot_move_leaders_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.plugins("targets"), "leaderless", Leaderless)
    plan = {**PLAN, "target": {**PLAN["target"], "system": "leaderless"}}
    why = r"needs the lever 'leadership', which neither .* nor leaderless offers"
    with pytest.raises(PlanError, match=why) as refused:
        resolve(parse_plan(plan))
    assert refused.value.key == "faults.move.nemesis"

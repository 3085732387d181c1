"""Which broker is asked to move leaders, how often, and what its errors become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsResponse, ElectLeadersResponse

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.plan import parse_plan
from targets.kafka import kraft
from targets.kafka.kraft import KraftLeadership
from tests.fixtures.dry_run import DryRunNode

NOT_CONTROLLER, UNAVAILABLE, NOT_NEEDED, REFUSED = 41, 80, 84, 31
PLAN = parse_plan({"schema": 1, "name": "x", "target": {"version": "4.3.1", "brokers": 3}})
TOPIC = KraftLeadership(
    {
        name: DryRunNode(name, frozenset({role}), name)
        for name, role in (("c1", "controller"), ("b1", "broker"), ("b2", "broker"))
    },
    PLAN,
)
Asked = list[tuple[str, Any]]


def reordered(error: int = 0, *, partition_error: int = 0) -> Any:
    kind = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    part = kind.ReassignablePartitionResponse(
        partition_index=1, error_code=partition_error, error_message="not there"
    )
    topic = kind(name="ackloss", partitions=[part])
    return AlterPartitionReassignmentsResponse[0](error_code=error, responses=[topic])


def elected(*errors: int) -> Any:
    kind = ElectLeadersResponse.ReplicaElectionResult
    parts = [
        kind.PartitionResult(partition_id=n, error_code=error) for n, error in enumerate(errors)
    ]
    result = kind(topic="ackloss", partition_result=parts)
    return ElectLeadersResponse[2](error_code=0, replica_election_results=[result])


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asked]:
    """Brokers that give these answers, one after the other, the last for ever."""

    def begin(*answers: Any) -> Asked:
        asked: Asked = []

        def ask(address: str, port: int, request: Any, *, timeout_s: float) -> Any:
            asked.append((address, request))
            answer = answers[min(len(asked), len(answers)) - 1]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(kraft, "ask", ask)
        return asked

    monkeypatch.setattr(kraft, "LEADERS_S", 0.5)
    return begin


def test_brokers_are_asked_in_turn_until_one_has_an_answer(
    answering: Callable[..., Asked],
) -> None:
    asked = answering(NoAnswer("refused"), reordered(NOT_CONTROLLER), reordered())
    TOPIC.reorder({1: ["b2", "b1"]})
    assert [address for address, _ in asked] == ["b1", "b2", "b1"]
    (topic,) = asked[0][1].topics
    assert topic.name == PLAN.topic.name
    assert [(p.partition_index, p.replicas) for p in topic.partitions] == [(1, [2, 1])]


def test_it_gives_up_in_time_and_names_the_error(answering: Callable[..., Asked]) -> None:
    asked = answering(reordered(NOT_CONTROLLER))
    with pytest.raises(HarnessFailure, match=r"within 0\.5 s: b2: NOT_CONTROLLER"):
        TOPIC.reorder({1: ["b2", "b1"]})
    assert 2 < len(asked) < 30


def test_a_refusal_is_not_asked_for_again(answering: Callable[..., Asked]) -> None:
    asked = answering(reordered(REFUSED))
    with pytest.raises(HarnessFailure, match="b1: CLUSTER_AUTHORIZATION_FAILED"):
        TOPIC.reorder({1: ["b2", "b1"]})
    assert len(asked) == 1
    answering(reordered(partition_error=3))
    with pytest.raises(HarnessFailure, match=r"partition 1: .* UNKNOWN_TOPIC_OR_PARTITION: not"):
        TOPIC.reorder({1: ["b2", "b1"]})


def test_a_leader_that_leads_already_is_no_refusal(answering: Callable[..., Asked]) -> None:
    asked = answering(elected(0, NOT_NEEDED, UNAVAILABLE))
    assert TOPIC.elect([0, 1, 2]) == {2: "PREFERRED_LEADER_NOT_AVAILABLE"}
    (_, request) = asked[0]
    assert request.election_type == 0
    assert [(t.topic, t.partitions) for t in request.topic_partitions] == [
        (PLAN.topic.name, [0, 1, 2])
    ]

"""Cells on Kafka: a broker is asked once about the topics of all, and each sees its own."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.plan import parse_plan
from harness.protocols import CLIENT_ROLE
from harness.run.resolving import resolve
from targets.kafka import brokers
from targets.kafka.target import Kafka
from tests.fixtures.dry_run import DryRunNode

CELLS = [{"name": "a"}, {"name": "b", "topic": {"settings": {"min.insync.replicas": 2}}}]
PLANS: list[Any] = [
    cell.plan
    for cell in resolve(
        parse_plan({"schema": 1, "name": "x", "target": {"version": "4.3.1"}, "cells": CELLS})
    ).cells
]
BROKER = DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")


def answer(*topics: tuple[str, int, int]) -> Any:
    """What a broker says of topics: name, leader, leader epoch."""
    kind = MetadataResponse.MetadataResponseTopic
    return MetadataResponse[12](
        throttle_time_ms=0,
        brokers=[],
        cluster_id="c",
        controller_id=1,
        topics=[
            kind(
                error_code=0,
                name=name,
                is_internal=False,
                partitions=[
                    kind.MetadataResponsePartition(
                        error_code=0,
                        partition_index=0,
                        leader_id=leader,
                        leader_epoch=epoch,
                        replica_nodes=[1, 2, 3],
                        isr_nodes=[leader],
                        offline_replicas=[],
                    )
                ],
            )
            for name, leader, epoch in topics
        ],
    )


def observed(monkeypatch: pytest.MonkeyPatch, reported: Any) -> tuple[list[Any], list[Any]]:
    """The view of each cell, and the requests that were made for them."""
    asked: list[Any] = []

    def ask(address: str, port: int, request: Any, **_: Any) -> Any:
        asked.append(request)
        if isinstance(reported, Exception):
            raise reported
        return reported

    monkeypatch.setattr(brokers, "ask", ask)
    return Kafka().observe_cells(BROKER, PLANS, timeout_s=1), asked


def test_a_broker_is_asked_once_and_each_cell_sees_its_own_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported = answer(("ackloss-b", 2, 7), ("other", 3, 1), ("ackloss-a", 1, 4))
    views, asked = observed(monkeypatch, reported)
    assert [(v.partitions[0].leader, v.partitions[0].leader_epoch) for v in views] == [
        ("b1", 4),
        ("b2", 7),
    ]
    (request,) = asked
    assert [topic.name for topic in request.topics] == ["ackloss-a", "ackloss-b"]


def test_a_topic_that_a_broker_does_not_know_has_no_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views, _ = observed(monkeypatch, answer(("ackloss-a", 1, 4)))
    assert [len(view.partitions) for view in views] == [1, 0]


def test_a_broker_that_does_not_answer_says_nothing_of_any_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert observed(monkeypatch, NoAnswer("gone"))[0] == [None, None]


def test_a_clients_node_reports_nothing_with_one_cell_as_with_several() -> None:
    node = DryRunNode("c1", frozenset({CLIENT_ROLE}), "198.18.0.12")
    assert Kafka().observe_cells(node, PLANS, timeout_s=1) == [None, None]
    assert Kafka().observe(node, PLANS[0], timeout_s=1) is None


def test_a_first_leader_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PlanError, match="there is no broker 4") as refused:
        parse_plan({"schema": 1, "name": "x", "topic": {"first_leader": 4}})
    assert refused.value.key == "topic.first_leader"

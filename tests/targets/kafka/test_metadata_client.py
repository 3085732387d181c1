"""How changes of metadata end, from a broker that does what it refuses, and what plans may ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from harness.errors import PlanError
from harness.plan.parsing import parse_plan
from harness.protocols import FAIL, INFO, OK, invoke
from harness.servers import Moving
from targets.kafka.clients import metadata
from targets.kafka.plan import KafkaPlan
from targets.kafka.target import Kafka
from tests.fixtures import fake_kafka as fake
from tests.fixtures.fake_kafka import FakeKafka, fake_kafka, own_host

ADMIN = (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)


@dataclass
class Admin(FakeKafka):
    """It does every change, and answers it with the next of `codes`."""

    codes: list[int] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def answer(self, request: Any, version: int) -> Any:
        if not isinstance(request, ADMIN):
            return super().answer(request, version)
        self.done.append(type(request).__name__.removesuffix("Request"))
        code = self.codes.pop(0) if self.codes else 0
        answers: dict[str, Callable[..., Any]] = {
            "CreateTopics": lambda: CreateTopicsResponse[version](
                topics=[CreateTopicsResponse.CreatableTopicResult(error_code=code)]
            ),
            "DeleteTopics": lambda: DeleteTopicsResponse[version](
                responses=[DeleteTopicsResponse.DeletableTopicResult(error_code=code)]
            ),
            "CreatePartitions": lambda: CreatePartitionsResponse[version](
                results=[CreatePartitionsResponse.CreatePartitionsTopicResult(error_code=code)]
            ),
            "IncrementalAlterConfigs": lambda: IncrementalAlterConfigsResponse[version](
                responses=[
                    IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(error_code=code)
                ]
            ),
        }
        return answers[self.done[-1]]()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Admin]:
    monkeypatch.setattr(fake, "_KINDS", fake._KINDS | {kind.API_KEY: kind for kind in ADMIN})
    with fake_kafka(Admin, host=own_host()) as broker:
        monkeypatch.setattr(metadata, "BROKER_PORT", broker.port)
        assert isinstance(broker, Admin)
        yield broker


def plan_of(target: str = "", **workload: Any) -> KafkaPlan:
    document: dict[str, Any] = {
        "schema": 1,
        "name": "x",
        "target": {"version": "3.9.2", "metadata": target or "kraft"},
        "workload": {"name": "metadata", "clients": 3, "processes": 3, **workload},
    }
    plan = parse_plan(document)
    assert isinstance(plan, KafkaPlan)
    return plan


def ended(broker: Admin, *codes: int, f: str, key: str, value: int, target: str = "") -> Any:
    """How an operation ends that is answered with these codes, and by what."""
    broker.codes[:], broker.done[:] = codes, []
    plan, at = plan_of(target), {"b1": broker.host}
    client = Moving(lambda _: metadata.MetadataClient("b1", at, plan), [("b1", broker.host)])
    type_, _, error, node, _ = client.call(invoke(f, value, key=key))
    client.close()
    assert node == "b1"
    return type_, error


def test_every_row_of_both_tables_and_no_other_code_is_a_failure(broker: Admin) -> None:
    for target, table in (("", metadata.FORWARDED), ("zookeeper", metadata.DIRECT)):
        proofs = {row.code: row.name for row in table}
        for code in range(1, 60):
            said = ended(broker, code, f="delete", key="topic-1", value=5, target=target)
            assert said[0] == (FAIL if code in proofs else INFO), code
            assert code not in proofs or said[1] == proofs[code]


def test_a_topic_that_is_not_there_is_created_and_nothing_else_is_sent_twice(broker: Admin) -> None:
    assert ended(broker, 3, 0, f="write", key="topic-1", value=5) == (OK, None)
    assert broker.done == ["IncrementalAlterConfigs", "CreateTopics"]
    assert ended(broker, 3, 36, f="write", key="topic-1", value=5) == (
        INFO,
        "TOPIC_ALREADY_EXISTS",
    )
    assert ended(broker, 7, f="write", key="topic-1", value=5) == (INFO, "REQUEST_TIMED_OUT")
    assert broker.done == ["IncrementalAlterConfigs"]
    assert ended(broker, f="write", key="partitions-1", value=1) == (OK, None)
    assert ended(broker, f="write", key="partitions-1", value=2) == (OK, None)
    assert broker.done == ["CreatePartitions"]


def test_a_broker_that_is_not_reached_was_sent_nothing() -> None:
    plan, at = plan_of(), {"b1": own_host()}
    client = Moving(lambda _: metadata.MetadataClient("b1", at, plan), [("b1", at["b1"])])
    assert client.call(invoke("delete", 1, key="topic-1"))[:3] == (FAIL, None, "NotConnected")


@pytest.mark.parametrize(
    ("workload", "key"),
    [
        ({"client": "java"}, "workload.client"),
        ({"producer": {"acks": "all"}}, 'workload.producer."acks"'),
        ({"producer": {"request.timeout.ms": 5}}, 'workload.producer."request.timeout.ms"'),
        ({"clients": 2}, "workload.clients"),
        ({"processes": 2}, "workload.processes"),
        ({"name": "register"}, "workload.options.cas_share"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_key(workload: dict[str, Any], key: str) -> None:
    with pytest.raises(PlanError) as refused:
        Kafka().check(plan_of(**workload))
    assert refused.value.key == key


def test_a_version_that_cannot_change_single_settings_is_refused() -> None:
    plan = plan_of()
    old = plan.model_copy(update={"target": plan.target.model_copy(update={"version": "2.2.2"})})
    with pytest.raises(PlanError, match=r"2\.2\.2 cannot change single settings"):
        Kafka().check(old)
    Kafka().check(plan)

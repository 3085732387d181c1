"""What a plan may ask of transactions on Kafka: each refusal is one sentence with its key."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.run.resolving import resolve
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.settings import (
    consumer_settings,
    producer_settings,
    timeout_s,
    transactional_id,
)


def plan(version: str = "4.3.1", options: Any = None, **workload: Any) -> KafkaPlan:
    made = {"name": "transactions", "processes": 8, "options": options or {}, **workload}
    target = {"system": "kafka", "version": version}
    parsed = parse_plan({"schema": 1, "name": "p", "target": target, "workload": made})
    assert isinstance(parsed, KafkaPlan)
    return parsed


@pytest.mark.parametrize(
    ("made", "key", "what"),
    [
        ({"producer": {"acks": 1}}, 'workload.producer."acks"', "needs acks = 'all', not '1'"),
        (
            {"producer": {"request.required.acks": 0}},
            'workload.producer."request.required.acks"',
            "needs acks = 'all', not '0'",
        ),
        ({"version": "0.10.2.2"}, "target.version", "Kafka 0.10.2.2 has no transactions"),
        ({"client": "exec"}, "workload.client", "made by librdkafka or java, not by 'exec'"),
        (
            {"client": "java", "version": "2.4.1"},
            "workload.client",
            "transactions of the Java client need Kafka 2.5 or later, not 2.4.1",
        ),
        (
            {"client": "java", "clients": 1, "processes": 17},
            "workload.processes",
            "is 17, and the JVMs of 1 clients have room for 16 producers",
        ),
        ({"client": "java", "clients": 10}, "workload.clients", "10 Java clients are too many"),
        (
            {"client": "java", "producer": {"acks": 1}},
            'workload.producer."acks"',
            "needs acks = 'all', not '1'",
        ),
        (
            {"client": "java", "producer": {"enable.idempotence": False}},
            'workload.producer."enable.idempotence"',
            "a transactional producer is idempotent",
        ),
        ({"processes": 300}, "workload.processes", "is 300, and each process has"),
        (
            {"producer": {"enable.idempotence": False}},
            'workload.producer."enable.idempotence"',
            "a transactional producer is idempotent",
        ),
        (
            {"producer": {"transaction.timeout.ms": "soon"}},
            'workload.producer."transaction.timeout.ms"',
            "'soon' is not an integer of at least 1000",
        ),
        (
            {"producer": {"message.timeout.ms": 30_000}},
            'workload.producer."message.timeout.ms"',
            "more than transaction.timeout.ms, 10000",
        ),
        (
            {"producer": {"transactional.id": "mine"}},
            'workload.producer."transactional.id"',
            "this setting is refused",
        ),
    ],
)
def test_what_cannot_be_is_refused(made: dict[str, Any], key: str, what: str) -> None:
    with pytest.raises(PlanError, match=what) as raised:
        resolve(plan(**made))
    assert raised.value.key == key


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"version": "0.11.0.3"},
        {"client": "librdkafka"},
        {"client": "java", "producer": {"acks": -1, "transaction.timeout.ms": 5000}},
        {"producer": {"acks": "all", "enable.idempotence": True, "linger.ms": 0}},
        {"producer": {"transaction.timeout.ms": 40_000, "message.timeout.ms": 30_000}},
    ],
)
def test_what_can_be_is_accepted(made: dict[str, Any]) -> None:
    assert resolve(plan(**made)).workload.model == "transaction"


def test_what_java_producers_are_started_with() -> None:
    asked = plan(client="java", producer={"transaction.timeout.ms": 5000, "linger.ms": 2})
    assert producer_settings(asked) == {
        "linger.ms": "2",
        "max.block.ms": "5000",
        "transaction.timeout.ms": "5000",
    }


def test_crashes_of_clients_are_refused() -> None:
    document = plan().document()
    document["faults"] = [{"id": "crash", "at_s": 1, "nemesis": "client", "for_s": 1}]
    with pytest.raises(PlanError, match="producers of transactions cannot crash one by one"):
        resolve(parse_plan(document))


def test_what_producers_and_consumers_are_started_with() -> None:
    asked = plan(producer={"transaction.timeout.ms": 5000, "linger.ms": 2})
    settings = producer_settings(asked)
    assert settings["enable.idempotence"] == "true"
    assert (settings["acks"], settings["linger.ms"]) == ("all", "2")
    assert (settings["transaction.timeout.ms"], settings["message.timeout.ms"]) == ("5000", "5000")
    assert timeout_s(asked) == 5
    assert transactional_id(asked, 3) == "ackloss-3"
    assert consumer_settings(asked)["isolation.level"] == "read_committed"
    for which in ("both", "read_uncommitted"):  # the processors and the final read stay the same
        other = plan(options={"isolation": which})
        assert consumer_settings(other, processors=True)["isolation.level"] == "read_committed"

"""What a plan may set of each client and of brokers, and what becomes of it: a snapshot.

python -m tests.targets.kafka.test_settings_of_clients    writes it again
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import PlanError
from harness.plan import parse_plan
from targets.kafka.clients import library_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.target import Kafka

SNAPSHOT = Path(__file__).with_name("settings_of_clients.json")
CLIENTS = ("librdkafka", "kafka-python", "java", "exec", "transactions", "transactions java")
VALUES: tuple[Any, ...] = (1000, 3, True, "all", "zstd", "fifo", "rebootstrap", "0.9.0")
SEVERAL: tuple[dict[str, Any], ...] = (
    {"retries": 3, "message.send.max.retries": 4},
    {"acks": 1, "enable.idempotence": True},
    {"enable.idempotence": True, "retries": 0},
    {"enable.idempotence": True, "max.in.flight": 6},
    {"linger.ms": 9000},
    {"message.timeout.ms": 12000},
    {"delivery.timeout.ms": 8000, "linger.ms": 100},
    {"delivery.timeout.ms": 12000, "request.timeout.ms": 9000, "socket.timeout.ms": 9000},
    {"request.timeout.ms": 2000, "socket.timeout.ms": 1000},
    {"buffer.memory": 33554432, "queue.buffering.max.kbytes": 32768},
    {"transaction.timeout.ms": 40000, "message.timeout.ms": 30000},
    {"transaction.timeout.ms": 5000, "linger.ms": 2, "compression.codec": "gzip"},
)
STORED: dict[str, dict[str, object]] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
NAMES = [name for name in STORED["librdkafka"] if not name.startswith("{")]
CONSUMER = sorted({name.partition(" ")[0] for name in STORED["consumers java"]})
BROKER = list(STORED["brokers"])
"""The names that are tried: a new one is added to the file, with any answer."""


def plan(client: str, **workload: Any) -> KafkaPlan:
    library = client.rpartition(" ")[2]
    transactions = client.startswith("transactions")
    made: dict[str, Any] = {
        "name": "transactions" if transactions else "append",
        "processes": 8,
        **({} if library == "transactions" else {"client": library}),
        **workload,
    }
    target = {"system": "kafka", "version": "4.3.1"}
    parsed = parse_plan({"schema": 1, "name": "p", "target": target, "workload": made})
    assert isinstance(parsed, KafkaPlan)
    return parsed


def started_with(client: str, producer: dict[str, Any]) -> object:
    """What producers are started with, or the refusal."""
    from targets.kafka.transactions.settings import producer_settings

    try:
        one = plan(client, producer=producer)
        Kafka().check(one)
        if client.startswith("transactions"):
            return producer_settings(one)
        return library_of(one).settings(one)
    except PlanError as error:
        return error.what


def answers(client: str) -> dict[str, object]:
    """What each name changes of the defaults, with the first value that is accepted; or why it is
    refused."""
    defaults = started_with(client, {})
    assert isinstance(defaults, dict)
    found: dict[str, object] = {}
    for settings in [*({name: value} for name in NAMES for value in VALUES), *SEVERAL]:
        name = next(iter(settings)) if len(settings) == 1 else json.dumps(settings)
        so_far = found.get(name, "")
        if not isinstance(so_far, str) or so_far.startswith("this setting is refused"):
            continue
        answer = started_with(client, settings)
        if isinstance(answer, dict):
            found[name] = {k: value for k, value in answer.items() if defaults.get(k) != value}
        else:
            found.setdefault(name, answer)
    return found


def consumers(client: str) -> Iterator[tuple[str, object]]:
    for name in CONSUMER:
        for protocol in ("range", "consumer"):
            version = "3.9.2" if client == "kafka-python" else "4.3.1"
            try:
                one = plan(
                    "librdkafka",
                    name="consume",
                    options={"protocol": protocol},
                    consumer={name: True},
                    consumer_client=client,
                )
                Kafka().check(one)
                yield f"{name} {protocol} {version}", "accepted"
            except PlanError as error:
                yield f"{name} {protocol} {version}", error.what


def brokers() -> Iterator[tuple[str, object]]:
    for name in BROKER:
        target = {"system": "kafka", "version": "3.9.2", "settings": {name: 1}}
        try:
            one = parse_plan({"schema": 1, "name": "p", "target": target})
            assert isinstance(one, KafkaPlan)
            Kafka().check(one)
            yield name, "accepted"
        except PlanError as error:
            yield name, error.what


def every() -> dict[str, dict[str, object]]:
    found = {client: answers(client) for client in CLIENTS}
    for client in ("librdkafka", "kafka-python", "java"):
        found[f"consumers {client}"] = dict(consumers(client))
    return {**found, "brokers": dict(brokers())}


def test_clients_accept_what_they_did_and_refuse_the_rest_for_the_same_reason() -> None:
    assert every() == STORED


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(every(), indent=0, sort_keys=True) + "\n", encoding="utf-8")

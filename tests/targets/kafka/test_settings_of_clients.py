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
# fmt: off
NAMES = (
    "acks", "ack", "request.required.acks", "retries", "message.send.max.retries",
    "retry.backoff.ms", "retry.backoff.max.ms", "message.timeout.ms", "delivery.timeout.ms",
    "request.timeout.ms", "linger.ms", "queue.buffering.max.ms", "batch.size",
    "batch.num.messages", "message.max.bytes", "max.request.size", "message.copy.max.bytes",
    "compression.level", "compression.type", "compression.codec", "compression.gzip.level",
    "compression.lz4.level", "compression.zstd.level", "max.in.flight",
    "max.in.flight.requests.per.connection", "queue.buffering.max.messages",
    "queue.buffering.max.kbytes", "buffer.memory", "queue.buffering.backpressure.threshold",
    "socket.timeout.ms", "socket.connection.setup.timeout.ms",
    "socket.connection.setup.timeout.max.ms", "socket.send.buffer.bytes", "send.buffer.bytes",
    "socket.receive.buffer.bytes", "receive.buffer.bytes", "socket.max.fails",
    "connections.max.idle.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
    "topic.metadata.refresh.interval.ms", "metadata.max.age.ms", "metadata.max.idle.ms",
    "topic.metadata.refresh.fast.interval.ms", "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.sparse", "metadata.recovery.strategy",
    "metadata.recovery.rebootstrap.trigger.ms", "api.version.request",
    "api.version.request.timeout.ms", "api.version.fallback.ms", "broker.version.fallback",
    "enable.idempotence", "enable.gapless.guarantee", "socket.keepalive.enable",
    "socket.nagle.disable", "queuing.strategy", "max.block.ms", "bootstrap.servers",
    "metadata.broker.list", "plugin.library.paths", "sasl.password", "sasl.jaas.config",
    "ssl.ca.location", "ssl.keystore.key", "security.protocol",
    "enable.ssl.certificate.verification", "client.id", "client.rack", "transactional.id",
    "transaction.timeout.ms", "partitioner", "partitioner.class", "sticky.partitioning.linger.ms",
    "key.serializer", "interceptor.classes", "metric.reporters", "config.providers",
    "delivery.report.only.error", "on_delivery", "error_cb", "debug", "log_level",
    "log.queue", "statistics.interval.ms", "test.mock.num.brokers", "group.id", "opaque",
    "https.ca.location", "oauth.cb", "linger.mss", "enable.metrics.push",
)
CONSUMER = (
    "max.poll.interval.ms", "heartbeat.interval.ms", "topic.metadata.refresh.interval.ms",
    "metadata.max.age.ms", "fetch.wait.max.ms", "fetch.max.wait.ms", "fetch.message.max.bytes",
    "max.partition.fetch.bytes", "queued.max.messages.kbytes", "socket.timeout.ms",
    "request.timeout.ms", "reconnect.backoff.max.ms", "check.crcs", "enable.auto.commit",
    "auto.commit.interval.ms", "auto.offset.reset", "session.timeout.ms", "group.protocol",
    "partition.assignment.strategy", "plugin.library.paths", "isolation.level", "group.id",
    "sasl.password", "fetch.min.bytes",
)
BROKER = (
    "min.insync.replicas", "unclean.leader.election.enable", "log.retention.ms", "listeners",
    "advertised.listeners", "controller.listener.names", "inter.broker.listener.name", "port",
    "host.name", "node.id", "broker.id", "broker.id.generation.enable", "broker.rack",
    "process.roles", "log.dirs", "log.dir", "metadata.log.dir", "controller.quorum.voters",
    "controller.quorum.fetch.timeout.ms", "zookeeper.connect", "zookeeper.session.timeout.ms",
    "zookeeper.connection.timeout.ms", "ssl.keystore.location", "sasl.enabled.mechanisms",
    "listener.name.internal.plain.sasl.jaas.config", "password.encoder.secret",
    "delegation.token.master.key", "authorizer.class.name", "metric.reporters",
    "config.providers", "remote.log.storage.manager.class.path", "plugin.location",
    "security.inter.broker.protocol", "replica.lag.time.max.ms", "delete.topic.enable",
)
# fmt: on


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


def answers(client: str) -> Iterator[tuple[str, object]]:
    """What each name changes of the defaults, with the first value that is accepted; or why it is
    refused."""
    defaults = started_with(client, {})
    assert isinstance(defaults, dict)
    for settings in [*({name: value} for name in NAMES for value in VALUES), *SEVERAL]:
        name = next(iter(settings)) if len(settings) == 1 else json.dumps(settings)
        answer = started_with(client, settings)
        if isinstance(answer, dict):
            answer = {key: value for key, value in answer.items() if defaults.get(key) != value}
        yield name, answer


def first_accepted(found: Iterator[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, answer in found:
        if name not in made or (isinstance(made[name], str) and not isinstance(answer, str)):
            made[name] = answer
    return made


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
    found = {client: first_accepted(answers(client)) for client in CLIENTS}
    for client in ("librdkafka", "kafka-python", "java"):
        found[f"consumers {client}"] = dict(consumers(client))
    return {**found, "brokers": dict(brokers())}


def test_clients_accept_what_they_did_and_refuse_the_rest_for_the_same_reason() -> None:
    assert every() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(every(), indent=0, sort_keys=True) + "\n", encoding="utf-8")

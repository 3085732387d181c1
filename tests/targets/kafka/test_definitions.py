"""What versions of Kafka know of a name, what it may hold, and who may set it."""

from __future__ import annotations

from typing import get_args

import pytest

from harness.images import java
from harness.plan import Scalar
from scripts.kafka_settings import definitions_in
from targets.kafka.definitions import (
    Level,
    definitions,
    is_secret,
    minor,
    names,
    needed_by,
    of_brokers,
    of_topic,
    why_not,
    why_refused,
    why_unknown,
)
from targets.kafka.versions import DEFAULT_VERSION, release_line

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "level", "version"),
    [
        ("min.insync.replicas", "topic", "4.3.1"),
        ("min.insync.replicas", "broker", "0.8.2.2"),
        ("zookeeper.connect", "broker", "3.9.2"),
        ("process.roles", "broker", "4.3.1"),
        ("replica.lag.max.messages", "broker", "0.8.2.2"),
        ("message.timestamp.difference.max.ms", "topic", "3.9.2"),
        ("delivery.timeout.ms", "producer", "2.1.1"),
        ("group.protocol", "consumer", "4.0.2"),
        ("listener.name.internal.ssl.keystore.location", "broker", "4.3.1"),
        ("rsm.config.storage.s3.region", "broker", "4.3.1"),
        ("what.only.the.future.knows", "broker", "9.0.0"),
        ("zookeeper.connect", "broker", None),
    ],
)
def test_what_a_version_knows(name: str, level: Level, version: str | None) -> None:
    assert why_unknown(name, level, version) is None


@pytest.mark.parametrize(
    ("name", "level", "version", "what", "hint"),
    [
        ("zookeeper.connect", "broker", "4.3.1", "went after Kafka 3.9", None),
        ("replica.lag.max.messages", "broker", "2.8.2", "went after Kafka 0.8.2", None),
        ("min.insync.replicas", "topic", "0.8.1.1", "came with Kafka 0.8.2", None),
        ("delivery.timeout.ms", "producer", "2.0.1", "came with Kafka 2.1", None),
        ("retention.sm", "topic", "4.3.1", "is known to no", "did you mean 'retention.ms'?"),
        ("log.retention.ms", "topic", "4.3.1", "is a setting of br", "a topic calls it 'retent"),
        ("retention.ms", "broker", "4.3.1", "of topics", "it belongs in topic.settings, or brok"),
        ("linger.ms", "topic", "4.3.1", "of producers", "it belongs in workload.producer"),
        ("num.partitions", "topic", "4.3.1", "of brokers", "it belongs in target.settings"),
        ("vendor.balancer.enable", "broker", "4.3.1", "is known to no version of Kafka", None),
        ("vendor.balancer.enable", "broker", None, "is known to no version of Kafka", None),
    ],
)
def test_what_a_version_does_not_know(
    name: str, level: Level, version: str | None, what: str, hint: str | None
) -> None:
    unknown = why_unknown(name, level, version)
    assert unknown is not None
    predicate, _, advice = unknown.partition("; ")
    assert what in predicate
    assert advice.startswith(hint or "")
    assert bool(hint) == bool(advice)
    foreign = "known to no version" in predicate and not advice
    assert foreign == name.startswith("vendor")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("min.insync.replicas", "two", "'two' is not a whole number"),
        ("min.insync.replicas", 1.5, "'1.5' is not a whole number"),
        ("unclean.leader.election.enable", "yes", "'yes' is not true or false"),
        ("unclean.leader.election.enable", 1, "'1' is not true or false"),
        ("log.cleaner.min.cleanable.ratio", "half", "'half' is not a number"),
        ("message.timestamp.type", "Now", "'Now' is not one of CreateTime, LogAppendTime"),
        ("min.insync.replicas", " 2 ", None),
        ("retention.ms", -1, None),
        ("unclean.leader.election.enable", True, None),
        ("unclean.leader.election.enable", "TRUE", None),
        ("log.cleaner.min.cleanable.ratio", 0.5, None),
        ("log.cleaner.min.cleanable.ratio", 1, None),
        ("cleanup.policy", "compact,delete", None),
        ("compression.type", "zstd", None),
        ("vendor.thing", "anything", None),
    ],
)
def test_what_is_no_value_of_a_setting(name: str, value: Scalar, why: str | None) -> None:
    assert why_not(name, value) == why


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("rsm.config.storage.s3.secret.access.key", True),
        ("oauth.client.secret", True),
        ("vendor.license", True),
        ("my.vault.token", True),
        ("listener.name.internal.plain.sasl.jaas.config", True),
        ("ssl.keystore.password", True),
        ("ssl.keystore.key", True),
        ("password.encoder.secret", True),
        ("KAFKA_SSL_KEY_PASSWORD", True),
        ("schema.registry.basic.auth.user.info", True),
        ("VENDOR_API_KEY", True),
        ("azure.account-key", True),
        ("delegation.token.expiry.time.ms", False),
        ("password.encoder.iterations", False),
        ("min.insync.replicas", False),
        ("key.serializer", False),
        ("log.message.timestamp.type", False),
        ("vendor.balancer.enable", False),
    ],
)
def test_which_names_hold_secrets(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


@pytest.mark.parametrize(
    ("name", "value", "topic"),
    [
        ("log.retention.ms", "5", ("retention.ms", "5")),
        ("log.retention.hours", "2", ("retention.ms", "7200000")),
        ("log.retention.minutes", "2", ("retention.ms", "120000")),
        ("log.roll.hours", "-1", ("segment.ms", "-1")),
        ("min.insync.replicas", "1", ("min.insync.replicas", "1")),
        ("message.max.bytes", "9", ("max.message.bytes", "9")),
        ("unclean.leader.election.enable", "TRUE", ("unclean.leader.election.enable", "TRUE")),
        ("num.partitions", "3", None),
        ("vendor.balancer.enable", "true", None),
    ],
)
def test_what_a_topic_calls_it(name: str, value: str, topic: tuple[str, str] | None) -> None:
    assert of_topic(name, value) == topic


def test_the_default_of_a_name_is_that_of_the_level() -> None:
    assert definitions()["connections.max.idle.ms"].defaults["broker"] == "600000"
    assert definitions()["connections.max.idle.ms"].defaults["producer"] == "540000"
    assert definitions()["compression.type"].defaults == {
        "broker": "producer",
        "topic": "producer",
        "producer": "none",
    }


def test_what_brokers_call_it() -> None:
    assert of_brokers()["retention.ms"] == "log.retention.ms"
    assert of_brokers()["flush.ms"] == "log.flush.interval.ms", "not that of the scheduler"
    assert "remote.storage.enable" not in of_brokers()


def test_what_does_nothing_without_a_class() -> None:
    manager = "remote.log.storage.manager.class.name"
    assert needed_by("remote.log.storage.system.enable") == manager
    assert needed_by("rsm.config.storage.s3.region") == manager
    assert needed_by(manager) is None
    assert needed_by("log.retention.ms") is None


def test_every_class_that_something_needs_is_refused_and_known() -> None:
    needed = {name for each in definitions() if (name := needed_by(each))}
    assert "remote.log.storage.manager.class.name" in needed
    assert all(why_refused(name) and name in definitions() for name in needed)


def test_the_table_is_of_every_release_line_and_sane() -> None:
    for level in ("broker", "topic", "producer", "consumer"):
        assert len(names(level, "4.3.1")) > 30
    assert {minor(version) for version in ("0.8.2.2", "3.9.2")} == {"0.8.2", "3.9"}
    for each in definitions().values():
        assert each.levels
        assert set(each.defaults) == set(each.levels)
        assert each.topic is None or "topic" in definitions()[each.topic].levels


@pytest.mark.java
def test_the_table_says_what_the_jars_of_the_default_version_say() -> None:
    libs = java.kept_jars(release_line(DEFAULT_VERSION).recipe(DEFAULT_VERSION))
    lines = [line.split("\t") for line in definitions_in(libs).splitlines()]
    for level in get_args(Level):
        assert {line[1] for line in lines if line[0] == level} == set(names(level, DEFAULT_VERSION))
    topics = {line[1]: line[2] for line in lines if line[0] == "synonym"}
    assert {name: definitions()[name].topic for name in topics} == topics

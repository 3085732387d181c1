"""The table of what versions honour: each row refuses where it says, and not next to it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import Plan, parse_plan
from harness.run.resolving import refuse_unsupported, resolve
from targets.kafka.limits import LIMITS, Limit, comparable, sent, unheeded, unsupported
from targets.kafka.versions import KRAFT, ZOOKEEPER, release_line

PLACES = {
    "broker": ("target", "settings"),
    "topic": ("topic", "settings"),
    "feature": ("target", "features"),
    "producer": ("workload", "producer"),
}


def plan(version: str, place: str = "", key: str = "", value: Any = 0) -> Plan:
    """A plan that asks one thing of a version; `3.9.2 zookeeper` names the mode too."""
    number, _, metadata = version.partition(" ")
    target: dict[str, Any] = {"version": number}
    document: dict[str, Any] = {"schema": 1, "name": "p", "target": target}
    if metadata:
        target["metadata"] = metadata
    if place == "target":
        target[key] = value
    elif place:
        part, table = PLACES[place]
        document.setdefault(part, {})[table] = {key: value}
    return parse_plan(document)


UNCLEAN, LEAST = "unclean.leader.election.enable", "min.insync.replicas"
SESSION, ZK_SESSION = "broker.session.timeout.ms", "zookeeper.session.timeout.ms"
QUORUM, ELR = "controller.quorum.fetch.timeout.ms", "eligible.leader.replicas.version"
EVERY_SO_OFTEN = "unclean.leader.election.interval.ms"

# place, key, value asked; a version that does not honour it, and the nearest ones that do
ROWS: list[tuple[str, str, Any, str, tuple[str, ...]]] = [
    ("topic", UNCLEAN, False, "0.8.1.1", ("0.8.2.2", "3.8.1 kraft")),
    ("broker", UNCLEAN, "false", "0.8.0", ("0.8.2.1",)),
    ("topic", UNCLEAN, True, "3.8.1", ("0.8.1.1", "3.8.1 zookeeper", "3.9.0", "2.8.2")),
    ("broker", UNCLEAN, "true", "3.3.2", ("3.3.2 zookeeper", "4.0.1")),
    ("topic", LEAST, 2, "0.8.1.1", ("0.8.2.2",)),
    ("broker", LEAST, "2", "0.8.0", ("0.9.0.1",)),
    ("broker", LEAST, 2, "0.8.2.2", ("0.9.0.1", "4.3.1")),
    ("broker", "replica.lag.max.messages", 4000, "0.9.0.1", ("0.8.2.2", "0.8.0")),
    ("broker", "auto.leader.rebalance.enable", True, "0.8.0", ("0.8.1.1",)),
    ("producer", "enable.idempotence", True, "0.10.2.2", ("0.11.0.3",)),
    ("producer", "acks", "2", "0.9.0.1", ("0.8.2.2",)),
    ("producer", "request.required.acks", 2, "4.3.1", ("0.8.0",)),
    ("producer", "compression.codec", "zstd", "2.0.1", ("2.1.1",)),
    ("producer", "compression.type", "lz4", "0.8.1.1", ("0.8.2.2",)),
    ("feature", "metadata.version", 20, "3.9.2 zookeeper", ("3.9.2 kraft",)),
    ("feature", ELR, 1, "3.9.2", ("4.0.1",)),
    ("feature", "kraft.version", 1, "3.8.1", ("3.9.0",)),
    ("feature", "transaction.version", 2, "3.9.2", ("4.0.1",)),
    ("target", "metadata", KRAFT, "3.2.3", ("3.3.2",)),
    ("target", "metadata", ZOOKEEPER, "4.0.1", ("3.9.2",)),
    ("target", "combined", True, "2.8.2", ("3.9.2 kraft",)),
    ("target", "founders", 1, "3.9.2 zookeeper", ("3.9.2 kraft",)),
    ("broker", SESSION, 1500, "2.7.2", ("3.9.2 kraft",)),
    ("broker", QUORUM, 1500, "0.8.0", ("3.3.2",)),
    ("broker", SESSION, 1500, "3.9.2 zookeeper", ("3.9.2 kraft",)),
    ("broker", ZK_SESSION, 1500, "3.9.2 kraft", ("3.9.2 zookeeper",)),
    ("broker", "zookeeper.connection.timeout.ms", 1500, "4.0.1", ("2.8.2", "0.8.0")),
    ("broker", EVERY_SO_OFTEN, 1000, "3.8.1", ("3.9.0 kraft",)),
    ("broker", EVERY_SO_OFTEN, 1000, "3.9.2 zookeeper", ("4.3.1",)),
    ("broker", "inter.broker.protocol.version", "0.8.2", "0.8.2.2", ("0.9.0.1",)),
    ("broker", "inter.broker.protocol.version", "3.3", "3.9.2 kraft", ("3.9.2 zookeeper",)),
    ("topic", "segment.bytes", 1048575, "4.0.1", ("3.9.2",)),
    ("broker", "log.segment.bytes", 14, "4.3.1", ("3.9.2",)),
    ("topic", "message.timestamp.type", "CreateTime", "0.9.0.1", ("0.10.0.1",)),
    ("broker", "log.message.timestamp.difference.max.ms", 9, "4.0.1", ("3.9.2", "0.10.0.1")),
    ("topic", "message.timestamp.after.max.ms", 9, "3.5.2", ("3.6.2",)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "key", "value", "version", "neighbours"), ROWS,
    ids=[f"{key}={value}-{version}" for _, key, value, version, _ in ROWS],
)  # fmt: skip
def test_a_row_refuses_where_it_says_and_not_next_to_it(
    place: str, key: str, value: Any, version: str, neighbours: tuple[str, ...]
) -> None:
    (reported,) = unsupported(plan(version, place, key, value))
    assert key in reported.key
    assert f"Kafka {version.partition(' ')[0]}" in reported.what
    for neighbour in neighbours:
        assert unsupported(plan(neighbour, place, key, value)) == [], neighbour


@pytest.mark.parametrize(
    ("place", "key", "version", "what"),
    [
        ("topic", "retention.sm", "4.3.1", "to no version of Kafka; did you mean 'retention."),
        ("topic", "remote.log.copy.disable", "3.8.1", "it came with Kafka 3.9"),
        ("java", "delivery.timeout.ms", "2.0.1", "it came with Kafka 2.1"),
        ("java", "message.timeout.ms", "2.0.1", "it came with Kafka 2.1"),
    ],
)
def test_a_name_that_the_version_does_not_know_is_refused_before_anything_starts(
    place: str, key: str, version: str, what: str
) -> None:
    asked = plan(version, "producer" if place == "java" else place, key, 9)
    if place == "java":
        workload = asked.workload.model_copy(update={"client": "java"})
        asked = asked.model_copy(update={"workload": workload})
    (reported,) = unsupported(asked)
    assert reported.key.endswith(f'"{key}"')
    assert what in reported.what
    assert reported.what.startswith(f"the plan requests 9, but Kafka {version} does not have it")
    assert reported.forcible == (place != "java")
    assert sent(asked) == asked, "forced, the cluster decides"
    assert comparable(asked).topic.settings == comparable(asked).target.settings == {}


def test_all_of_them_are_named_at_once() -> None:
    settings = {"retention.sm": 1, "segment.byte": 1, "retention.ms": 1}
    document = plan("4.3.1").document() | {"topic": {"settings": settings}}
    with pytest.raises(PlanError) as refused:
        refuse_unsupported(resolve(parse_plan(document)), file="p.toml")
    assert refused.value.key == 'topic.settings."retention.sm"'
    assert "and 1 more" in str(refused.value)


def test_the_names_of_an_image_without_a_version_are_those_of_any_version() -> None:
    target = {"image": "apache/kafka:latest"}
    topic = {"settings": {"message.format.version": "3.0", "retention.sm": 1}}
    document = {"schema": 1, "name": "p", "target": target, "topic": topic}
    (reported,) = unsupported(parse_plan(document))
    assert reported.key == 'topic.settings."retention.sm"'
    assert "but Kafka does not have it" in reported.what


def test_every_row_of_the_table_is_tried_above() -> None:
    def met(asked: Plan) -> set[Limit]:
        sources = {reported.source for reported in unsupported(asked)}
        whats = " ".join(reported.what for reported in unsupported(asked))
        return {limit for limit in LIMITS if limit.source in sources and limit.reason in whats}

    tried = [met(plan(row[3], *row[:3])) for row in ROWS]
    assert set().union(*tried) == set(LIMITS)


def test_every_row_says_why_and_where_that_is_to_be_read() -> None:
    for limit in LIMITS:
        assert re.match(r"(KAFKA|KIP)-\d+|upgrade notes of \d", limit.source), limit
        assert limit.reason, limit
        assert not limit.reason.endswith("."), limit


def test_modes_are_those_that_versions_can_be_started_in() -> None:
    for version in ("0.8.0", "0.8.2.2", "1.1.1", "2.8.2", "3.2.3", "3.3.2", "3.9.2", "4.0.1"):
        honoured = {
            mode for mode in (KRAFT, ZOOKEEPER) if not unsupported(plan(f"{version} {mode}"))
        }
        assert honoured == set(release_line(version).metadata), version
        asked = plan(version)
        assert sent(asked) == comparable(asked) == asked, "a plan that asks nothing is run as it is"


@pytest.mark.parametrize(
    ("version", "place", "key", "value", "known"),
    [
        ("0.8.0", "topic", UNCLEAN, True, False),
        ("0.8.1.1", "broker", UNCLEAN, True, False),
        ("0.8.1.1", "topic", LEAST, 1, False),
        ("0.8.0", "broker", "auto.leader.rebalance.enable", False, False),
        ("3.9.2", "feature", ELR, 0, False),
        ("2.8.2", "feature", ELR, 0, False),
        ("4.3.1", "topic", "segment.bytes", 1048576, True),
        ("3.8.1", "topic", UNCLEAN, False, True),
        ("0.8.2.2", "broker", LEAST, 1, True),
        ("4.3.1", "feature", ELR, 0, True),
    ],
)
def test_what_the_version_does_anyway_is_sent_and_compared_if_it_knows_it(
    version: str, place: str, key: str, value: Any, known: bool
) -> None:
    asked = plan(version, place, key, value)
    assert unsupported(asked) == []
    for left in (sent(asked), comparable(asked)):
        tables = (left.target.settings, left.target.features, left.topic.settings)
        assert [key in table for table in tables].count(True) == known
        assert (left == asked) == known


def test_what_is_forced_is_sent_not_compared_and_reported() -> None:
    asked = plan("0.8.1.1", "topic", LEAST, 2)
    assert sent(asked) == asked
    assert comparable(asked).topic.settings == {}
    (said,) = unheeded(asked, {"topic": {}, "broker": {}})
    assert said == (
        'topic.settings."min.insync.replicas": requested from a version that does not have it; '
        "it does not report it"
    )
    echoed = plan("3.8.1", "topic", UNCLEAN, True)
    (said,) = unheeded(echoed, {"topic": {UNCLEAN: "true"}, "broker": {}})
    assert said.endswith("does not honour it; it reports true, which proves nothing")
    assert unheeded(plan("4.3.1", "topic", LEAST, 2), {"topic": {LEAST: "2"}}) == []


def test_a_mode_that_is_not_there_cannot_be_forced() -> None:
    (gone,) = unsupported(plan("4.3.1 zookeeper"))
    assert not gone.forcible
    (vain,) = unsupported(plan("3.8.1", "topic", UNCLEAN, True))
    assert vain.forcible


def test_an_image_is_judged_by_its_tag() -> None:
    def of(image: str) -> list[str]:
        target = {"image": image}
        topic = {"settings": {UNCLEAN: True}}
        document = {"schema": 1, "name": "p", "target": target, "topic": topic}
        return [reported.source for reported in unsupported(parse_plan(document))]

    assert of("apache/kafka:3.8.0") == ["KAFKA-12670"]
    assert of(f"apache/kafka:3.8.0@sha256:{'0' * 64}") == ["KAFKA-12670"]
    assert of("apache/kafka:4.1.0") == of("apache/kafka:latest") == []

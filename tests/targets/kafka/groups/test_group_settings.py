"""What a plan may ask of consumers on Kafka: each refusal is one sentence with its key."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import PartitionView
from harness.run.cells import group_of
from harness.run.resolving import resolve
from targets.kafka.definitions import names, same
from targets.kafka.groups import group, kafka_python
from targets.kafka.groups.settings import consumer_settings, named
from targets.kafka.plan import KafkaPlan


def plan(version: str = "4.3.1", options: Any = None, **workload: Any) -> Any:
    made = {"name": "consume", "options": options or {}, **workload}
    target = {"system": "kafka", "version": version}
    return parse_plan({"schema": 1, "name": "p", "target": target, "workload": made})


def settings(**options: Any) -> dict[str, Any]:
    one = plan(options=options)
    assert isinstance(one, KafkaPlan)
    group = group_of(one)
    assert group is not None
    return consumer_settings(one, group)


@pytest.mark.parametrize(
    ("made", "key", "what"),
    [
        (
            {"options": {"commit": "before"}, "consumer": {"enable.auto.commit": True}},
            'workload.consumer."enable.auto.commit"',
            "commit is 'before', and auto-commit is on: both would commit",
        ),
        (
            {"options": {"commit": "before", "commit_interval_s": 1}},
            "workload.options",
            "commit_interval_s switches auto-commit on, but commit is 'before'",
        ),
        (
            {"options": {"commit": "auto", "commit_partitions": "read"}},
            "workload.options",
            "commit_partitions is 'read', but with auto-commit the library chooses",
        ),
        (
            {"options": {"protocol": "consumer"}, "version": "3.9.1"},
            "workload.options.protocol",
            "Kafka 3.9.1 does not know the group protocol 'consumer'",
        ),
        (
            {"options": {"protocol": "consumer"}, "consumer_client": "kafka-python"},
            "workload.options.protocol",
            "kafka-python does not know the group protocol 'consumer'",
        ),
        ({"options": {"protocol": "eager"}}, "workload.options.protocol", "use 'range'"),
        ({"options": {"reset": "first"}}, "workload.options.reset", "use 'earliest'"),
        ({"options": {"members_count": 0}}, "workload.options.members_count", "0 is not allowed"),
        (
            {"consumer": {"session.timeout.ms": 100}},
            'workload.consumer."session.timeout.ms"',
            "an option of the workload stands for it",
        ),
        (
            {"consumer": {"plugin.library.paths": "x"}},
            'workload.consumer."plugin.library.paths"',
            "it would load a library into ackloss",
        ),
        (
            {"consumer_client": "java", "version": "2.4.1"},
            "workload.consumer_client",
            "the Java consumer needs Kafka 2.5.0 or later, not 2.4.1",
        ),
        (
            {"consumer_client": "java", "options": {"members_count": 10}},
            "workload.options.members_count",
            "10 Java consumers are too many",
        ),
        (
            {"consumer_client": "java", "consumer": {"queued.max.messages.kbytes": 64}},
            'workload.consumer."queued.max.messages.kbytes"',
            "java has no setting that means it",
        ),
        (
            {"options": {"protocol": "consumer"}, "consumer": {"heartbeat.interval.ms": 500}},
            'workload.consumer."heartbeat.interval.ms"',
            'no member may set it with the group protocol "consumer"',
        ),
        (
            {"name": "append", "consumer": {"check.crcs": True}},
            "workload.consumer",
            "the workload 'append' has no consumers",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(made: Any, key: str, what: str) -> None:
    with pytest.raises(PlanError) as refused:
        resolve(plan(**made))
    assert refused.value.key == key
    assert what in str(refused.value)


@pytest.mark.parametrize(
    "made",
    [
        {"options": {"commit": "before"}},
        {"options": {"commit": "auto", "commit_interval_s": 1}},
        {"options": {"protocol": "consumer"}},
        {"options": {"protocol": "range"}, "version": "3.9.1"},
        {"options": {"protocol": "cooperative-sticky"}, "consumer_client": "kafka-python"},
        {"consumer": {"check.crcs": True}},
        {"consumer_client": "java", "version": "2.5.1"},
        {"consumer_client": "java", "options": {"members_count": 9}},
        {"consumer": {"queued.max.messages.kbytes": 64}},
        {"options": {"protocol": "range"}, "consumer": {"heartbeat.interval.ms": 500}},
    ],
)
def test_their_twins_are_accepted(made: Any) -> None:
    group = group_of(resolve(plan(**made)).plan)
    assert group is not None
    assert group.protocol == made.get("options", {}).get("protocol", "range")


def test_a_nemesis_of_consumers_needs_consumers() -> None:
    step = {"id": "s", "at_s": 1, "nemesis": "consumer", "for_s": 1}
    document = plan(name="append", options={}).document()
    with pytest.raises(PlanError, match="meets the consumers of a group"):
        resolve(parse_plan({**document, "faults": [step]}))
    group = plan().document()
    resolve(parse_plan({**group, "faults": [step]}))
    with pytest.raises(PlanError, match="there is no consumer 9: members_count is 2"):
        resolve(parse_plan({**group, "faults": [{**step, "consumers": [9]}]}))


def test_consumers_are_started_as_the_options_say() -> None:
    classic = settings(commit="after", session_s=9)
    assert classic["enable.auto.commit"] is False
    assert classic["session.timeout.ms"] == 9000
    assert classic["partition.assignment.strategy"] == "range"
    server = settings(protocol="consumer", commit="auto", commit_interval_s=3, reset="latest")
    assert server["group.protocol"] == "consumer"
    assert server["auto.commit.interval.ms"] == 3000
    assert server["auto.offset.reset"] == "latest"
    assert "session.timeout.ms" not in server


def test_kafka_python_gets_them_by_its_own_names() -> None:
    own = named({**settings(reset="latest"), "fetch.wait.max.ms": 5}, "kafka-python")
    assert own["group_id"] == "ackloss-group"
    assert own["auto_offset_reset"] == "latest"
    assert own["fetch_max_wait_ms"] == 5
    assert not {"log_level", "group_protocol"} & set(own)
    assert kafka_python._settings(own)["partition_assignment_strategy"][0].__name__.startswith(
        "Range"
    )


def test_a_java_consumer_gets_them_by_its_own_names() -> None:
    given = {**settings(reset="latest", commit="auto"), "fetch.wait.max.ms": 5}
    own = named(given, "java")
    assert own["partition.assignment.strategy"].endswith(".RangeAssignor")
    assert own["auto.offset.reset"] == "latest"
    assert own["enable.auto.commit"] == "true"
    assert own["fetch.max.wait.ms"] == "5"
    assert not {"log_level", "group.protocol", "fetch.wait.max.ms"} & set(own)
    assert named(settings(protocol="consumer"), "java")["group.protocol"] == "consumer"


def test_every_setting_that_a_plan_may_set_is_one_of_the_library() -> None:
    from confluent_kafka import Consumer
    from kafka import KafkaConsumer

    own = set(same("librdkafka", "consumer").values())
    values = dict.fromkeys(own, 100000) | {"check.crcs": True, "fetch.wait.max.ms": 5}
    values["heartbeat.interval.ms"] = 1000
    Consumer({**settings(), **values}).close()
    del values["queued.max.messages.kbytes"]
    known = set(KafkaConsumer.DEFAULT_CONFIG)
    assert set(named({**settings(), **values}, "kafka-python")) <= known
    assert set(same("java", "consumer").values()) <= set(names("consumer"))


@pytest.mark.parametrize(
    ("given", "started"),
    [
        ({"fetch.max.wait.ms": 5}, {"fetch.wait.max.ms": 5}),
        ({"request.timeout.ms": "900"}, {"socket.timeout.ms": 900}),
        ({"metadata.max.age.ms": 700}, {"topic.metadata.refresh.interval.ms": 700}),
        ({"check.crcs": "TRUE"}, {"check.crcs": True}),
    ],
)
def test_javas_names_are_taken_too(given: dict[str, Any], started: dict[str, Any]) -> None:
    one = plan(consumer=given)
    resolve(one)
    group = group_of(one)
    assert group is not None
    found = consumer_settings(one, group)
    assert {key: found[key] for key in started} == started


def test_a_wrong_value_is_refused_before_a_consumer_starts() -> None:
    with pytest.raises(PlanError, match="'soon' is not an integer") as refused:
        resolve(plan(consumer={"fetch.max.wait.ms": "soon"}))
    assert refused.value.key == 'workload.consumer."fetch.max.wait.ms"'


def test_the_hash_is_javas() -> None:
    assert group.partition_of("hello", 2**31) == 99162322  # "hello".hashCode() in any Java
    assert (
        group.partition_of("polygenelubricants", 2**31) == 0
    )  # it is Integer.MIN_VALUE: Utils.abs


def test_the_group_is_kept_in_the_partition_of_its_hash() -> None:
    views = tuple(
        PartitionView(partition=n, leader=f"b{n}", leader_epoch=0, members=()) for n in range(50)
    )
    found = group.coordination(plan(), views)
    assert found is not None
    assert found.partition == group.partition_of("ackloss-group", 50)
    assert group.coordination(plan(), ()) is None

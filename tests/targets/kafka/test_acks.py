"""`acks` from the plan to the wire: every spelling, every library, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import OK, Completion, completion, invoke
from targets.kafka.clients import LIBRARIES
from targets.kafka.definitions import acks_of
from tests.fixtures.budget import full
from tests.fixtures.fake_kafka import FakeKafka, fake_kafka
from tests.fixtures.java_driver import Address, java_client
from tests.fixtures.producing import WRITERS

BY_NAME = {library.plugin: library for library in WRITERS}
ALL = {"all": -1, "ALL": -1, "-1": -1, -1: -1, "1": 1, 1: 1, "0": 0, 0: 0, " 0 ": 0}
MORE = [spelling for spelling in ALL if spelling not in ("ALL", 1, " 0 ")]
NONE_OF_THEM = [0.0, 1.0, -1.0, True, False, "00", "01", "+1", "0.0", "0abc", "1x", "", "-0", 2]
SAID = {-1: "all", 1: "1", 0: "0"}


def plan_with(library: str, acks: Any, key: str = "acks") -> Any:
    workload = {"clients": 1, "client": library, "producer": {key: acks}}
    return parse_plan({"schema": 1, "name": "t", "topic": {"partitions": 1}, "workload": workload})


def written(client: Any, broker: FakeKafka) -> Completion:
    """How one write ended; it has arrived."""
    reported: dict[int, Completion] = {}
    while not client.submit(0, invoke("append", 5, 0)):
        client.poll(0.05, reported.__setitem__)
    while not reported or not broker.produced:
        client.poll(0.05, reported.__setitem__)
    client.close(1, reported.__setitem__)
    return reported[0]


@pytest.mark.parametrize("acks", ALL, ids=repr)
@pytest.mark.parametrize("library", BY_NAME)
def test_every_spelling_is_one_setting(library: str, acks: Any) -> None:
    plan = plan_with(library, acks)
    BY_NAME[library].check(plan)
    assert BY_NAME[library].settings(plan)["acks"] == SAID[ALL[acks]] == acks_of(acks)


@pytest.mark.parametrize("acks", ["ALL", 1, " 0 ", *full(*MORE)], ids=repr)
@pytest.mark.parametrize("library", BY_NAME)
def test_a_broker_gets_what_its_plan_states(library: str, acks: Any) -> None:
    plan = plan_with(library, acks)
    with fake_kafka() as broker:
        ended = written(BY_NAME[library].producing(broker.address, plan), broker)
        assert [each.acks for each in broker.produced] == [ALL[acks]]
    assert ended == completion(OK, offset=None if ALL[acks] == 0 else 0)


@pytest.mark.java
@pytest.mark.parametrize("acks", ["ALL", 1, " 0 ", *full(*MORE)], ids=repr)
def test_the_java_client_too(java: Address, acks: Any) -> None:
    with fake_kafka() as broker:
        producer = {"acks": acks, "enable.idempotence": False}
        client = java_client(java, broker.address, broker.topic, producer)
        written(client, broker)
        assert [each.acks for each in broker.produced] == [ALL[acks]]


@pytest.mark.parametrize("key", ["acks", "request.required.acks"])
@pytest.mark.parametrize("acks", NONE_OF_THEM, ids=repr)
@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_else_is_taken(library: str, acks: Any, key: str) -> None:
    """librdkafka would take 0.0, 00 and 0abc for 0, and the result would say acknowledged."""
    assert acks_of(acks) is None
    with pytest.raises(PlanError) as refused:
        LIBRARIES[library].check(plan_with(library, acks, key))
    assert refused.value.key == f'workload.producer."{key}"'
    assert refused.value.what == f"acks is 0, 1, -1 or all, not {acks!r}"
    assert refused.value.hint


@pytest.mark.parametrize("acks", [None, [0], 1.5, b"0"], ids=repr)
def test_a_stored_run_may_hold_anything(acks: Any) -> None:
    assert acks_of(acks) is None

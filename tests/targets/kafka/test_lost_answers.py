"""What each library says of writes that were done and whose answers it never got, or got as errors.

A broker that does every write, behind a proxy that deals with the answers, for longer than a write
may take. None of these writes may be called failed. The table in docs/reference/clients.md is this
one. Nearly all of the time is waiting, so the libraries write side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from harness.protocols import FAIL, INFO, OK
from tests.fixtures.fake_kafka import FakeKafka, fake_kafka
from tests.fixtures.java_driver import Address
from tests.fixtures.proxy import Proxied, proxy_before
from tests.targets.kafka.test_attempts import OWN, Writer, held

pytestmark = [pytest.mark.java, pytest.mark.real_time]

SHORT: Final[dict[str, dict[str, Any]]] = {
    "librdkafka": {"message.timeout.ms": 4000, "socket.timeout.ms": 2000},
    "kafka-python": {"message.timeout.ms": 4000, "request.timeout.ms": 2000},
    "java": {"delivery.timeout.ms": 4000, "request.timeout.ms": 2000, "linger.ms": 0},
}
ACTS: Final[dict[str, dict[str, Any]]] = {
    "reset": {"act": "reset"},
    "drop": {"act": "drop"},
    "delay": {"act": "delay", "ms": 7000},
    "error": {"act": "error", "code": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"},
}
SAID: Final = {
    "librdkafka": {"_MSG_TIMED_OUT"},
    "kafka-python": {"_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "_TRANSPORT"},
    "java": {"REQUEST_TIMED_OUT"},
}
"""The error of all such writes, whatever was done to the answers. kafka-python says how its last
attempt ended, if the time that a write may take is over just then."""

ENDED: Final = {
    ("kafka-python", "error"): {"NOT_ENOUGH_REPLICAS_AFTER_APPEND"},
    ("java", "error"): {"NOT_ENOUGH_REPLICAS_AFTER_APPEND"},
    ("java", "reset"): {"NETWORK_EXCEPTION"},
}
"""How a last attempt ended, by what was done to its answer, beside those: the first two were seen
here, the last on a cluster."""


@pytest.fixture(scope="module")
def module_broker() -> Iterator[FakeKafka]:
    with fake_kafka() as broker:
        yield broker


@pytest.fixture(scope="module")
def proxied(
    module_broker: FakeKafka, proxy_classes: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    with proxy_before(module_broker.port, proxy_classes, tmp_path_factory.mktemp("run")) as made:
        module_broker.port = made.port
        yield made


@pytest.fixture
def broker(module_broker: FakeKafka, proxied: Proxied) -> FakeKafka:
    module_broker.stored.clear()
    module_broker.produced.clear()
    return module_broker


@pytest.mark.parametrize("act", ACTS)
def test_what_was_done_is_unknown_and_never_failed(
    act: str, broker: FakeKafka, proxied: Proxied, java: Address
) -> None:
    writers = [Writer(name, java if name == "java" else None) for name in OWN]
    values = [tuple(range(first, first + 4)) for first in range(0, 4 * len(OWN), 4)]
    clients = [
        writer.client(broker, {"enable.idempotence": False, **SHORT[writer.library]})
        for writer in writers
    ]
    for writer, client, (before, *_) in zip(writers, clients, values, strict=True):
        writer.write(client, before)
    with proxied.rule(**ACTS[act], apis=("Produce",)), ThreadPoolExecutor(len(OWN)) as pool:
        under_way = [
            pool.submit(writer.write, client, *later)
            for writer, client, (_, *later) in zip(writers, clients, values, strict=True)
        ]
        for written in under_way:
            written.result()
    stored = held(broker)
    for writer, client, (before, *later) in zip(writers, clients, values, strict=True):
        writer.close(client)
        ended = (writer.of(OK), writer.of(FAIL), writer.of(INFO))
        assert ended == ({before}, set(), {*later}), writer.library
        # What is behind a dropped answer may expire before it is sent: nothing passes on its
        # connection any more. All others reach the broker.
        sure = {before, later[0], *(() if act == "drop" else later)}
        assert sure <= stored & {before, *later}, "all that reached it"
        said = SAID[writer.library] | ENDED.get((writer.library, act), set())
        assert {writer.reported[value][2] for value in later} <= said, writer.library
    assert stored <= {value for those in values for value in those}

"""Transactional producers and their readers over real sockets, against the mock brokers that
librdkafka brings along. The mock coordinates transactions; it writes no markers and
fences nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from harness.models.micro_ops import ABORT, POLL, SEND, MicroOp, elements_of, micro_ops
from harness.protocols import Completion, Invoke, invoke
from targets.kafka.transactions.polling import Poller
from targets.kafka.transactions.writing import TransactionWriter

pytestmark = pytest.mark.real_time


@pytest.fixture(scope="module")
def addresses() -> Iterator[str]:
    """Of mock brokers."""
    producer = Producer({"test.mock.num.brokers": 3})
    found = producer.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in found)
    producer.flush(5)


def writer(addresses: str, topic: str, name: str = "w") -> TransactionWriter:
    settings = {
        "bootstrap.servers": addresses,
        "transactional.id": f"{topic}-{name}",
        "transaction.timeout.ms": "8000",
        "message.timeout.ms": "5000",
    }
    return TransactionWriter(settings, topic, pause_ms=1, within_s=8)


def txn(*sends: tuple[int, int], abort: bool = False) -> Invoke:
    micro = [MicroOp(SEND, key, value=value) for key, value in sends]
    last = [MicroOp(ABORT)] if abort else []
    return invoke("txn", sends[0][1], expected=elements_of(*micro, *last))


def done(ended: Completion) -> list[MicroOp]:
    result = ended[4]
    return list(micro_ops(result)) if isinstance(result, tuple) else []


def test_a_commit_has_the_offsets_of_its_sends(addresses: str) -> None:
    one = writer(addresses, "commits")
    first = one.run(txn((0, 1), (1, 2), (0, 3)))
    second = one.run(txn((0, 4)))
    one.close()
    assert (first[0], second[0]) == ("ok", "ok")
    assert [(each.key, each.value) for each in done(first)] == [(0, 1), (1, 2), (0, 3)]
    assert all(each.kind == SEND and each.offset >= 0 for each in done(first))
    assert done(second)[0].offset > done(first)[2].offset > done(first)[0].offset


def test_an_abort_fails_and_the_producer_goes_on(addresses: str) -> None:
    one = writer(addresses, "aborts")
    aborted = one.run(txn((0, 1), (1, 2), abort=True))
    after = one.run(txn((0, 3)))
    one.close()
    assert aborted == ("fail", None, "aborted", None, None)
    assert after[0] == "ok"


def test_nothing_is_known_to_be_committed_without_brokers() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:9", "transactional.id": "nobody"}
    one = TransactionWriter(settings, "none", pause_ms=0, within_s=0.5)
    ended = one.run(txn((0, 1)))
    one.close()
    assert ended[0] == "fail"
    assert ended[2] in ("_TIMED_OUT", "_TRANSPORT")


def test_a_poller_goes_on_where_it_was_also_when_it_connects_again(addresses: str) -> None:
    one = writer(addresses, "polled")
    settings = {"bootstrap.servers": addresses, "group.id": "g", "auto.offset.reset": "error"}
    assert one.run(txn((0, 1), (1, 2)))[0] == "ok"
    poller = Poller(settings, "polled", 2)
    first = _polled(poller, 2)
    poller.close()
    assert one.run(txn((0, 3), (1, 4)))[0] == "ok"
    second = _polled(poller, 2)
    poller.close()
    one.close()
    assert {(each.key, each.value) for each in first} == {(0, 1), (1, 2)}
    assert {(each.key, each.value) for each in second} == {(0, 3), (1, 4)}


def _polled(poller: Poller, number: int) -> list[MicroOp]:
    """So many records, in some polls."""
    records: list[MicroOp] = []
    for _ in range(100):
        ended = poller.poll()
        assert ended[0] == "ok", ended
        records += done(ended)
        if len(records) >= number:
            break
    assert all(each.kind == POLL for each in records)
    return records

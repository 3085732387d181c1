"""Transactional producers and their readers over real sockets, against the mock brokers that
librdkafka brings along. The mock coordinates transactions; it writes no markers and
fences nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from harness.models.micro_ops import (
    ABORT,
    COMMIT,
    CONSUME,
    CRASH,
    FENCE,
    OFFSETS,
    POLL,
    SEND,
    MicroOp,
    elements_of,
    micro_ops,
)
from harness.plan import parse_plan
from harness.protocols import Completion, Invoke, invoke
from harness.protocols.groups import TransactionSettings
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.client import TransactionWriter
from targets.kafka.transactions.instances import Begin, GroupConsumer, LibrdkafkaProducer, Poller
from targets.kafka.transactions.settings import Logs

pytestmark = [pytest.mark.real_time, pytest.mark.filterwarnings("error::RuntimeWarning")]

TWO = frozenset({"consumed"})


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
    return TransactionWriter(
        producers(settings), logs(topic).place, TransactionSettings(pause_ms=1), within_s=8
    )


def producers(settings: dict[str, str], within_s: float = 8) -> Begin:
    return lambda answered: LibrdkafkaProducer(settings, answered, within_s=within_s)


def logs(topic: str) -> Logs:
    """Of one topic, or of two for a name with options."""
    options = {"processors_count": 1, "topics_count": 2} if topic in TWO else {}
    workload = {"name": "transactions", "options": options}
    document = {"schema": 1, "name": "p", "target": {"system": "kafka"}, "workload": workload}
    plan = parse_plan({**document, "topic": {"name": topic, "partitions": 2}})
    assert isinstance(plan, KafkaPlan)
    return Logs(plan)


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
    assert (aborted[0], aborted[2]) == ("fail", "aborted")
    assert after[0] == "ok"


def test_nothing_is_known_to_be_committed_without_brokers() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:9", "transactional.id": "nobody"}
    begin = producers(settings, within_s=0.5)
    one = TransactionWriter(begin, logs("none").place, TransactionSettings(), within_s=0.5)
    ended = one.run(txn((0, 1)))
    one.close()
    assert ended[0] == "fail"
    assert ended[2] in ("_TIMED_OUT", "_TRANSPORT")


def test_a_poller_goes_on_where_it_was_also_when_it_connects_again(addresses: str) -> None:
    one = writer(addresses, "polled")
    settings = {"bootstrap.servers": addresses, "group.id": "g", "auto.offset.reset": "error"}
    assert one.run(txn((0, 1), (1, 2)))[0] == "ok"
    poller = Poller(settings, logs("polled"))
    first = _polled(poller, 2)
    poller.close()
    assert one.run(txn((0, 3), (1, 4)))[0] == "ok"
    second = _polled(poller, 2)
    poller.close()
    one.close()
    assert {(each.key, each.value) for each in first} == {(0, 1), (1, 2)}
    assert {(each.key, each.value) for each in second} == {(0, 3), (1, 4)}


def steps(value: int, *micro: MicroOp) -> Invoke:
    return invoke("txn", value, expected=elements_of(*micro))


def send(key: int, value: int) -> MicroOp:
    return MicroOp(SEND, key, value=value)


@pytest.mark.parametrize("sends", [0, 1])
def test_a_crash_before_the_commit_fails_and_another_instance_goes_on(
    addresses: str, sends: int
) -> None:
    one = writer(addresses, f"crashes-{sends}")
    assert one.run(txn((0, 1)))[0] == "ok"
    crashed = one.run(steps(2, *[send(0, 2)][:sends], MicroOp(CRASH)))
    assert (crashed[0], crashed[2]) == ("fail", "crashed")
    assert [each.value for each in done(crashed)] == [2][:sends]
    after = one.run(txn((0, 3)))
    one.close()
    assert after[0] == "ok"


def test_a_crash_in_the_commit_is_unknown(addresses: str) -> None:
    one = writer(addresses, "commits-and-crashes")
    crashed = one.run(steps(1, send(0, 1), MicroOp(COMMIT), MicroOp(CRASH)))
    one.close()
    assert (crashed[0], crashed[2]) == ("info", "crashed")
    assert [each.value for each in done(crashed)] == [1]


def test_an_instance_that_was_taken_over_does_not_know_and_goes_on(addresses: str) -> None:
    """The mock fences nobody: it acknowledges the commit, and the completion says what came
    before."""
    one = writer(addresses, "taken-over")
    ended = one.run(steps(1, send(0, 1), MicroOp(FENCE), send(1, 2), MicroOp(COMMIT)))
    after = one.run(txn((0, 3)))
    one.close()
    assert {each.kind for each in done(ended)} == {SEND, FENCE}
    assert (ended[0], after[0]) in {("ok", "ok"), ("fail", "ok")}
    assert all(each.kind == SEND for each in done(after))


def test_inputs_are_consumed_and_sent_on_to_the_other_topic(addresses: str) -> None:
    one = writer(addresses, "consumed", "sender")
    assert one.run(txn((0, 1), (1, 2), (0, 3)))[0] == "ok"
    one.close()
    group = GroupConsumer(
        {
            "bootstrap.servers": addresses,
            "group.id": "processors",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        },
        "consumed",
    )
    asked = TransactionSettings(processors_count=1, topics_count=2)
    two = TransactionWriter(
        producers({"bootstrap.servers": addresses, "transactional.id": "processor"}),
        logs("consumed").place,
        asked,
        within_s=8,
        consumer=group,
    )
    taken = []
    for first in range(100, 500, 10):
        sends = [send(2, first), send(3, first + 1), send(2, first + 2)]
        micro = [MicroOp(CONSUME, value=3), *sends, MicroOp(OFFSETS), MicroOp(COMMIT)]
        ended = two.run(steps(first, *micro))
        assert ended[0] == "ok", ended
        polled = [each for each in done(ended) if each.kind == POLL]
        made = [each for each in done(ended) if each.kind == SEND]
        assert done(ended)[0] == MicroOp(CONSUME, value=len(polled))
        assert [each.value for each in made] == [first, first + 1, first + 2][: len(polled)]
        assert all(each.key in (2, 3) and each.offset >= 0 for each in made)
        taken += polled
        if len(taken) >= 3:
            break
    two.close()
    group.close()
    assert {(each.key, each.value) for each in taken} == {(0, 1), (1, 2), (0, 3)}


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

"""The producing client: where nothing listens, and against librdkafka's own test cluster.

Real brokers come in the end-to-end tests.
"""

from __future__ import annotations

import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from harness.plan import Plan, parse_plan
from harness.protocols import FAIL, INFO, OK, Completion, completion, invoke
from harness.protocols.clock import RunClock
from harness.run.load import run_workload
from harness.run.recorder import Recorder
from targets.kafka.clients.librdkafka import KafkaClient, Librdkafka, LibrdkafkaProducer
from tests.fixtures.producing import (
    NOBODY,
    WRITERS,
    Answers,
    Writer,
    addresses_of,
    make_fatal,
    mock_cluster,
    poll_until,
    writing,
)
from workloads.append import Append

pytestmark = pytest.mark.real_time

PARTITIONS = 4


def plan_for(producer: dict[str, Any] | None = None, **workload: Any) -> Plan:
    asked = {"clients": 3, **workload, "producer": producer or {}}
    return parse_plan(
        {"schema": 1, "name": "t", "topic": {"partitions": PARTITIONS}, "workload": asked}
    )


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Addresses of three brokers that live inside this process."""
    with mock_cluster() as owner:
        deadline = time.monotonic() + 10
        while (
            len(owner.list_topics("ackloss", timeout=10).topics["ackloss"].partitions) < PARTITIONS
        ):
            assert time.monotonic() < deadline
        yield addresses_of(owner)


@pytest.fixture(params=WRITERS, ids=lambda library: library.plugin)
def library(request: pytest.FixtureRequest) -> Writer:
    return cast("Writer", request.param)


def test_writes_are_acknowledged_with_their_offsets(library: Writer, brokers: str) -> None:
    client, answers = writing(library, brokers, plan_for()), Answers()
    values = {process: 10 * process for process in range(60)}
    for process, value in values.items():
        assert client.submit(process, invoke("append", value, process % PARTITIONS, "k"))
    poll_until(client, answers, 60)
    client.close(5, answers.done)
    assert {type_ for type_, *_ in answers.values()} == {OK}
    for partition in range(PARTITIONS):
        offsets = [offset for p, (_, offset, *_) in answers.items() if p % PARTITIONS == partition]
        assert all(isinstance(offset, int) for offset in offsets)
        assert len(set(offsets)) == len(offsets), "an offset was reported twice"


def test_equal_values_under_different_keys_are_answered_each_for_itself(
    library: Writer, brokers: str
) -> None:
    """In flight together, in one producer; the partitions' ends differ, so offsets show it."""
    client, answers = writing(library, brokers, plan_for(clients=1)), Answers()
    places = [partition for partition in range(PARTITIONS) for _ in range(4 * partition + 1)]
    for process, partition in enumerate(places):
        client.submit(process, invoke("append", 100 + process, partition, "k"))
    poll_until(client, answers, len(places))
    ends = {partition: answers[at][1] for at, partition in enumerate(places)}
    first = len(places)
    for partition in range(PARTITIONS):
        key = None if partition == 0 else f"k{partition}"
        assert client.submit(first + partition, invoke("append", 5, partition, key))
    poll_until(client, answers, first + PARTITIONS)
    client.close(5, answers.done)
    assert [answers[first + partition][1] for partition in range(PARTITIONS)] == [
        (ends[partition] or 0) + 1 for partition in range(PARTITIONS)
    ]


def test_without_acks_no_offset_is_reported(library: Writer, brokers: str) -> None:
    client, answers = writing(library, brokers, plan_for({"acks": 0})), Answers()
    client.submit(0, invoke("append", 5, 0))
    poll_until(client, answers, 1)
    client.close(5, answers.done)
    assert answers == {0: completion(OK, None)}


def test_before_0_8_2_no_offset_is_reported(library: Writer, brokers: str) -> None:
    """Those brokers acknowledge wrong ones with acks=all."""
    old = plan_for()
    old = old.model_copy(update={"target": old.target.model_copy(update={"version": "0.8.1.1"})})
    client, answers = library.producing(brokers, old), Answers()
    assert client.submit(0, invoke("append", 6, 0))
    poll_until(client, answers, 1)
    client.close(5, answers.done)
    assert answers == {0: completion(OK, None)}


def test_what_produce_itself_refuses_surely_failed(library: Writer, brokers: str) -> None:
    client, answers = writing(library, brokers, plan_for(clients=1)), Answers()
    client.submit(0, invoke("append", 1, 0))
    poll_until(client, answers, 1)
    assert client.submit(1, invoke("append", 2, 99)), "taken, and answered from inside poll"
    poll_until(client, answers, 2)
    client.close(5, answers.done)
    assert answers[1] == completion(FAIL, error="_UNKNOWN_PARTITION")


def test_a_full_queue_is_refused_and_not_attempted() -> None:
    client = Librdkafka().producing(
        NOBODY, plan_for({"queue.buffering.max.messages": 5}, clients=2)
    )
    answers = Answers()
    taken = {p for p in range(30) if client.submit(p, invoke("append", p, 0))}
    assert taken == set(range(10)), "five a producer"
    client.close(0.1, answers.done)
    assert answers.keys() == taken


@pytest.mark.parametrize(
    ("producer", "error"),
    [({}, "_PURGE_QUEUE"), ({"message.timeout.ms": 300}, "_MSG_TIMED_OUT"), ({"retries": 0}, None)],
)
def test_where_nothing_listens_everything_ends_in_info_and_close_returns_in_time(
    producer: dict[str, Any], error: str | None
) -> None:
    client, answers = Librdkafka().producing(NOBODY, plan_for(producer)), Answers()
    for process in range(50):
        assert client.submit(process, invoke("append", process, 0))
    began = time.monotonic()
    client.poll(0.2, answers.done)
    client.close(1.5, answers.done)
    assert time.monotonic() - began < 5
    assert answers.keys() == set(range(50))
    assert {type_ for type_, *_ in answers.values()} == {INFO}
    if error:
        assert {reported for _, _, reported, *_ in answers.values()} == {error}


def test_after_a_fatal_error_the_run_goes_on(brokers: str) -> None:
    """What was under way is unknown, what the producer refuses surely failed, others write."""
    asked = {"enable.idempotence": True, "linger.ms": 2000, "message.timeout.ms": 4000}
    client, answers = Librdkafka().producing(brokers, plan_for(asked, clients=2)), Answers()
    for process in (0, 1):
        assert client.submit(process, invoke("append", process, 0))
    fatal = client._places[0].client
    assert isinstance(fatal, LibrdkafkaProducer)
    make_fatal(fatal._producer)
    client.poll(0.1, answers.done)
    for process in (2, 3):
        assert client.submit(process, invoke("append", process, 0))
    poll_until(client, answers, 4)
    client.close(5, answers.done)
    assert answers[2] == completion(FAIL, error="_FATAL")
    assert answers[0][0] == INFO, answers
    assert [answers[process][0] for process in (1, 3)] == [OK, OK]


def test_poll_waits_when_there_is_nothing_to_do(library: Writer, brokers: str) -> None:
    client, answers = writing(library, brokers, plan_for()), Answers()
    client.submit(0, invoke("append", 7, 0))
    poll_until(client, answers, 1)
    client.poll(0.05, answers.done)  # whatever the connections still had to tell
    began, used = time.monotonic(), time.thread_time()
    client.poll(0.3, answers.done)
    assert time.monotonic() - began >= 0.29
    assert time.thread_time() - used < 0.02, "it spins instead of waiting"
    client.close(1, answers.done)


@contextmanager
def waiting(clients: int) -> Iterator[KafkaClient]:
    """Producers with a write each that nobody answers, as where a leader is cut off."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        client = writing(Librdkafka(), f"{host}:{port}", plan_for(clients=clients))
        for process in range(clients):
            client.submit(process, invoke("append", process, 0))
        client.poll(0.05, nothing)
        yield client
        client.close(0.1, lambda *_: None)


def nothing(process: int, ended: Completion) -> None:
    pytest.fail(f"process {process} ended: {ended}")


def library_calls(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waiting times for which producers are polled from now on."""
    calls: list[float] = []
    poll = LibrdkafkaProducer.poll

    def counted(one: LibrdkafkaProducer, timeout_s: float) -> int:
        calls.append(timeout_s)
        return poll(one, timeout_s)

    monkeypatch.setattr(LibrdkafkaProducer, "poll", counted)
    return calls


def test_what_is_silent_for_long_costs_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    with waiting(clients=3) as client:
        time.sleep(0.5)
        calls = library_calls(monkeypatch)
        for _ in range(30):
            client.poll(0.01, nothing)
    assert len(calls) <= 30 * 12, "all three, then twice: wait for one, and all three"


def test_less_than_a_millisecond_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with waiting(clients=1) as client:
        calls = library_calls(monkeypatch)
        began_s = time.monotonic()
        client.poll(0.0009, nothing)
        assert time.monotonic() - began_s >= 0.0009
        assert len(calls) <= 3


def test_one_poll_serves_every_producer(brokers: str) -> None:
    client = writing(Librdkafka(), brokers, plan_for({"linger.ms": 0}, clients=16))
    answers = Answers()
    for turn, patience_s in enumerate((0.2, 1, 5)):
        for process in range(16 * turn, 16 * turn + 16):
            assert client.submit(process, invoke("append", process, process % PARTITIONS))
        time.sleep(patience_s)  # for the producers' own threads; there is nothing to wait on
        before = len(answers)
        client.poll(0, answers.done)
        served = len(answers) - before
        if served >= 16:
            break
    client.close(5, answers.done)
    assert served >= 16
    assert {type_ for type_, *_ in answers.values()} == {OK}


def test_an_answer_is_seen_within_milliseconds(brokers: str) -> None:
    """One answer on the last of many producers is not waited for longer than a round."""
    client = writing(Librdkafka(), brokers, plan_for({"linger.ms": 0}, clients=16))
    answers = Answers()
    took = []
    for turn in range(30):
        began = time.monotonic()
        client.submit(16 * turn + 15, invoke("append", turn, 0))
        poll_until(client, answers, turn + 1)
        took.append(time.monotonic() - began)
    client.close(5, answers.done)
    assert min(took) < 0.01


@pytest.mark.parametrize("rate_per_s", [0, 300])
def test_a_whole_workload(library: Writer, brokers: str, tmp_path: Path, rate_per_s: float) -> None:
    plan = plan_for(processes=50, rate_per_s=rate_per_s, duration_s=0.5)
    with Recorder(tmp_path, run_id="r") as recorder:
        report = run_workload(
            Append(),
            writing(library, brokers, plan),
            plan=plan,
            recorder=recorder,
            clock=RunClock(),
            stop=threading.Event(),
        )
    rows = pq.read_table(tmp_path).to_pandas()
    assert report.attempted == (rows.type == "invoke").sum() > 40
    assert (rows.type == "ok").sum() == report.attempted
    written = rows[rows.type == "ok"]
    assert not written.duplicated(["partition", "offset"]).any()
    assert set(written.partition) == set(range(PARTITIONS))


def test_the_clients_of_one_run_are_gone_in_the_next(brokers: str, tmp_path: Path) -> None:
    """Else a worker fails after hundreds of runs: "Failed to initialize thread local storage"."""
    plan = plan_for(processes=5, rate_per_s=100, duration_s=0.1)
    clients: list[weakref.ref[KafkaClient]] = []

    def clients_after(number: int) -> int:
        client = writing(Librdkafka(), brokers, plan)
        clients.append(weakref.ref(client))
        (tmp_path / str(number)).mkdir()
        with Recorder(tmp_path / str(number), run_id="r") as recorder:
            run_workload(
                Append(),
                client,
                plan=plan,
                recorder=recorder,
                clock=RunClock(),
                stop=threading.Event(),
            )
        return sum(1 for each in clients if each() is not None)

    assert clients_after(1) == 1
    assert clients_after(2) == 1

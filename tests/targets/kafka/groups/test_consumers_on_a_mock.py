"""Consumers' processes over real sockets, against the mock brokers that librdkafka brings along.

The mock has groups with range assignment and committed offsets; it loses nothing and elects nobody,
so what is tested here is what processes do and report, by each library.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.plan import parse_plan
from harness.protocols.groups import KINDS, Delivery, GroupSettings
from harness.run.cells import group_of
from targets.kafka.groups.group import MODULES, ConsumerProcess
from targets.kafka.groups.settings import consumer_settings, named
from targets.kafka.plan import KafkaPlan
from tests.fixtures import budget

pytestmark = pytest.mark.real_time

RECORDS, PARTITIONS = 40, 4
Rows = list[Delivery]


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, Producer]]:
    """Addresses of mock brokers, and the producer in which they live."""
    producer = Producer({"test.mock.num.brokers": 3})
    found = producer.list_topics(timeout=10).brokers.values()
    addresses = ",".join(f"{each.host}:{each.port}" for each in found)
    yield addresses, producer
    producer.flush(5)


def topic(brokers: tuple[str, Producer], name: str) -> None:
    """A topic of its own, with records 0, 1, 2 ... over all partitions in turn."""
    _, producer = brokers
    producer.list_topics(name, timeout=10)  # the mock makes it, with its own number of partitions
    for value in range(RECORDS):
        producer.produce(name, str(value).encode(), partition=value % PARTITIONS)
    assert producer.flush(10) == 0


def started(
    brokers: tuple[str, Producer],
    name: str,
    library: str,
    rows: Rows,
    number: int = 1,
    **options: Any,
) -> ConsumerProcess:
    """A consumer of the topic's group."""
    plan = parse_plan(
        {
            "schema": 1, "name": "p", "topic": {"name": name, "partitions": PARTITIONS},
            "target": {"system": "kafka", "version": "4.3.1"},
            "workload": {"name": "consume", "options": options, "consumer_client": library},
        }
    )  # fmt: skip
    assert isinstance(plan, KafkaPlan)
    group = group_of(plan)
    assert isinstance(group, GroupSettings)
    settings = {**consumer_settings(plan, group), "bootstrap.servers": brokers[0]}
    settings = named(settings, plan.workload.consumer_client)
    if library == "kafka-python":  # it cannot read what the mock says of its versions
        settings["api_version"] = [2, 0]
    setup = {
        "settings": settings, "topic": name, "partitions": None, "commit": group.commit,
        "commit_partitions": group.commit_partitions,
        "batch_count": 5, "process_ms": group.process_ms,
    }  # fmt: skip
    return ConsumerProcess(library, setup, run_id="r", number=number, life=1, take=rows.extend)


def until(holds: Callable[[], bool], rows: Rows) -> None:
    """Wait for it; what was reported until then is shown whole, where it does not come."""
    deadline = time.monotonic() + 30.0
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail("\n".join(map(str, rows)))
        time.sleep(0.05)


def of(rows: Rows, kind: str, type_: str = "ok") -> Rows:
    return [row for row in rows if row.f == kind and row.type == type_]


def committed(rows: Rows) -> dict[int | None, int]:
    """The greatest offset that was committed of each partition: kafka-python reports the commits
    that ended between two polls in reverse order."""
    greatest: dict[int | None, int] = {}
    for row in of(rows, KINDS.commit):
        assert row.offset is not None
        greatest[row.partition] = max(row.offset, greatest.get(row.partition, 0))
    return greatest


@pytest.mark.parametrize("library", MODULES)
def test_a_consumer_reads_everything_and_commits_it(
    brokers: tuple[str, Producer], library: str
) -> None:
    """In each way to commit, side by side: a new group waits for seconds for further members."""
    reported = {commit: list[Delivery]() for commit in ("after", "before", "async", "auto")}
    ones = {}
    for commit, rows in reported.items():
        name = f"{library}-{commit}"
        topic(brokers, name)
        ones[commit] = started(brokers, name, library, rows, commit=commit, commit_interval_s=None)
    every = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    for commit, rows in reported.items():
        until(lambda rows=rows: committed(rows) == every, rows)
        ones[commit].send(signal.SIGTERM)
    for commit, rows in reported.items():
        ones[commit].wait(time.monotonic() + 30)
        assert_all_was_read_and_committed(rows, commit)


def assert_all_was_read_and_committed(rows: Rows, commit: str) -> None:
    end = RECORDS // PARTITIONS
    processed = [(row.partition, row.offset, row.value) for row in of(rows, KINDS.process)]
    assert sorted(processed) == [
        (p, o, o * PARTITIONS + p) for p in range(PARTITIONS) for o in range(end)
    ]
    assert {row.partition: row.offset for row in of(rows, KINDS.position)} == dict.fromkeys(
        range(PARTITIONS), end
    )
    assert {row.offset for row in of(rows, KINDS.committed)} == {None}
    assert all(row.member for row in of(rows, KINDS.process))
    assert rows[-1].f == KINDS.stop
    if commit != "auto":
        first = next(row for row in rows if row.f == KINDS.commit)
        assert first.type == "invoke"
        handled = rows.index(of(rows, KINDS.process)[0]) < rows.index(first)
        assert handled == (commit != "before"), commit


@pytest.mark.parametrize("library", ["librdkafka", *budget.full("kafka-python")])
def test_another_goes_on_where_a_killed_one_had_committed(
    brokers: tuple[str, Producer], library: str
) -> None:
    name, rows = f"{library}-killed", list[Delivery]()
    topic(brokers, name)
    one = started(brokers, name, library, rows, commit="after", process_ms=50, session_s=3)
    until(lambda: len(of(rows, KINDS.commit)) >= 2, rows)
    one.kill()
    assert not one.alive
    before, kept = committed(rows), list(rows)
    two = started(brokers, name, library, rows, number=2, commit="after", session_s=6)
    until(lambda: len({row.value for row in of(rows, KINDS.process)}) == RECORDS, rows)
    two.kill()
    assert (kept[-1].f, kept[-1].error) == (KINDS.stop, "SIGKILL")
    later = [row for row in rows[len(kept) :] if row.f == KINDS.committed]
    assert {row.partition: row.offset for row in later if row.offset is not None} == before

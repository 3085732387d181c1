"""The final read with both libraries, from a broker that holds what a test gave it."""

from __future__ import annotations

import gzip
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from harness.plan import Plan, parse_plan
from harness.protocols import End, Range
from targets.kafka.clients.library import CONFLUENT, OURS, READERS
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.target import Kafka
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.fake_kafka import FakeKafka, fake_kafka, flipped, own_host, record_set

pytestmark = pytest.mark.slow

Records = list[tuple[bytes | None, bytes | None]]
MAGICS = [0, 1, 2]
GZIP = 1


def cluster_at(host: str) -> Any:
    """A cluster of the broker at this address."""
    return SimpleNamespace(nodes={"b1": DryRunNode("b1", frozenset({"broker"}), host)})


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@contextmanager
def broker(**of: Any) -> Iterator[FakeKafka]:
    """A broker at the port that all brokers have."""
    with fake_kafka(host=own_host(), port=BROKER_PORT, **of) as fake:
        yield fake


def plan_for(partitions: int = 1, version: str = "4.3.1", **topic: Any) -> Plan:
    topic = {"partitions": partitions, "replication_factor": 1, **topic}
    target = {"brokers": 1, "version": version}
    return parse_plan({"schema": 1, "name": "t", "target": target, "topic": topic})


def read(
    fake: FakeKafka, reader: str, plan: Plan | None = None, timeout_s: float = 10
) -> tuple[pa.Table, list[End]]:
    cluster = cluster_at(fake.host)
    return Kafka().read_all(
        cluster, plan or plan_for(fake.partitions), reader=reader, timeout_s=timeout_s
    )


def only(fake: FakeKafka, reader: str, **of: Any) -> tuple[list[int], End]:
    """The values read of the only partition, and how far."""
    table, (end,) = read(fake, reader, **of)
    return table["value"].to_pylist(), end


def of_damaged(reader: str, log: bytes, **of: Any) -> list[int]:
    """The values read of a log that is never complete, and says why."""
    with broker(stored={0: log}, **of) as fake:
        values, end = only(fake, reader, timeout_s=1 if of else 10)
    assert not end.complete
    assert end.error
    return values


def numbers(*values: int) -> Records:
    return [(None, b"%010d" % value) for value in values]


def one_by_one(magic: int, records: Records, first: int = 0) -> bytes:
    """Each record in its own batch, as unhurried producers write."""
    return b"".join(
        record_set(magic, [record], first=place) for place, record in enumerate(records, first)
    )


@pytest.mark.parametrize("magic", MAGICS)
def test_a_whole_log_is_read_to_its_end(reader: str, magic: int) -> None:
    log = record_set(magic, numbers(5, 6, 7)) + one_by_one(magic, numbers(8, 9), 3)
    with broker(stored={0: log}) as fake:
        values, end = only(fake, reader)
    assert values == [5, 6, 7, 8, 9]
    assert (end.log_start_offset, end.end_offset, end.position) == (0, 5, 5)
    assert (end.complete, end.error) == (True, None)


def test_partitions_are_read_side_by_side(reader: str) -> None:
    stored = {p: record_set(2, numbers(*range(10 * p, 10 * p + p))) for p in range(1, 4)}
    with broker(stored=stored, partitions=4) as fake:
        table, ends = read(fake, reader)
    rows = zip(*(table[name].to_pylist() for name in ("partition", "offset", "value")), strict=True)
    assert sorted(rows) == [(p, at, 10 * p + at) for p in range(4) for at in range(p)]
    assert [end.complete for end in ends] == [True] * 4


@pytest.mark.parametrize("place", [0, 12], ids=["value", "checksum"])
@pytest.mark.parametrize("magic", MAGICS)
def test_a_flipped_bit_in_the_middle(reader: str, magic: int, place: int) -> None:
    """In the old formats each message has its own checksum, in the new one each batch has."""
    before, bad, after = (one_by_one(magic, numbers(v), first=v) for v in range(3))
    at = bad.index(b"0000000001") + 9 if place == 0 else (12 if magic < 2 else 17)
    with broker(stored={0: before + flipped(bad, at) + after}) as fake:
        values, end = only(fake, reader)
    assert values[0] == 0
    assert set(values) <= {0, 2}, "the damaged one was handed over"
    assert not end.complete
    assert end.error
    assert ("offset 1: its checksum is wrong" if reader == OURS else "_BAD_MSG") in end.error


@pytest.mark.parametrize("magic", MAGICS)
def test_a_flipped_bit_within_a_batch(reader: str, magic: int) -> None:
    log = record_set(magic, numbers(*range(5)))
    bad = flipped(log, log.index(b"0000000002") + 8) + one_by_one(magic, numbers(5), first=5)
    values = of_damaged(reader, bad)
    assert set(values) <= {0, 1, 3, 4, 5}
    assert values[:2] == ([0, 1] if magic < 2 else values[:2])


@pytest.mark.parametrize("magic", [0, 1])
def test_a_flipped_bit_before_it_was_compressed(reader: str, magic: int) -> None:
    """The message around the compressed ones has a right checksum, one of those in it a wrong."""
    inner = record_set(magic, numbers(0, 1, 2))
    bad = flipped(inner, inner.index(b"0000000001") + 9)
    assert 5 not in of_damaged(reader, _wrapped(magic, bad, last=2))


@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_messages_of_the_old_formats(reader: str, magic: int) -> None:
    log = _wrapped(magic, record_set(magic, numbers(0, 1, 2)), last=2)
    with broker(stored={0: log}) as fake:
        values, end = only(fake, reader)
    assert (values, end.complete) == ([0, 1, 2], True), end.error


def _wrapped(magic: int, inner: bytes, *, last: int) -> bytes:
    """Messages compressed by gzip within one, as a broker of the old formats stores them."""
    value = gzip.compress(inner)
    time_stamp = struct.pack(">q", 1000) if magic else b""
    body = struct.pack(">bb", magic, GZIP) + time_stamp + struct.pack(">ii", -1, len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", last, len(message)) + message


@pytest.mark.parametrize("bit", [0, 7], ids=["far away", "near"])
@pytest.mark.parametrize("magic", MAGICS)
def test_a_flipped_bit_in_an_offset(reader: str, magic: int, bit: int) -> None:
    """No checksum covers it: the position jumps, or a record comes twice or out of turn."""
    before, bad, after = (one_by_one(magic, numbers(v), first=v) for v in range(3))
    of_damaged(reader, before + flipped(bad, bit) + after, end={0: 3})


@pytest.mark.parametrize("magic", MAGICS)
def test_a_gap_is_reported_where_it_is(reader: str, magic: int) -> None:
    log = one_by_one(magic, numbers(0, 1)) + one_by_one(magic, numbers(4), first=4)
    with broker(stored={0: log}) as fake:
        values, end = only(fake, reader)
        compacted = plan_for(settings={"cleanup.policy": "compact"})
        again, of_compacted = only(fake, reader, plan=compacted)
    assert values == again == [0, 1, 4]
    assert (end.complete, end.error) == (False, "no record at offset 2: 4 came next")
    assert (of_compacted.complete, of_compacted.error) == (True, None)


def test_a_log_that_lacks_its_head_or_its_tail(reader: str) -> None:
    with broker(stored={0: one_by_one(2, numbers(2, 3), first=2)}) as fake:
        values, end = only(fake, reader)
        assert (values, end.error) == ([2, 3], "no record at offset 0: 2 came next")
        fake.start[0] = 2
        values, end = only(fake, reader)
        assert (values, end.complete, end.log_start_offset) == ([2, 3], True, 2)
        fake.end[0] = 9
        values, end = only(fake, reader, timeout_s=2)
        assert values == [2, 3]
        assert end.error in (
            "read up to offset 4, its end is 9",
            "no record at offset 4: 9 came next",
        )


def test_a_value_that_is_none_of_ours_is_negative(reader: str) -> None:
    strange = [None, b"", b"5", b"x", b"-000000001", b" 000000001", b"00000_0001", b"9" * 30]
    records = [*numbers(0), *((None, raw) for raw in strange), (None, b"\xff"), *numbers(9**12)]
    keyed = [(key or b"k", value) for key, value in records]  # a record has a key or a value
    with broker(stored={0: record_set(2, keyed)}) as fake:
        values, end = only(fake, reader)
    assert values == [0, *range(-2, -11, -1), 9**12]
    assert end.complete


@pytest.mark.parametrize("magic", MAGICS)
def test_keys_are_read_as_they_were_written(reader: str, magic: int) -> None:
    keys = [None, b"", b"k", "κ".encode(), b"\xff\x00k"]
    records = [(key, b"%010d" % value) for value, key in enumerate(keys)]
    with broker(stored={0: record_set(magic, records)}) as fake:
        table, (end,) = read(fake, reader)
    assert table["key"].to_pylist() == [None, "", "k", "κ", "\\xff\x00k"]
    assert table["value"].to_pylist() == [0, 1, 2, 3, -5], "a key that nobody writes never matches"
    assert end.complete


@pytest.mark.parametrize("code", [1, 2, 29, 76])
def test_an_error_of_a_broker_is_not_passed_over(reader: str, code: int) -> None:
    """OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, TOPIC_AUTHORIZATION_FAILED, a compression unknown."""
    stored = {p: record_set(2, numbers(p)) for p in range(2)}
    with broker(stored=stored, partitions=2, fetch_errors={1: code}) as fake:
        table, (_, end) = read(fake, reader, timeout_s=1)
    assert set(table["value"].to_pylist()) <= {0}
    assert not end.complete
    assert end.error


def test_a_connection_that_breaks_is_harmless(reader: str) -> None:
    with broker(stored={0: record_set(2, numbers(0, 1, 2))}, drop_fetches=2) as fake:
        values, end = only(fake, reader, timeout_s=20)
        assert fake.drop_fetches == 0
    assert (values, end.complete, end.error) == ([0, 1, 2], True, None)


def test_a_log_that_changes_while_it_is_read_is_read_again(reader: str) -> None:
    """A record is appended as soon as the first fetch was answered."""
    with broker(stored={0: record_set(2, numbers(0))}) as fake:
        fake.end[0] = 3  # the end is said to be where it will be

        def append() -> None:
            time.sleep(0.5)
            fake.stored[0] += record_set(2, numbers(1, 2, 3), first=1)
            del fake.end[0]

        thread = threading.Thread(target=append)
        thread.start()
        values, end = only(fake, reader)
        thread.join()
    assert (values, end.complete, end.end_offset) == ([0, 1, 2, 3], True, 4), end.error


def test_where_nobody_answers_nothing_is_complete(reader: str) -> None:
    cluster = cluster_at(own_host())
    table, (end,) = Kafka().read_all(cluster, plan_for(), reader=reader, timeout_s=0.5)
    assert (table.num_rows, end.complete) == (0, False)
    assert end.error == "no leader reported where it begins and ends"


def test_a_leader_that_does_not_let_clients_in_is_an_error(reader: str) -> None:
    """It reports where the log ends, and then its connections answer nothing."""
    with broker(stored={0: record_set(2, numbers(0))}, drop_fetches=1 << 30) as fake:
        values, end = only(fake, reader, timeout_s=1)
    assert (values, end.complete, end.position) == ([], False, 0)
    assert end.error == "read up to offset 0, its end is 1"


@pytest.mark.parametrize(
    ("version", "magic"),
    [("0.8.0", 0), ("0.8.1.1", 0), ("0.8.2.2", 0), ("0.9.0.1", 0), ("0.10.2.2", 1), ("2.8.2", 2)],
)
def test_a_flipped_bit_as_each_era_is_spoken_to(reader: str, version: str, magic: int) -> None:
    """Before 0.10 clients are configured for their brokers, and fetch by the oldest requests."""
    log = one_by_one(magic, numbers(0, 1, 2))
    with broker(stored={0: log}) as fake:
        values, end = only(fake, reader, plan=plan_for(version=version))
        assert (values, end.complete) == ([0, 1, 2], True), end.error
        fake.stored[0] = flipped(log, log.index(b"0000000001") + 9)
        values, end = only(fake, reader, plan=plan_for(version=version))
    assert values[:1] == [0]
    assert set(values) <= {0, 2}
    assert not end.complete
    assert end.error


# --- ranges -----------------------------------------------------------------------------------


def in_ranges(
    fake: FakeKafka, ranges: dict[int, list[tuple[int, int]]], timeout_s: float = 10
) -> tuple[list[tuple[int, int]], list[End]]:
    """(Partition, value) of each record, and how far."""
    cluster = cluster_at(fake.host)
    given = {partition: [Range(*each) for each in every] for partition, every in ranges.items()}
    plan: Any = plan_for(fake.partitions)
    table, ends = Kafka().read_ranges(
        cluster, plan, reader=CONFLUENT, ranges=given, timeout_s=timeout_s
    )
    assert set(table["reader"].to_pylist()) <= {READERS[1]}
    columns = (table[name].to_pylist() for name in ("partition", "value"))
    return list(zip(*columns, strict=True)), ends


def test_ranges_are_read_and_nothing_else() -> None:
    """Also within batches, of one record, and up to the end; not of a partition without any."""
    log = record_set(2, numbers(*range(50))) + one_by_one(2, numbers(*range(50, 60)), first=50)
    stored = {0: log, 1: record_set(2, numbers(100, 101))}
    with broker(stored=stored, partitions=3) as fake:
        found, ends = in_ranges(fake, {0: [(3, 5), (20, 21), (49, 60)], 1: [(0, 2)], 2: []})
    wanted = [3, 4, 20, *range(49, 60)]
    assert found == [*((0, value) for value in wanted), (1, 100), (1, 101)]
    assert [(end.partition, end.position, end.complete, end.error) for end in ends] == [
        (0, 60, True, None),
        (1, 2, True, None),
        (2, 0, True, None),
    ]
    assert ends[0].ranges == ((3, 5), (20, 21), (49, 60))


def test_ranges_that_cannot_be_read_are_not_complete() -> None:
    damaged = one_by_one(2, numbers(0, 1, 2))
    damaged = flipped(damaged, damaged.index(b"0000000001") + 9)
    stored = {0: damaged, 1: record_set(2, numbers(5)), 2: record_set(2, numbers(6, 7))}
    with broker(stored=stored, partitions=3) as fake:
        found, ends = in_ranges(fake, {0: [(0, 3)], 1: [(0, 4)], 2: [(1, 2)]}, timeout_s=1.5)
    assert {pair for pair in found if pair[0] != 0} <= {(1, 5), (2, 7)}
    assert [end.complete for end in ends][:2] == [False, False]
    assert ends[0].error


def test_ranges_of_a_cluster_that_does_not_answer() -> None:
    cluster = cluster_at(own_host())
    plan: Any = plan_for()
    table, (end,) = Kafka().read_ranges(
        cluster, plan, reader=CONFLUENT, ranges={0: [Range(0, 5)]}, timeout_s=0.5
    )
    assert (table.num_rows, end.complete, end.position) == (0, False, None)
    assert end.error

"""Reading a log back: ours beside librdkafka and kafka-python, records a second, as ratios.

One partition as a flat-out run leaves it: 1,000 processes of uneven speed write ten-digit values,
batches hold up to 8,000 records. A fake broker in its own process serves it over loopback, so
that fetching costs what it costs; the log is kafka-python's encoding. Libraries are given a part of
it, as they take minutes for the whole. What each reads is compared with what was written.

    python -m bench.final_read [RECORDS]
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import struct
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from kafka import KafkaConsumer, TopicPartition
from kafka.protocol.consumer import FetchResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from bench.made_runs import uneven
from harness.plan import parse_plan
from harness.protocols import End
from targets.kafka.brokers import Connections
from targets.kafka.clients.library import CONFLUENT, OURS
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import Source, read_from
from tests.fixtures.fake_kafka import FakeKafka, fake_kafka, own_host

Ints = npt.NDArray[np.int64]

RECORDS: Final = 1_500_000
LIBRARIES_RECORDS: Final = 150_000
BATCH: Final = 8_000
ROUNDS: Final = 3
BAR, AIM_PER_S = 5.0, 1_000_000
"""So many times as fast as the faster library; and on a calm machine."""


def encoded(values: Ints) -> Iterator[bytes]:
    """The batches of a log that holds these."""
    time_ms = 1_700_000_000_000
    for first in range(0, len(values), BATCH):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 24,
        )
        for place, value in enumerate(values[first : first + BATCH].tolist()):
            builder.append(place, time_ms + place // 100, None, b"%010d" % value, [])
        time_ms += BATCH // 100
        yield struct.pack(">q", first) + bytes(builder.build())[8:]


@dataclass
class Served(FakeKafka):
    """A broker that finds batches as a real one does, and fills a fetch."""

    batches: list[bytes] = field(default_factory=list)
    stored_end: int = 0

    def last(self, partition: int) -> int:  # noqa: ARG002
        """The end that it was given."""
        return self.end[0]

    def _records_from(self, asked: Any) -> Any:
        first = bisect_right(range(0, BATCH * len(self.batches), BATCH), asked.fetch_offset) - 1
        taken: list[bytes] = []
        room = asked.partition_max_bytes
        while first < len(self.batches) and (not taken or len(self.batches[first]) <= room):
            taken.append(self.batches[first])
            room -= len(taken[-1])
            first += 1
        there = asked.fetch_offset < self.stored_end
        return FetchResponse.FetchableTopicResponse.PartitionData(
            partition_index=0,
            error_code=0,
            high_watermark=self.end[0],
            last_stable_offset=self.end[0],
            log_start_offset=0,
            aborted_transactions=[],
            records=b"".join(taken) if there else b"",
        )


def serve(host: str, values: Ints, ready: Any) -> None:
    """Serve a log until the process is ended."""
    batches = list(encoded(values))
    with fake_kafka(
        Served, host=host, batches=batches, stored_end=len(values), end={0: len(values)}
    ) as fake:
        ready.send(fake.port)
        time.sleep(3600)


@contextmanager
def served(values: Ints) -> Iterator[str]:
    """The address of a broker, in its own process, that holds these."""
    host = own_host()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(host, values, theirs), daemon=True
    )
    process.start()
    theirs.close()  # if the process dies there is an end to wait for
    try:
        yield f"{host}:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


class Read(NamedTuple):
    """What a reader read, and how long that took."""

    values: Ints
    took_s: float


def end_of(size: int) -> End:
    """Where the served log ends, as its leader reports it."""
    return End(
        partition=0,
        log_start_offset=0,
        end_offset=size,
        position=None,
        leader="b1",
        leader_epoch=3,
        members=("b1",),
        complete=False,
    )


@contextmanager
def source_of(address: str, end: End) -> Iterator[Source]:
    """The broker at this address as what the final read reads from."""
    host, _, port = address.partition(":")
    with Connections({"b1": host}, int(port)) as connections:
        yield Source(addresses=address, ends=lambda: {0: end}, ask=connections.ask)


def by_readers(reader: str, address: str, size: int, plan: KafkaPlan) -> Read:
    """One of the final read's own readers, with all that it checks."""
    with source_of(address, end_of(size)) as source:
        begun = time.monotonic()
        table, (read,) = read_from(source, plan, reader=reader, timeout_s=600)
        took_s = time.monotonic() - begun
    assert read.position is not None, read.error
    assert read.position >= size, read.error
    return Read(table["value"].to_numpy()[:size], took_s)


def by_kafka_python(address: str, size: int, plan: KafkaPlan) -> Read:
    """Its consumer, and the number of each value."""
    place = TopicPartition(plan.topic.name, 0)
    begun = time.monotonic()
    consumer = KafkaConsumer(bootstrap_servers=address, group_id=None, max_poll_records=10_000)
    consumer.assign([place])
    consumer.seek(place, 0)
    values: list[int] = []
    while len(values) < size:
        for records in consumer.poll(timeout_ms=200).values():
            values += [int(record.value) for record in records]
    took_s = time.monotonic() - begun
    consumer.close()
    return Read(np.array(values[:size]), took_s)


def compare(address: str, values: Ints, plan: KafkaPlan) -> bool:
    """Let all read, in turns; whether they read the same, and ours meets the bar."""
    part = values[:LIBRARIES_RECORDS]
    readers: dict[str, tuple[Ints, Callable[[], Read]]] = {
        OURS: (values, lambda: by_readers(OURS, address, len(values), plan)),
        CONFLUENT: (part, lambda: by_readers(CONFLUENT, address, len(part), plan)),
        "kafka-python": (part, lambda: by_kafka_python(address, len(part), plan)),
    }
    rates: dict[str, list[float]] = {name: [] for name in readers}
    fair = True
    for _ in range(ROUNDS):
        for name, (wanted, reads) in readers.items():
            read = reads()
            fair = fair and bool(np.array_equal(read.values, wanted))
            rates[name].append(len(wanted) / read.took_s)
    medians = {name: statistics.median(each) for name, each in rates.items()}
    for name, rate in medians.items():
        print(f"  {name:16} {rate:12,.0f} records/s  {medians[OURS] / rate:6.1f} x", flush=True)
    ratio = medians[OURS] / max(medians[CONFLUENT], medians["kafka-python"])
    print(
        f"  bar {BAR:g} x the faster library: {'met' if ratio >= BAR else f'MISSED ({ratio:.1f})'}"
    )
    reached = "met" if medians[OURS] >= AIM_PER_S else "MISSED"
    print(f"  aim {AIM_PER_S:,} records/s, on a calm machine: {reached}")
    print(f"  all read what was written: {'yes' if fair else 'NO'}", flush=True)
    return fair and ratio >= BAR


def main(arguments: list[str]) -> int:
    """1 if the bar is missed or anything differs."""
    size = next((int(each) for each in arguments if each.isdigit()), RECORDS)
    plan = parse_plan({"schema": 1, "name": "bench", "topic": {"partitions": 1}})
    assert isinstance(plan, KafkaPlan)
    print(f"final read of {size:,} records, {os.getloadavg()[0]:.1f} load", flush=True)
    values = uneven(size)
    with served(values) as address:
        return 0 if compare(address, values, plan) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

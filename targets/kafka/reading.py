"""The final read: every partition from its log start to its end, with either reader: our own, or
librdkafka.

The start and end of each partition, its leader and epoch are noted before and after; when they
changed in between and the read is not complete, everything is read again. Reading is
read_uncommitted and fails on an offset reset: what is missing was not there.

A partition is complete when its end was known and stayed, the reader met no error, stopped exactly
there, and handed over one record for each offset in between: appends are not transactional, so no
control record takes an offset. Only compaction leaves gaps; a topic that is compacted may have them
inside.

Our own reader reads partitions one after the other, each from its leader, by Fetch requests. What
is tried again until the deadline, at the same position and with leaders looked up again: a
connection that breaks, no answer, and the errors of `_LATER`, which are those of a broker that does
not lead (any more). Every other error of a broker ends its partition's read, as damaged bytes do.

A consumer that meets an error may continue after it as if nothing had happened: librdkafka reports
a batch with a wrong checksum once, and hands over what follows. So every error is kept, by the
partition that it names or for all partitions if it names none, and no reader of the result takes a
partition with an error for complete. `HARMLESS` is the list of those that mean nothing here.

Records have the columns of `harness.history.READS`. A key is what was written: null, or text. What
cannot have been written by a workload gets a value that none writes, a negative one, which is never
attempted and so counts as unexpected: a value that is not a number as `producers` writes them, a
null or empty one, and any value whose key is not UTF-8; that key is shown with its bytes escaped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from numpy.typing import NDArray

from harness.faults.own_traffic import NoAnswer
from harness.history import READS
from harness.protocols import Cluster, End, NodeView, Range, with_role
from harness.run.observer import merge
from targets.kafka import wire
from targets.kafka.brokers import (
    EARLIEST,
    LATEST,
    NO_EPOCH,
    READ_UNCOMMITTED,
    Ask,
    Connections,
    ask_of,
    error_name,
    offset,
)
from targets.kafka.clients.library import CONFLUENT, OURS, bootstrap, librdkafka_protocol
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.modes import observe
from targets.kafka.plan import KafkaPlan
from targets.kafka.record_sets import NO_TIME, Bytes, Damaged, Ints, Records, Span, Texts, records
from targets.kafka.versions import lowest_version

HIGHEST_VERSION: Final = 10
"""Of Fetch: what comes later names topics by their ids, and knows no message format besides."""

_BYTES: Final = 8 << 20
_MOST_BYTES: Final = 64 << 20
_WAIT_MS: Final = 200
_ANSWER_S: Final = 10.0
_PAUSE_S: Final = 0.1
_LATER: Final = frozenset({3, 5, 6, 7, 8, 9, 13, 56, 74, 75, 78})
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT,
BROKER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, NETWORK_EXCEPTION, KAFKA_STORAGE_ERROR,
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE."""


def read_log(
    ask: Ask,
    leaders: Callable[[], Mapping[int, str | None]],
    topic: str,
    reading: Reading,
    deadline: float,
) -> None:
    """Read on until each partition is at its goal or has an error, or the deadline."""
    known = leaders()
    for partition, goal in sorted(reading.goals.items()):
        while reading.position[partition] < goal and partition not in reading.errors:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return
            try:
                _read_on(ask, known.get(partition), topic, partition, reading, left_s)
            except NoAnswer:
                time.sleep(min(_PAUSE_S, left_s))
                known = leaders()


def _read_on(
    ask: Ask, leader: str | None, topic: str, partition: int, reading: Reading, left_s: float
) -> None:
    """One fetch, larger ones where it does not hold a single batch. Raises NoAnswer."""
    if leader is None:
        raise NoAnswer(f"partition {partition} has no leader")
    position, size_bytes = reading.position[partition], _BYTES
    while True:
        request = _fetch_request(topic, partition, position, size_bytes)
        answer = ask(leader, request, timeout_s=min(_ANSWER_S, left_s))
        part = answer.responses[0].partitions[0]
        if part.error_code in _LATER:
            raise NoAnswer(f"{leader}: {error_name(part.error_code)}")
        if part.error_code:
            reading.fail(partition, f"{error_name(part.error_code)} at offset {position}")
            return
        reading.brokers.setdefault(partition, set()).add(leader)
        raw = bytes(part.records or b"")
        _take_records(raw, partition, reading)
        if not raw or partition in reading.errors or reading.position[partition] > position:
            return
        if len(raw) < size_bytes or size_bytes >= _MOST_BYTES:
            what = f"no complete batch, nor one that goes on behind it, in the {len(raw):,} bytes"
            where = f"partition {partition}, offset {position}"
            reading.fail(partition, f"damaged: {where}: {what} that are stored there")
            return
        size_bytes *= 2


def _take_records(raw: bytes, partition: int, reading: Reading) -> None:
    """The records of one answer, and what is wrong with them."""
    first = reading.position[partition]
    try:
        for found in records(raw):
            reading.add(partition, found, first=first)
            reading.spans.setdefault(partition, []).extend(found.spans)
            reading.reach(partition, found.next_offset)
    except Damaged as error:
        reading.fail(partition, f"damaged: partition {partition}, {error}")


def _fetch_request(topic: str, partition: int, position: int, size_bytes: int) -> Any:
    of_partition = wire.FetchRequest.FetchTopic.FetchPartition(
        partition=partition, fetch_offset=position, partition_max_bytes=size_bytes
    )
    return wire.FetchRequest(
        max_version=HIGHEST_VERSION,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=size_bytes,
        isolation_level=READ_UNCOMMITTED,
        topics=[wire.FetchRequest.FetchTopic(topic=topic, partitions=[of_partition])],
    )


HARMLESS: Final[Mapping[int, str]] = {
    KafkaError._TRANSPORT: "a connection broke: it connects and fetches again where it was",
    KafkaError._ALL_BROKERS_DOWN: "every connection broke: the same",
    KafkaError._RESOLVE: "a connection could not be made: the same",
    KafkaError._TIMED_OUT: "a request was not answered in time: it is sent again",
}
"""librdkafka's own codes for connections, and why they end no read: they move no position, and what
is fetched again is the same. The end of a partition (_PARTITION_EOF) is not an error. One that does
name a partition counts, and so does every code of a broker: a fully replicated cluster has none."""

_MESSAGES: Final = 10_000
_WAIT_S: Final = 0.2


def read_with_librdkafka(
    addresses: str, plan: KafkaPlan, reading: Reading, deadline: float, more: Mapping[str, Any] = {}
) -> None:
    """Read on until it has ended, or the deadline. `more`: how the cluster is reached, beside its
    addresses."""
    places = [TopicPartition(plan.topic.name, p, first) for p, first in reading.starts.items()]
    with _consumer(addresses, plan, more, reading) as consumer:
        consumer.assign(places)
        while not reading.ended() and time.monotonic() < deadline:
            _take_messages(consumer.consume(_MESSAGES, timeout=_WAIT_S), reading)


def _read_range(
    consumer: Consumer, topic: str, partition: int, each: Range, reading: Reading, deadline: float
) -> None:
    """Read on in one partition until the range has ended, an error, or the deadline."""
    consumer.assign([TopicPartition(topic, partition, each.first)])
    one = Reading(starts={partition: each.first}, goals={partition: each.behind})
    while not one.ended() and time.monotonic() < deadline:
        room = min(_MESSAGES, each.behind - one.position[partition])
        found = consumer.consume(room, timeout=_WAIT_S)
        _take_messages([m for m in found if m.error() or m.offset() in range(*each)], one)
    reading.tables += one.tables
    reading.reach(partition, one.position[partition])
    for error in one.errors.values():
        reading.fail(partition, error)


@contextmanager
def _consumer(
    addresses: str, plan: KafkaPlan, more: Mapping[str, Any], reading: Reading
) -> Iterator[Consumer]:
    """A consumer that is closed; what ends it is an error of every partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": addresses,
            "group.id": "ackloss-final-read",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "error",
            "check.crcs": True,
            **librdkafka_protocol(plan),
            **more,
        }
    )
    try:
        yield consumer
    except KafkaException as error:
        reading.fail(None, _named(error.args[0]))
    finally:
        consumer.close()


def _take_messages(messages: Sequence[Any], reading: Reading) -> None:
    came: dict[int, list[Message]] = {}
    for message in messages:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is None:
            row = Message(offset, message.key(), message.value(), message.leader_epoch())
            came.setdefault(partition, []).append(row)
        elif error.code() == KafkaError._PARTITION_EOF:
            reading.reach(partition, offset)
        elif error.fatal() or error.code() not in HARMLESS or partition in reading.starts:
            reading.fail(partition if partition in reading.starts else None, _named(error))
    for partition, rows in came.items():
        reading.add(partition, of_messages(rows), first=0)
        reading.reach(partition, rows[-1].offset + 1)


def _named(error: KafkaError) -> str:
    return f"{error.name()}: {error.str()}"


_TRIES: Final = 3
_POLICIES: Final = ("cleanup.policy", "log.cleanup.policy")


@contextmanager
def source_of(cluster: Cluster, plan: KafkaPlan) -> Iterator[Source]:
    """One of our own clusters as the source to read from."""
    names = {node.name: node.address for node in with_role(cluster, "broker")}

    def ends() -> dict[int, End]:
        answers = [observe(node, plan, timeout_s=2) for node in cluster.nodes.values()]
        return ends_of(ask_of(cluster.nodes, plan), [view for view in answers if view], plan)

    with Connections(names, BROKER_PORT, lowest_version(plan)) as connections:
        yield Source(addresses=bootstrap(cluster), ends=ends, ask=connections.ask)


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is read: the brokers' addresses, how the partitions' ends are determined and a broker
    is queried, and what librdkafka needs beside the addresses."""

    addresses: str
    ends: Callable[[], dict[int, End]]
    ask: Ask
    librdkafka: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def leaders(self) -> Mapping[int, str | None]:
        """Who leads each partition now."""
        return {partition: end.leader for partition, end in self.ends().items()}


def read_from(
    source: Source, plan: KafkaPlan, *, reader: str, timeout_s: float
) -> tuple[pa.Table, list[End]]:
    """Read every partition with the named reader: see `Target.read_all`."""
    deadline = time.monotonic() + timeout_s
    for _ in range(_TRIES):
        before = source.ends()
        reading = Reading(
            starts={p: end.log_start_offset or 0 for p, end in before.items()},
            goals={p: end.end_offset for p, end in before.items() if end.end_offset is not None},
        )
        if not reading.ended() and reader == OURS:
            read_log(source.ask, source.leaders, plan.topic.name, reading, deadline)
        elif not reading.ended():
            read_with_librdkafka(source.addresses, plan, reading, deadline, source.librdkafka)
        after = source.ends()
        ends = [_judged(end, after[p], reading, plan) for p, end in sorted(before.items())]
        if all(end.complete for end in ends) or not _changed(before, after):
            break
    return reading.table(reader), ends


def read_ranges_from(
    source: Source, plan: KafkaPlan, ranges: Mapping[int, Sequence[Range]], *, timeout_s: float
) -> tuple[pa.Table, list[End]]:
    """Read ranges of partitions by librdkafka: see `Target.read_ranges`. Where each partition ends
    is as the library itself determines."""
    deadline, met = time.monotonic() + timeout_s, dict[int, int]()
    reading = Reading(
        starts={p: each[0].first for p, each in ranges.items() if each},
        goals={p: each[-1].behind for p, each in ranges.items() if each},
    )
    with _consumer(source.addresses, plan, source.librdkafka, reading) as consumer:
        for partition, of_partition in ranges.items():
            for each in of_partition:
                _read_range(consumer, plan.topic.name, partition, each, reading, deadline)
            place = TopicPartition(plan.topic.name, partition)
            left_s = max(0.1, deadline - time.monotonic())
            _, met[partition] = consumer.get_watermark_offsets(place, timeout=left_s)
    return reading.table(CONFLUENT), [
        _judged_ranges(end, reading, ranges[partition], met.get(partition))
        for partition, end in sorted(source.ends().items())
        if partition in ranges
    ]


def _judged_ranges(end: End, reading: Reading, ranges: Sequence[Range], met: int | None) -> End:
    """What was read of a partition, whose end the library `met`."""
    wanted = [np.empty(0, np.int64), *(np.arange(*each) for each in ranges)]
    why = reading.errors.get(end.partition)
    if why is None and met is None:
        why = "its end was not reported"
    if why is None and not np.array_equal(reading.offsets(end.partition), np.concatenate(wanted)):
        why = "not every offset of its ranges was read"
    return replace(end, position=met, complete=why is None, error=why, ranges=tuple(ranges))


def _changed(before: Mapping[int, End], after: Mapping[int, End]) -> bool:
    """Whether the log changed meanwhile: then, and only then, another attempt makes sense."""
    place = attrgetter("log_start_offset", "end_offset", "leader_epoch", "leader")
    return any(place(end) != place(after[p]) for p, end in before.items())


def _judged(before: End, after: End, reading: Reading, plan: KafkaPlan) -> End:
    requested = {**plan.target.settings, **plan.topic.settings}
    compacted = any("compact" in str(requested.get(policy, "")) for policy in _POLICIES)
    why = _why_not(before, after, reading, compacted=compacted)
    position = reading.position[before.partition]
    return replace(before, position=position, complete=why is None, error=why)


def _why_not(before: End, after: End, reading: Reading, *, compacted: bool) -> str | None:
    """Why it is not certain that everything was read; null if it is."""
    partition, start, end = before.partition, before.log_start_offset, before.end_offset
    if start is None or end is None:
        return "no leader reported where it begins and ends"
    if error := reading.errors.get(partition):
        return error
    if (after.leader_epoch, after.end_offset) != (before.leader_epoch, end):
        was, became = f"{before.leader_epoch}, {end}", f"{after.leader_epoch}, {after.end_offset}"
        return f"leader epoch and end changed from {was} to {became} while it was read"
    if after.leader != before.leader:  # brokers before 2.1 report no epoch to clients
        return f"its leader changed from {before.leader} to {after.leader} while it was read"
    if before.leader_epoch == NO_EPOCH and len(brokers := reading.brokers.get(partition, ())) > 1:
        return f"it was read from several leaders, {', '.join(sorted(brokers))}"
    if (position := reading.position[partition]) != end:
        return f"read up to offset {position}, its end is {end}"
    return _gap(reading.offsets(partition), start, end, compacted=compacted)


def _gap(offsets: NDArray[np.int64], start: int, end: int, *, compacted: bool) -> str | None:
    """The first offset that does not follow the one before it; null if all do."""
    steps = np.diff(offsets, prepend=start - 1, append=end)
    wrong = np.flatnonzero(steps < 1 if compacted else steps != 1)
    if not wrong.size:
        return None
    at = int(wrong[0])
    last, step = int([start - 1, *offsets[:at]][-1]), int(steps[at])
    if step < 1 and at == len(offsets):
        return f"offset {last} is not before the end, {end}"
    if step < 1:
        return f"offset {last + step} came after {last}"
    return f"no record at offset {last + 1}: {last + step} came next"


def ends_of(ask: Ask, answers: Sequence[NodeView], plan: KafkaPlan) -> dict[int, End]:
    """Log start and end of every partition as its leader reports them; the leader is the one that
    all nodes' answers together name."""
    views = merge(0, [(0, view) for view in answers]).partitions
    ends = {}
    for partition in range(plan.topic.partitions):
        view = views.get(partition)
        leader = view.leader if view else None
        start, end = (
            offset(ask, leader, plan.topic.name, partition, which) if leader else None
            for which in (EARLIEST, LATEST)
        )
        ends[partition] = End(
            partition=partition,
            log_start_offset=start,
            end_offset=end,
            leader=leader,
            leader_epoch=view.leader_epoch if view else None,
            members=view.members if view else (),
        )
    return ends


DIGITS, MOST_DIGITS = 10, 18
"""How many digits a value has: ten, or as many more as it needs."""

_Numbers = TypeVar("_Numbers", int, Ints)
_COLUMNS: Final = pa.schema([one for one in READS if one.name not in ("run_id", "reader")])
_KEY: Final = READS.field("key").type


def key_of(raw: bytes) -> tuple[str, bool]:
    """A key as text, and whether it is one that a workload may write."""
    try:
        return raw.decode(), True
    except UnicodeDecodeError:
        return raw.decode(errors="backslashreplace"), False


def value_of(raw: bytes | None, offset: int) -> int:
    """The number, if it is written as ackloss writes numbers: ten digits, or more without a zero
    in front."""
    if raw and raw.isdigit():
        digits = len(raw)
        if digits == DIGITS or (DIGITS < digits <= MOST_DIGITS and raw[0] != ord("0")):
            return int(raw)
    return never(offset)


def never(offset: _Numbers) -> _Numbers:
    """A value that no workload writes, one for each offset."""
    return -1 - offset


class Message(NamedTuple):
    """A record as a client library hands it over."""

    offset: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int | None


def of_messages(messages: Sequence[Message]) -> Records:
    """The same, as what a broker stores is decoded."""
    texts = [message.key for message in messages] + [message.value for message in messages]
    size = np.array([-1 if text is None else len(text) for text in texts], np.int64)
    at, rows = np.cumsum(size.clip(min=0)) - size.clip(min=0), len(messages)
    offsets = np.array([message.offset for message in messages], np.int64)
    return Records(
        buffer=np.frombuffer(b"".join(text or b"" for text in texts), np.uint8),
        offset=offsets,
        timestamp_ms=np.full(rows, NO_TIME),
        leader_epoch=np.array([NO_EPOCH if e is None else e for *_, e in messages], np.int64),
        key=Texts(at[:rows], size[:rows]),
        value=Texts(at[rows:], size[rows:]),
        next_offset=int(offsets[-1]) + 1,
    )


def values(buffer: Bytes, text: Texts, offset: Ints) -> Ints:
    """The numbers, where they are written as ackloss writes numbers; else what none writes."""
    value = never(offset)
    for digits in range(DIGITS, MOST_DIGITS + 1):
        chosen = np.flatnonzero(text.size == digits)
        if not chosen.size:
            continue
        at, number = text.at[chosen], np.zeros(len(chosen), np.int64)
        right = np.ones(len(chosen), np.bool_)
        for place in range(digits):
            digit = buffer[at + place] - np.uint8(ord("0"))
            right &= digit < 10
            number = number * 10 + digit
            if place == 0 and digits > DIGITS:
                right &= digit != 0
        value[chosen[right]] = number[right]
    return value


def keys(buffer: Bytes, text: Texts) -> tuple[pa.DictionaryArray, NDArray[np.bool_]]:
    """The keys, and which of them are none that a workload writes."""
    strange = np.zeros(len(text.size), np.bool_)
    if (text.size < 0).all():
        return pa.nulls(len(strange), _KEY), strange
    size = text.size.clip(min=0)
    ends = np.cumsum(size)
    taken = np.arange(ends[-1]) + np.repeat(text.at - (ends - size), size)
    starts = np.concatenate([[0], ends])
    raw = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(size),
        [None, pa.py_buffer(starts.tobytes()), pa.py_buffer(buffer[taken].tobytes())],
    ).dictionary_encode()
    read = [key_of(key) for key in raw.dictionary.to_pylist()]
    names = {name: code for code, name in enumerate(dict.fromkeys(name for name, _ in read))}
    codes = np.array([names[name] for name, _ in read], np.int32)[raw.indices.to_numpy()]
    strange = np.array([not ours for _, ours in read])[raw.indices.to_numpy()] & (text.size >= 0)
    indices = pa.array(codes, mask=text.size < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), pa.string())), strange


@dataclass
class Reading:
    """One reader's progress from `starts` to `goals`, offsets by partition: the records that it has
    read, in the order in which they came, the next offset, and the first error of each partition.
    `spans`: batches of transactions, of a reader that hands them over; one may come twice.
    `brokers`: which ones records came from, of a reader that knows."""

    starts: Mapping[int, int]
    goals: Mapping[int, int]
    tables: list[pa.Table] = field(default_factory=list)
    position: dict[int, int] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    spans: dict[int, list[Span]] = field(default_factory=dict)
    brokers: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.position = dict(self.starts)

    def add(self, partition: int, records: Records, *, first: int) -> None:
        """Records of one partition that are at the offset `first` or after it, read now."""
        value = values(records.buffer, records.value, records.offset)
        key, strange = keys(records.buffer, records.key)
        value = np.where(strange, never(records.offset), value)
        rows, epoch = len(value), records.leader_epoch.astype(np.int32)
        table = pa.table(
            {
                "key": key,
                "partition": np.full(rows, partition, np.int32),
                "offset": records.offset,
                "value": value,
                "leader_epoch": pa.array(epoch, mask=epoch < 0),
                "time_ns": np.full(rows, time.monotonic_ns()),
            },
            schema=_COLUMNS,
        )
        wanted = records.offset >= first
        self.tables.append(table if wanted.all() else table.filter(pa.array(wanted)))

    def reach(self, partition: int, offset: int) -> None:
        """The next offset to be read is this, or a later one."""
        self.position[partition] = max(offset, self.position[partition])

    def fail(self, partition: int | None, error: str) -> None:
        """It met an error; null: one that names no partition."""
        for each in self.starts if partition is None else [partition]:
            self.errors.setdefault(each, error)

    def offsets(self, partition: int) -> NDArray[np.int64]:
        """Those of one partition, in the order in which they came."""
        there = (
            table["offset"].to_numpy()
            for table in self.tables
            if table.num_rows and table["partition"][0].as_py() == partition
        )
        return np.concatenate([np.empty(0, np.int64), *there])

    def table(self, reader: str) -> pa.Table:
        """All records as rows of READS without their run."""
        rows = pa.concat_tables([_COLUMNS.empty_table(), *self.tables])
        of = np.zeros(rows.num_rows, np.int32)
        return rows.append_column("reader", pa.DictionaryArray.from_arrays(of, pa.array([reader])))

    def ended(self) -> bool:
        """Whether there is nothing to wait for: each partition is at its goal, or has an error."""
        return all(
            self.position[partition] >= goal or partition in self.errors
            for partition, goal in self.goals.items()
        )

"""What takes part in transactions: a transactional producer of either library, a member of the
group that consumes inputs, a consumer that polls all partitions on the way, and two final reads.

A producer is one instance, from its start, which fences those before it, to its end. The Java
client's is at the other end of a connection: the lines that `Transactor.java` explains.

The member reads what has committed, from the offset that the group has stored. Where a transaction
did not certainly commit, it goes back to what is stored: a consumer's own position has gone past
what is not processed yet.

A read_committed consumer takes the last stable offset for the end, and so gets nothing after an
open transaction. So the final read waits until both isolation levels name the same end of a
partition, and reads up to there. librdkafka filters what a broker returns by the list of aborted
transactions that the broker sends along. Our own reader trusts neither: it gets everything, and
says of each record whether it committed by the markers in the log itself.
"""

from __future__ import annotations

import logging
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from harness.models.micro_ops import (
    DISCARDED,
    END,
    POLL,
    REBALANCED,
    STORED,
    WHOLE,
    MicroOp,
    elements_of,
)
from harness.protocols import (
    FAIL,
    INFO,
    OK,
    Bools,
    Cluster,
    Completion,
    Ints,
    completion,
    with_role,
)
from harness.protocols.groups import NOT_AT_END, READ_COMMITTED
from targets.kafka import brokers
from targets.kafka.clients.java import LOST, Line, Lost, Refused
from targets.kafka.clients.library import bootstrap
from targets.kafka.groups.librdkafka import membership
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import Reading, read_log, read_with_librdkafka, source_of, value_of
from targets.kafka.record_sets import Span
from targets.kafka.transactions.settings import Logs

Answered = Callable[[int, int], object]
"""Takes the value and the offset of a send that was acknowledged."""


class ClientError(Exception):
    """What a library could not do, by the name of the error. `aborts`: what is open can be aborted,
    and the instance then continues."""

    def __init__(self, name: str, *, aborts: bool = False) -> None:
        super().__init__(name)
        self.name, self.aborts = name, aborts


class Consumed(NamedTuple):
    """How far a member of a group has consumed: offsets by partition of one topic. `metadata`:
    which member, as librdkafka says it."""

    metadata: object
    topic: str
    offsets: Mapping[int, int]


class TransactionalProducer(ABC):
    """One instance; it has fenced those before it when it is made. Used by one thread. All that
    waits raises ClientError."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Send a value; it is answered while a thread serves."""

    @abstractmethod
    def serve(self, wait_s: float) -> None:
        """Take answers for at most so long; returns when some have come."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether sends are not answered yet."""

    @abstractmethod
    def store(self, consumed: Consumed, within_s: float) -> None:
        """Have the transaction take offsets of a group along."""

    @abstractmethod
    def commit(self, within_s: float) -> None:
        """Commit."""

    @abstractmethod
    def abort(self, within_s: float) -> None:
        """Abort."""

    @abstractmethod
    def abandon(self) -> None:
        """Do nothing more: nothing is flushed, aborted or closed. What is open is left to its
        coordinator."""


Begin = Callable[[Answered], TransactionalProducer]
"""Makes an instance. Raises ClientError."""


_PRODUCER_LOG: Final = logging.getLogger("ackloss.kafka.producer")

_CALL_S: Final = 3.0
"""How long librdkafka waits within one call; it continues with the same call again."""


@contextmanager
def named() -> Iterator[None]:
    """What librdkafka raises, by its name."""
    try:
        yield
    except KafkaException as error:
        why = error.args[0]
        raise ClientError(str(why.name()), aborts=why.txn_requires_abort()) from error
    except BufferError as error:
        raise ClientError("_QUEUE_FULL") from error


class LibrdkafkaProducer(TransactionalProducer):
    """See `TransactionalProducer`. It is not closed, which would abort, also while another call of
    it is in progress: it ends with its last reference."""

    def __init__(self, settings: Mapping[str, str], answered: Answered, *, within_s: float) -> None:
        self._answered = answered
        self._one = Producer(dict(settings), logger=_PRODUCER_LOG)
        with named():
            self._one.init_transactions(within_s)

    def begin(self) -> None:
        with named():
            self._one.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        with named():
            self._one.produce(topic, value, partition=partition, on_delivery=self._delivered)

    def serve(self, wait_s: float) -> None:
        with named():
            self._one.poll(wait_s)

    @property
    def waits(self) -> bool:
        return len(self._one) > 0

    def store(self, consumed: Consumed, within_s: float) -> None:
        places = [TopicPartition(consumed.topic, *each) for each in consumed.offsets.items()]
        with named():
            self._one.send_offsets_to_transaction(places, consumed.metadata, within_s)

    def commit(self, within_s: float) -> None:
        _again(self._one.commit_transaction, within_s)

    def abort(self, within_s: float) -> None:
        _again(self._one.abort_transaction, within_s)

    def abandon(self) -> None:
        with suppress(KafkaException):
            self._one.purge(blocking=False)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and value is not None:
            self._answered(int(value), offset)


def _again(call: Callable[[float], object], within_s: float) -> None:
    """Go on with a call that is not over yet."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            call(min(_CALL_S, within_s))
        except KafkaException as error:
            if error.args[0].retriable() and time.monotonic() < deadline:
                continue
            with named():
                raise
        return


_TIMED_OUT: Final = "_TIMED_OUT"
_NO_MEMBER: Final = "_NO_MEMBER"
_WRITTEN_S: Final = 0.05
_LOCAL_S: Final = 5.0
"""How long a call without a request to a broker may take."""

Connect = Callable[[float], Line]
"""Begins a producer within so many seconds. Raises Lost, Refused."""


class JavaProducer(TransactionalProducer):
    """See `TransactionalProducer`. After a failed commit an instance is not used again: what it may
    still do is not queried."""

    def __init__(self, connect: Connect, answered: Answered, *, within_s: float) -> None:
        self._answered, self._waiting = answered, set[int]()
        try:
            self._line = connect(within_s)
        except (Lost, Refused) as error:
            raise ClientError(LOST) from error
        try:
            self._ask("init", within_s)
        except ClientError:
            self.abandon()
            raise

    def begin(self) -> None:
        self._ask("transaction", _LOCAL_S)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._waiting.add(int(value))
        self._line.say(f"send {topic} {partition} {value.decode()}")
        self._flush()

    def serve(self, wait_s: float) -> None:
        for words in self._heard(wait_s):
            self._take(words)

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def store(self, consumed: Consumed, within_s: float) -> None:
        who = membership(consumed.metadata)
        if who is None or not who.member:
            raise ClientError(_NO_MEMBER)
        offsets = ",".join(f"{partition}={at}" for partition, at in consumed.offsets.items())
        group = f"{who.generation} {who.group} {who.member}"
        self._ask(f"offsets {consumed.topic} {group} {offsets}", within_s)

    def commit(self, within_s: float) -> None:
        self._ask("commit", within_s)

    def abort(self, within_s: float) -> None:
        self._ask("abort", within_s)

    def abandon(self) -> None:
        """See `TransactionalProducer`: the connection ends, and the producer with it."""
        self._line.socket.close()

    def _ask(self, line: str, within_s: float) -> None:
        """Say what is answered once it is done. Where that takes too long, the instance is not used
        again: the answer may come later. Raises ClientError."""
        deadline = time.monotonic() + within_s
        self._line.say(line)
        self._flush()
        while (left_s := deadline - time.monotonic()) > 0:
            ended: list[bytes] = []
            for words in self._heard(left_s):
                if words[0] in (b"done", b"failed"):
                    ended = words
                else:
                    self._take(words)
            if ended[:1] == [b"failed"]:
                raise ClientError(ended[1].decode())
            if ended:
                return
        self.abandon()
        raise ClientError(_TIMED_OUT)

    def _take(self, words: list[bytes]) -> None:
        value = int(words[0])
        self._waiting.discard(value)
        if words[1] == b"sent":
            self._answered(value, int(words[2]))

    def _heard(self, wait_s: float) -> list[list[bytes]]:
        try:
            select.select([self._line.socket], [], [], wait_s)
            return self._line.answers()
        except (Lost, ValueError) as error:  # ValueError: it was closed
            raise ClientError(LOST) from error

    def _flush(self) -> None:
        try:
            while not self._line.flush():
                select.select([], [self._line.socket], [], _WRITTEN_S)
        except (OSError, ValueError) as error:
            raise ClientError(LOST) from error


# librdkafka's own log lines: where the command line sends them, and nowhere if it does not.
_CONSUMER_LOG: Final = logging.getLogger("ackloss.kafka.consumer")
_CONSUMER_LOG.addHandler(logging.NullHandler())

_WAIT_S: Final = 0.3
_STORED_S: Final = 5.0


class GroupConsumer:
    """A consumer of the first topic that is made when it is needed. Used by one thread."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._consumer: Consumer | None = None
        self._moved: set[int] = set()
        self._back = False

    @named()
    def poll(self, at_most: int) -> list[MicroOp]:
        """The next records, and which partitions came or went meanwhile. Raises ClientError."""
        consumer = self._subscribed()
        self._moved.clear()
        if self._back:
            self._go_back(consumer)
        polled: list[MicroOp] = []
        for message in consumer.consume(at_most, timeout=_WAIT_S):
            partition, offset = message.partition(), message.offset()
            if (error := message.error()) is not None:
                raise KafkaException(error)
            if partition is not None and offset is not None:
                value = value_of(message.value(), offset)
                polled.append(MicroOp(POLL, partition, offset, value))
        return [*(MicroOp(REBALANCED, each) for each in sorted(self._moved)), *polled]

    def consumed(self, polled: Iterable[MicroOp]) -> Consumed:
        """How far this member of the group has consumed with these records. Raises ClientError."""
        behind = {each.key: each.offset + 1 for each in polled if each.kind == POLL}
        with named():
            return Consumed(self._subscribed().consumer_group_metadata(), self._topic, behind)

    def commit(self, consumed: Consumed) -> None:
        """Store offsets outside of any transaction. Raises ClientError."""
        places = [TopicPartition(consumed.topic, *each) for each in consumed.offsets.items()]
        with named():
            self._subscribed().commit(offsets=places, asynchronous=False)

    def go_back(self) -> None:
        """Begin the next poll where the group has stored."""
        self._back = True

    def close(self) -> None:
        """Leave the group."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def crash(self) -> None:
        """Be gone without a word: without `close` it neither leaves the group nor commits, and the
        group waits for it until its session ends."""
        self._consumer = None

    def _subscribed(self) -> Consumer:
        if self._consumer is None:
            self._consumer, self._back = Consumer(dict(self._settings), logger=_CONSUMER_LOG), False
            self._consumer.subscribe(
                [self._topic], on_assign=self._dealt, on_revoke=self._dealt, on_lost=self._dealt
            )
        return self._consumer

    def _dealt(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._moved.update(each.partition for each in places)

    def _go_back(self, consumer: Consumer) -> None:
        """To what is stored, which waits for transactions that have stored and not ended."""
        try:
            own = consumer.assignment()
            for place in consumer.committed(own, timeout=_STORED_S) if own else ():
                if place.error is not None:
                    raise KafkaException(place.error)
                place.offset = max(0, place.offset)
                consumer.seek(place)
        except KafkaException:
            self.close()  # the next one begins there
            raise
        self._back = False


_BATCH: Final = 500
_POLL_S: Final = 0.2
_AGAIN_S: Final = 0.2
_READ_S: Final = 30.0
_RESET: Final = "_AUTO_OFFSET_RESET"


class Poller:
    """A consumer with all logs assigned, made when it is needed. What it returns are
    micro-operations of `kind`. Used by one thread."""

    def __init__(self, settings: Mapping[str, Any], logs: Logs, kind: int = POLL) -> None:
        self._settings, self._logs, self._kind = settings, logs, kind
        self._positions = dict.fromkeys(range(len(logs)), 0)
        self._consumer: Consumer | None = None

    def poll(self) -> Completion:
        """The next records. Where the consumer's position is not in the log any more (a partition
        was truncated after it) it is info: the process that follows begins at 0."""
        try:
            messages = self._assigned().consume(_BATCH, timeout=_POLL_S)
        except KafkaException as raised:
            self.close()
            return completion(FAIL, error=str(raised.args[0].name()))
        polled, why = [], None
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                why = _RESET if error.code() == KafkaError._AUTO_OFFSET_RESET else error.name()
                if why == _RESET:
                    break
            elif partition is not None and offset is not None:
                value = value_of(message.value(), offset)
                key = self._logs.key(message.topic(), partition)
                polled.append(MicroOp(self._kind, key, offset, value))
                self._positions[key] = offset + 1
        if why == _RESET:
            self.close()
            self._positions = dict.fromkeys(self._positions, 0)
            return completion(INFO, error=why, result=elements_of(*polled))
        if why is not None and not polled:
            return completion(FAIL, error=why)
        return completion(OK, result=elements_of(*polled))

    def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _assigned(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(dict(self._settings), logger=_CONSUMER_LOG)
            self._consumer.assign(
                [TopicPartition(*self._logs.place(k), at) for k, at in self._positions.items()]
            )
        return self._consumer


def stable_ends(
    cluster: Cluster, logs: Logs, keys: Sequence[int], within_s: float
) -> dict[int, int] | None:
    """Where logs end, once both isolation levels name one end of each; `None`: one has none in
    time."""
    deadline = time.monotonic() + within_s
    ends: dict[int, int] = {}
    while missing := [key for key in keys if key not in ends]:
        for key in missing:
            if (end := _end(cluster, logs.topic(key).plan, key % logs.partitions)) is not None:
                ends[key] = end
        if time.monotonic() > deadline:
            return None
        if len(ends) < len(keys):
            time.sleep(_AGAIN_S)
    return ends


def read_to_the_end(
    cluster: Cluster, plan: KafkaPlan, goals: Mapping[int, int], *, whole: bool
) -> list[MicroOp] | str:
    """All records of some partitions of a topic up to their goals: those that have committed, by
    librdkafka, or the `whole` log by our own reader, whatever committed; a text: why they were not
    read."""
    reading = Reading(starts=dict.fromkeys(goals, 0), goals=goals)
    deadline = time.monotonic() + _READ_S
    if whole:
        with source_of(cluster, plan) as source:
            read_log(source.ask, source.leaders, plan.topic.name, reading, deadline)
    else:
        more = {"isolation.level": READ_COMMITTED}
        read_with_librdkafka(bootstrap(cluster), plan, reading, deadline, more)
    if reading.errors or not reading.ended():
        return next(iter(reading.errors.values()), NOT_AT_END).partition(":")[0]
    try:
        found = list(_all_records(reading) if whole else _records(reading))
    except Open:
        return NOT_AT_END
    return [*found, *(MicroOp(WHOLE if whole else END, key, end) for key, end in goals.items())]


def _end(cluster: Cluster, plan: KafkaPlan, partition: int) -> int | None:
    """Where a partition ends, once no transaction is open in it, as its leader says."""
    ask, topic = brokers.ask_of(cluster.nodes, plan), plan.topic.name
    for node in with_role(cluster, "broker"):
        ends = {
            brokers.offset(ask, node.name, topic, partition, brokers.LATEST, isolation=level)
            for level in (brokers.READ_COMMITTED, brokers.READ_UNCOMMITTED)
        }
        if len(ends) == 1 and (end := ends.pop()) is not None:
            return end
    return None


def _records(reading: Reading) -> Iterator[MicroOp]:
    table = reading.table("")
    columns = (table[name].to_pylist() for name in ("partition", "offset", "value"))
    return (MicroOp(POLL, *each) for each in zip(*columns, strict=True))


class Open(Exception):
    """A log has records whose transaction has no marker in it."""


def aborted(offsets: Ints, spans: Iterable[Span]) -> Bools:
    """Which of the records at these offsets were aborted, as a marker says; those of no transaction
    were not. Raises Open."""
    open_: dict[int, list[Span]] = {}
    gone: list[Span] = []
    for span in sorted(set(spans), key=lambda each: each.first):
        if span.commits is None:
            open_.setdefault(span.producer, []).append(span)
        elif (ended := open_.pop(span.producer, None)) and not span.commits:
            gone += ended
    if open_:
        raise Open
    gone.sort(key=lambda each: each.first)
    firsts, behinds = (np.array([each[n] for each in gone], np.int64) for n in (1, 2))
    before = np.searchsorted(firsts, offsets, side="right") - 1
    found: Bools = (before >= 0) & (offsets < np.append(behinds, 0)[before])
    return found


def _all_records(reading: Reading) -> Iterator[MicroOp]:
    table = reading.table("")
    partition, offset, value = (table[name].to_numpy() for name in ("partition", "offset", "value"))
    for number in reading.goals:
        rows = np.flatnonzero(partition == number)
        kinds = np.where(aborted(offset[rows], reading.spans.get(number, ())), DISCARDED, STORED)
        columns = (kinds, offset[rows], value[rows])
        for kind, at, each in zip(*(column.tolist() for column in columns), strict=True):
            yield MicroOp(kind, number, at, each)

"""Transactions on Kafka as a client of the harness: each process has a producer and a consumer of
its own, in its own thread. They are made when they are needed."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from harness.models.micro_ops import (
    DISCARDED,
    END,
    STORED,
    UNCOMMITTED,
    WHOLE,
    MicroOp,
    elements_of,
    micro_ops,
)
from harness.protocols import (
    FAIL,
    OK,
    BlockingClient,
    Bools,
    Client,
    Cluster,
    Completion,
    Ints,
    Invoke,
    completion,
)
from harness.protocols.transactions import NOT_AT_END, READ_UNCOMMITTED
from harness.run.blocking import ThreadedClient
from harness.run.cells import transactions_of
from targets.kafka.clients import library_of
from targets.kafka.clients.java.library import reported_by
from targets.kafka.clients.java.lines import DRIVER_PORT, Line, Lost, Refused
from targets.kafka.clients.library import bootstrap, bootstrap_of
from targets.kafka.consumers import Reading
from targets.kafka.log_reader.fetching import read_log
from targets.kafka.log_reader.records import Span
from targets.kafka.membership import membership
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import source_of
from targets.kafka.transactions.consuming import GroupConsumer
from targets.kafka.transactions.librdkafka import LibrdkafkaProducer
from targets.kafka.transactions.polling import Poller, read_to_the_end, stable_ends
from targets.kafka.transactions.producing import (
    Answered,
    Begin,
    ClientError,
    Consumed,
    TransactionalProducer,
)
from targets.kafka.transactions.settings import (
    TIMEOUT,
    by_java,
    consumer_settings,
    given_settings,
    producer_settings,
    timeout_s,
    transactional_id,
)
from targets.kafka.transactions.topics import Logs
from targets.kafka.transactions.writing import TransactionWriter

# A transactional producer of Kafka's Java client, at the other end of a connection: the lines that
# `Transactor.java` explains.

LOST: Final = "_CLIENT_LOST"
"""The error where the JVM is gone."""

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
        """See `TransactionalProducer`."""
        self._ask("transaction", _LOCAL_S)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        """See `TransactionalProducer`."""
        self._waiting.add(int(value))
        self._line.say(f"send {topic} {partition} {value.decode()}")
        self._flush()

    def serve(self, wait_s: float) -> None:
        """See `TransactionalProducer`."""
        for words in self._heard(wait_s):
            self._take(words)

    @property
    def waits(self) -> bool:
        """See `TransactionalProducer`."""
        return bool(self._waiting)

    def store(self, consumed: Consumed, within_s: float) -> None:
        """See `TransactionalProducer`."""
        who = membership(consumed.metadata)
        if who is None or not who.member:
            raise ClientError(_NO_MEMBER)
        offsets = ",".join(f"{partition}={at}" for partition, at in consumed.offsets.items())
        group = f"{who.generation} {who.group} {who.member}"
        self._ask(f"offsets {consumed.topic} {group} {offsets}", within_s)

    def commit(self, within_s: float) -> None:
        """See `TransactionalProducer`."""
        self._ask("commit", within_s)

    def abort(self, within_s: float) -> None:
        """See `TransactionalProducer`."""
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
            ended: list[bytes] | None = None
            for words in self._heard(left_s):
                if words[0] in (b"done", b"failed"):
                    ended = words
                else:
                    self._take(words)
            if ended is not None:
                if ended[0] == b"failed":
                    raise ClientError(ended[1].decode())
                return
        self.abandon()
        raise ClientError(_TIMED_OUT)

    def _take(self, words: list[bytes]) -> None:
        """A send was answered."""
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


# A second reader of logs with transactions: our own, which gets everything, and says of each
# record whether it committed by the markers in the log itself.
#
# The consumers of the workload are librdkafka's, which filters what a broker returns by the list of
# aborted transactions that the broker sends along. Here neither is trusted: batches and markers are
# read as they are stored (`targets.kafka.log_reader`).

_READ_S: Final = 30.0


def read_whole(cluster: Cluster, plan: KafkaPlan, goals: Mapping[int, int]) -> list[MicroOp] | str:
    """All records of some partitions of a topic up to their goals, whatever committed; a text: why
    they were not read."""
    deadline = time.monotonic() + _READ_S
    reading = Reading(starts=dict.fromkeys(goals, 0), goals=goals)
    with source_of(cluster, plan) as source:

        def leaders() -> Mapping[int, str | None]:
            return {partition: end.leader for partition, end in source.ends().items()}

        read_log(source.ask, leaders, plan.topic.name, reading, deadline)
    if reading.errors or not reading.ended():
        return next(iter(reading.errors.values()), NOT_AT_END).partition(":")[0]
    try:
        found = list(_records(reading))
    except Open:
        return NOT_AT_END
    return [*found, *(MicroOp(WHOLE, key, end) for key, end in goals.items())]


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


def _records(reading: Reading) -> Iterator[MicroOp]:
    table = reading.table("")
    partition, offset, value = (table[name].to_numpy() for name in ("partition", "offset", "value"))
    for number in reading.goals:
        rows = np.flatnonzero(partition == number)
        kinds = np.where(aborted(offset[rows], reading.spans.get(number, ())), DISCARDED, STORED)
        columns = (kinds, offset[rows], value[rows])
        for kind, at, each in zip(*(column.tolist() for column in columns), strict=True):
            yield MicroOp(kind, number, at, each)


_CHECKED_EVERY_S = 10.0
"""How often a coordinator looks for transactions that have timed out, unless configured otherwise.
"""
_MARGIN_S = 10.0


class TransactionClient(BlockingClient):
    """The clients of one process. `close` may come from another thread while `call` waits: then the
    call ends them."""

    def __init__(self, cluster: Cluster, plan: KafkaPlan, number: int) -> None:
        requested = transactions_of(plan)
        assert requested is not None
        self._cluster, self._plan, self._requested = cluster, plan, requested
        self._logs = Logs(plan)
        reached = _reached(cluster, plan, number)
        self._consumer: GroupConsumer | None = None
        if number in requested.dealt(plan.workload.processes)[0]:
            takes = {**consumer_settings(plan, processors=True), **reached}
            self._consumer = GroupConsumer(takes, plan.topic.name)
        self._writer = TransactionWriter(
            _producers(cluster, plan, number),
            self._logs.place,
            requested,
            within_s=timeout_s(plan),
            consumer=self._consumer,
        )
        reads = {**consumer_settings(plan), **reached}
        self._poller = Poller(reads, self._logs)
        everything = {**reads, "isolation.level": READ_UNCOMMITTED}
        self._uncommitted = Poller(everything, self._logs, UNCOMMITTED)
        self._used, self._closed = threading.Lock(), False

    def call(self, op: Invoke) -> Completion:
        """See `BlockingClient`."""
        with self._used:
            ended = self._call(op)
        if self._closed:
            self.close()
        return ended

    def close(self) -> None:
        """See `BlockingClient`."""
        self._closed = True
        if self._used.acquire(blocking=False):
            try:
                self._writer.close()
                self._poller.close()
                self._uncommitted.close()
                if self._consumer is not None:
                    self._consumer.close()
            finally:
                self._used.release()

    def _call(self, op: Invoke) -> Completion:
        f, _, _, _, expected = op
        if f == "txn":
            return self._writer.run(op)
        if f == "subscribe":  # its consumer joins the group with its first poll
            return completion(OK, result=expected if isinstance(expected, tuple) else None)
        requested = list(micro_ops(expected)) if isinstance(expected, tuple) else []
        keys = [each.key for each in requested if each.kind in (END, WHOLE)]
        if not keys:
            return (self._uncommitted if requested else self._poller).poll()
        within_s = timeout_s(self._plan) + _CHECKED_EVERY_S + _MARGIN_S
        goals = stable_ends(self._cluster, self._logs, keys, within_s)
        if goals is None:
            return completion(FAIL, error=NOT_AT_END)
        found: list[MicroOp] = []
        for topic in self._logs.topics:
            ends = topic.partitions_of(goals)
            if f == "read-log":
                read = read_whole(self._cluster, topic.plan, ends)
            else:
                read = read_to_the_end(self._cluster, topic.plan, ends)
            if isinstance(read, str):
                return completion(FAIL, error=read)
            found += (each._replace(key=topic.first + each.key) for each in read)
        return completion(OK, result=elements_of(*found))


def _reached(cluster: Cluster, plan: KafkaPlan, number: int) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap_of(number, bootstrap(cluster), plan),
        "client.id": f"ackloss-{number + 1}",
    }


def _producers(cluster: Cluster, plan: KafkaPlan, number: int) -> Begin:
    """Makes the instances of a process's producer."""
    settings = {
        **producer_settings(plan),
        **_reached(cluster, plan, number),
        "transactional.id": transactional_id(plan, number),
    }
    within_s = timeout_s(plan)
    if not by_java(plan):
        return lambda answered: LibrdkafkaProducer(settings, answered, within_s=within_s)
    connect = partial(_line, cluster, plan, number, settings)
    return lambda answered: JavaProducer(connect, answered, within_s=within_s)


def _line(
    cluster: Cluster, plan: KafkaPlan, number: int, settings: Mapping[str, str], within_s: float
) -> Line:
    """A connection to the JVM of a process: the processes are distributed over the nodes of
    clients. Raises Lost, Refused."""
    names = library_of(plan).names(plan)
    at = (cluster.nodes[names[number % len(names)]].address, DRIVER_PORT)
    return Line(at, plan.topic.name, settings, within_s=within_s)


def reported_settings(cluster: Cluster, plan: KafkaPlan) -> dict[str, str]:
    """What producers have: as one reports itself, where it can. Raises PlanError."""
    requested = producer_settings(plan)
    if not by_java(plan):
        return requested
    begin = partial(_line, cluster, plan, 0, {**requested, **_reached(cluster, plan, 0)})
    reported = reported_by(begin, given_settings(plan), library_of(plan).software(plan))
    return {**reported, TIMEOUT: requested[TIMEOUT]}


def transaction_client(cluster: Cluster, plan: KafkaPlan) -> Client:
    """The clients of all processes of a plan."""
    return ThreadedClient(
        lambda number: TransactionClient(cluster, plan, number),
        threads=plan.workload.processes,
        pinned=True,
    )

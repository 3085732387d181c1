"""Transactions on Kafka as a client of the harness: each process has a producer and a consumer of
its own, in its own thread. They are made when they are needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial

from harness.models.micro_ops import END, UNCOMMITTED, WHOLE, MicroOp, elements_of, micro_ops
from harness.protocols import (
    FAIL,
    OK,
    BlockingClient,
    Client,
    Cluster,
    Completion,
    Invoke,
    completion,
)
from harness.protocols.transactions import NOT_AT_END, READ_UNCOMMITTED
from harness.run.blocking import ThreadedClient
from harness.run.workload import transactions_of
from targets.kafka.clients import library_of
from targets.kafka.clients.java.library import reported_by
from targets.kafka.clients.java.lines import DRIVER_PORT, Line
from targets.kafka.clients.library import bootstrap, bootstrap_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.consuming import GroupConsumer
from targets.kafka.transactions.java import JavaProducer
from targets.kafka.transactions.librdkafka import LibrdkafkaProducer
from targets.kafka.transactions.polling import Poller, read_to_the_end, stable_ends
from targets.kafka.transactions.producing import Begin
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
from targets.kafka.transactions.whole import read_whole
from targets.kafka.transactions.writing import TransactionWriter

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

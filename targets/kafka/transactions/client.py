"""Transactions on Kafka as a client of the harness: each process has a producer and a consumer
of its own, in its own thread, made when they are needed. The outcome of a transaction:

    ok    the commit was acknowledged
    fail  the commit was never requested: it was to be aborted, a send could not be made, or the
          process crashed before; or another instance had taken over before the commit was
          requested, and it was not acknowledged: brokers promise that nothing of it is visible
    info  the commit was requested and did not succeed, whatever the answer: a broker may have
          committed and its answer be lost, or answer an error for a commit that it has done

After a failure that an abort does not resolve, such as being fenced, the instance is of no
use: the next transaction makes another one of the same transactional id, which fences the old one
and has its open transaction aborted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Final

from harness.models.micro_ops import (
    ABORT,
    COMMIT,
    CONSUME,
    CRASH,
    END,
    FENCE,
    OFFSETS,
    POLL,
    SEND,
    UNCOMMITTED,
    WHOLE,
    MicroOp,
    elements_of,
    micro_ops,
)
from harness.protocols import (
    FAIL,
    INFO,
    NULL,
    OK,
    BlockingClient,
    Client,
    Cluster,
    Completion,
    Invoke,
    completion,
)
from harness.protocols.groups import (
    ABORTED,
    CRASHED,
    NOT_AT_END,
    READ_UNCOMMITTED,
    TAKEN_OVER,
    TransactionSettings,
)
from harness.run.cells import transactions_of
from harness.run.client_pool import ThreadedClient
from targets.kafka.clients import library_of
from targets.kafka.clients.java import DRIVER_PORT, Line, reported_by
from targets.kafka.clients.library import bootstrap, bootstrap_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.instances import (
    Begin,
    ClientError,
    GroupConsumer,
    JavaProducer,
    LibrdkafkaProducer,
    Poller,
    TransactionalProducer,
    read_to_the_end,
    stable_ends,
)
from targets.kafka.transactions.settings import (
    TIMEOUT,
    Logs,
    by_java,
    consumer_settings,
    given_settings,
    producer_settings,
    timeout_s,
    transactional_id,
)

_BETWEEN_S: Final = 0.05
_CRASHES_S: Final = 0.005
"""How long a process that crashes in its commit has waited for the answer."""
_ENDS: Final = frozenset({COMMIT, ABORT, CRASH})


class Ended(Exception):
    """A transaction that does not continue: how it ended, and why."""

    def __init__(self, outcome: str, error: str) -> None:
        super().__init__(error)
        self.outcome, self.error = outcome, error


class TransactionWriter:
    """A producer that is made when it is needed, with the consumer whose offsets its transactions
    take along. Used by one thread."""

    def __init__(
        self,
        instance: Begin,
        place: Callable[[int], tuple[str, int]],
        requested: TransactionSettings,
        *,
        within_s: float,
        consumer: GroupConsumer | None = None,
    ) -> None:
        """`instance` makes a producer; `place`: the topic and partition of a log; `within_s`: how
        long beginning, sending and committing may take each."""
        self._new, self._place, self._consumer = instance, place, consumer
        self._requested, self._within_s = requested, within_s
        self._producer: TransactionalProducer | None = None
        self._abandoned: list[TransactionalProducer] = []
        self._next: TransactionalProducer | None = None
        self._delivered_at: dict[int, int] = {}
        self._sent: list[MicroOp] = []
        self._polled: list[MicroOp] = []

    def run(self, op: Invoke) -> Completion:
        """Run one transaction, of which an operation says what steps it takes."""
        expected = op[4]
        steps = list(micro_ops(expected)) if isinstance(expected, tuple) else []
        self._delivered_at.clear()
        self._sent.clear()
        self._polled.clear()
        outcome, error = OK, None
        try:
            self._take(steps)
        except Ended as ended:
            outcome, error = ended.outcome, ended.error
        if self._consumer is not None and outcome != OK:
            self._consumer.go_back()
        done = [
            *self._polled,
            *(e._replace(offset=self._delivered_at.get(e.value, NULL)) for e in self._sent),
        ]
        if self._next is not None:
            done.append(MicroOp(FENCE))
            successor, self._next = self._next, None
            self.close()
            self._producer = successor
        if steps and steps[0].kind == CONSUME:
            inputs = sum(each.kind == POLL for each in self._polled)
            done.insert(0, MicroOp(CONSUME, value=inputs))
        return completion(outcome, error=error, result=elements_of(*done) if done else None)

    def _take(self, steps: list[MicroOp]) -> None:
        """Take all steps, and commit where they do not say how it ends. Raises Ended."""
        if steps and steps[0].kind == CONSUME:
            steps = self._consume(steps)
            if not steps:
                return
        producer = self._begun()
        if not any(each.kind in _ENDS for each in steps):
            steps = [*steps, MicroOp(COMMIT)]
        for step, after in pairwise([*steps, MicroOp(COMMIT)]):
            if step.kind == SEND:
                self._send(producer, step)
                continue
            self._flush(producer)
            if step.kind == OFFSETS:
                self._store(producer)
            elif step.kind == FENCE:
                try:  # another instance starts; this one continues and does not know
                    self._next = self._instance()
                except ClientError as error:
                    self._fail(error.name, error)
            elif step.kind == ABORT:
                self._abort()
                raise Ended(FAIL, ABORTED)
            elif step.kind == COMMIT:
                self._commit(producer, crashes=after.kind == CRASH)
            elif step.kind == CRASH:
                self._crash()
                raise Ended(FAIL, CRASHED)

    def close(self) -> None:
        """End the instance; what is open is left to its coordinator."""
        for producer in (self._producer, self._next):
            if producer is not None:
                producer.abandon()
        self._producer = self._next = None
        self._abandoned.clear()

    def _consume(self, steps: list[MicroOp]) -> list[MicroOp]:
        """Poll inputs; the steps that are left, with a send for each. Raises Ended."""
        assert self._consumer is not None
        try:
            self._polled += self._consumer.poll(steps[0].value)
        except ClientError as error:
            raise Ended(FAIL, error.name) from error
        inputs = sum(each.kind == POLL for each in self._polled)
        if not inputs:
            return []
        sends = [each for each in steps if each.kind == SEND][:inputs]
        return [each for each in steps[1:] if each.kind != SEND or each in sends]

    def _begun(self) -> TransactionalProducer:
        """An instance whose transaction has begun. Raises Ended."""
        try:
            if self._producer is None:
                self._producer = self._instance()
            self._producer.begin()
        except ClientError as error:
            self.close()
            raise Ended(FAIL, error.name) from error
        return self._producer

    def _instance(self) -> TransactionalProducer:
        """Another instance, which fences those before it. Raises ClientError."""
        producer = self._new(self._delivered_at.__setitem__)
        self._abandoned.clear()
        return producer

    def _send(self, producer: TransactionalProducer, step: MicroOp) -> None:
        topic, partition = self._place(step.key)
        self._sent.append(step)
        try:
            producer.send(topic, partition, b"%010d" % step.value)
            deadline = time.monotonic() + self._requested.pause_ms / 1000
            while (left_s := deadline - time.monotonic()) > 0:
                producer.serve(left_s)
        except ClientError as error:
            self._fail(error.name, error)

    def _flush(self, producer: TransactionalProducer) -> None:
        """Wait until all sends are answered. Raises Ended."""
        deadline = time.monotonic() + self._within_s
        try:
            while len(self._delivered_at) < len(self._sent) and producer.waits:
                if time.monotonic() > deadline:
                    self._fail("_TIMED_OUT")
                    return
                producer.serve(_BETWEEN_S)
        except ClientError as error:
            self._fail(error.name, error)
        if len(self._delivered_at) < len(self._sent):
            self._fail("_UNDELIVERED")

    def _store(self, producer: TransactionalProducer) -> None:
        """Store how far the group has consumed: in the transaction, or by itself. Raises Ended."""
        assert self._consumer is not None
        try:
            consumed = self._consumer.consumed(self._polled)
            if self._requested.offsets == "transaction":
                producer.store(consumed, self._within_s)
            else:
                self._consumer.commit(consumed)
        except ClientError as error:
            if self._requested.offsets != "after":
                self._fail(error.name, error)

    def _commit(self, producer: TransactionalProducer, *, crashes: bool) -> None:
        """Commit; raises Ended where that did not succeed, or the process `crashes` meanwhile."""
        if crashes:
            with suppress(ClientError):
                producer.commit(_CRASHES_S)
            self._crash()
            raise Ended(INFO, CRASHED)
        try:
            producer.commit(self._within_s)
        except ClientError as error:
            if self._next is not None:
                raise Ended(FAIL, TAKEN_OVER) from error
            if error.aborts:
                self._abort()
            else:
                self.close()
            raise Ended(INFO, error.name) from error

    def _fail(self, error: str, why: Exception | None = None) -> None:
        """A step before the commit has failed: abort, and raise Ended; an instance that was taken
        over continues instead, because it does not know."""
        if self._next is None:
            self._abort()
            raise Ended(FAIL, error) from why

    def _crash(self) -> None:
        """Abandon the producer as it is, and the consumer. Nothing of it is flushed, aborted or
        closed before another instance has taken over."""
        if self._producer is not None:
            self._producer.abandon()
            self._abandoned.append(self._producer)
            self._producer = None
        if self._consumer is not None:
            self._consumer.crash()

    def _abort(self) -> None:
        """Abort what is open; an instance that cannot is given up."""
        if self._producer is None:
            return
        try:
            self._producer.abort(self._within_s)
        except ClientError:
            self.close()


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
        with self._used:
            ended = self._call(op)
        if self._closed:
            self.close()
        return ended

    def close(self) -> None:
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
            read = read_to_the_end(self._cluster, topic.plan, ends, whole=f == "read-log")
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

"""Transactions on Kafka as a client of the harness: each process has a producer and a consumer of
its own, in a thread of its own. They are made when they are needed."""

from __future__ import annotations

import threading

from harness.models.micro_ops import END, WHOLE, micro_ops
from harness.protocols import (
    FAIL,
    BlockingClient,
    Client,
    Cluster,
    Completion,
    Invoke,
    completion,
)
from harness.protocols.transactions import NOT_AT_END
from harness.run.blocking import ThreadedClient
from harness.run.workload import transactions_of
from targets.kafka.clients.library import bootstrap, bootstrap_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.polling import Poller, read_to_the_end, stable_ends
from targets.kafka.transactions.settings import (
    consumer_settings,
    producer_settings,
    timeout_s,
    transactional_id,
)
from targets.kafka.transactions.whole import read_whole
from targets.kafka.transactions.writing import TransactionWriter

_CHECKED_EVERY_S = 10.0
"""How often a coordinator looks for transactions that have timed out, unless told otherwise."""
_MARGIN_S = 10.0


class TransactionClient(BlockingClient):
    """The clients of one process. `close` may come from another thread while `call` waits: then the
    call ends them."""

    def __init__(self, cluster: Cluster, plan: KafkaPlan, number: int) -> None:
        asked = transactions_of(plan)
        assert asked is not None
        self._cluster, self._plan, self._isolation = cluster, plan, asked.isolation
        reached = {
            "bootstrap.servers": bootstrap_of(number, bootstrap(cluster), plan),
            "client.id": f"ackloss-{number + 1}",
        }
        writes = {
            **producer_settings(plan),
            **reached,
            "transactional.id": transactional_id(plan, number),
        }
        self._writer = TransactionWriter(
            writes, plan.topic.name, pause_ms=asked.pause_ms, within_s=timeout_s(plan)
        )
        reads = {**consumer_settings(plan), **reached}
        self._poller = Poller(reads, plan.topic.name, plan.topic.partitions)
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
            finally:
                self._used.release()

    def _call(self, op: Invoke) -> Completion:
        f, _, _, _, expected = op
        if f == "txn":
            return self._writer.run(op)
        if not isinstance(expected, tuple):
            return self._poller.poll()
        keys = [each.key for each in micro_ops(expected) if each.kind in (END, WHOLE)]
        within_s = timeout_s(self._plan) + _CHECKED_EVERY_S + _MARGIN_S
        if (goals := stable_ends(self._cluster, self._plan, keys, within_s)) is None:
            return completion(FAIL, error=NOT_AT_END)
        if f == "read-log":
            return read_whole(self._cluster, self._plan, goals)
        return read_to_the_end(self._cluster, self._plan, goals, self._isolation)


def transaction_client(cluster: Cluster, plan: KafkaPlan) -> Client:
    """The clients of all processes of a plan."""
    return ThreadedClient(
        lambda number: TransactionClient(cluster, plan, number),
        threads=plan.workload.processes,
        pinned=True,
    )

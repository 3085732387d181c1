"""Writes to Kafka: librdkafka producers that many processes share.

Each process belongs to one producer. A write is found again by its value when its delivery report
comes, so nothing is made per message but one entry of a table. Values are at least ten digits of
decimal text. Reports are served only from `poll` and `close`, in the caller's thread, and so their
times are those at which the caller could know.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from itertools import cycle
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from harness.plan import Plan
from harness.protocols import FAIL, INFO, OK, Completion, Done, Invoke, completion
from targets.kafka.outcomes import outcome
from targets.kafka.producer_settings import attempts_once, effective_settings

_SLICE_S: Final = 0.001
"""How long one producer is waited for while others may have reports: latency that it can add."""

_PURGED_S: Final = 1.0

# librdkafka's own log lines: where the command line sends them, and nowhere if it does not.
_LOG: Final = logging.getLogger("ackloss.kafka.producer")
_LOG.addHandler(logging.NullHandler())


class KafkaClient:
    """See `harness.protocols.Client`. `bootstrap` is a list of host:port, comma separated."""

    def __init__(self, bootstrap: str, plan: Plan) -> None:
        settings = effective_settings(plan.workload.producer)
        self._topic = plan.topic.name
        self._only_attempt = attempts_once(settings)
        self._pending: dict[bytes, int] = {}
        self._refused: list[tuple[int, Completion]] = []
        self._done: Done
        self._producers = [
            self._producer(bootstrap, settings, number) for number in range(plan.workload.clients)
        ]
        self._clients = len(self._producers)
        self._produce = [producer.produce for producer in self._producers]
        self._turns = cycle(self._producers)

    def _producer(self, bootstrap: str, settings: Mapping[str, str], number: int) -> Producer:
        ours = {
            "bootstrap.servers": bootstrap,
            "client.id": f"ackloss-{number}",
            "on_delivery": self._delivered,
        }
        return Producer({**settings, **ours}, logger=_LOG)

    def submit(self, process: int, op: Invoke) -> bool:
        """Queue a write. False: the producer's queue is full."""
        _, value, partition, key = op
        raw = b"%010d" % value
        try:
            self._produce[process % self._clients](self._topic, raw, key, partition)
        except BufferError:
            return False
        except KafkaException as error:  # raised before it was queued: surely not written
            self._refused.append((process, completion(FAIL, error=error.args[0].name())))
        else:
            self._pending[raw] = process
        return True

    def poll(self, timeout_s: float, done: Done) -> None:
        """Serve every producer's reports; waits on one after the other, a millisecond each."""
        self._done = done
        if self._serve() or timeout_s <= 0:
            return
        deadline = time.monotonic() + timeout_s
        slice_s = _SLICE_S if self._pending else timeout_s
        while True:
            served = next(self._turns).poll(slice_s)
            if self._serve() or served or time.monotonic() >= deadline:
                return

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is queued, at most so long; purge the rest, which ends in info."""
        self._done = done
        deadline = time.monotonic() + timeout_s
        self._serve()
        for producer in self._producers:
            producer.flush(max(0.0, deadline - time.monotonic()))
        for producer in self._producers:
            producer.purge()
            producer.flush(_PURGED_S)
            producer.close()
        for process in self._pending.values():
            done(process, completion(INFO, error="_UNREPORTED"))
        self._pending.clear()

    def _serve(self) -> int:
        """Complete what is known, without waiting; how many events that were."""
        events = len(self._refused)
        for process, refusal in self._refused:
            self._done(process, refusal)
        self._refused.clear()
        for producer in self._producers:
            events += producer.poll(0)
        return events

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        process = self._pending.pop(message.value() or b"")
        if error is None:
            self._done(process, (OK, message.offset(), None, None))
        else:
            ended = outcome(error.code(), only_attempt=self._only_attempt)
            self._done(process, completion(ended.type, error=error.name()))

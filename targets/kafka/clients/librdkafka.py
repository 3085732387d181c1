"""Writes to Kafka by librdkafka (confluent-kafka), and how one of its producers crashes.

librdkafka's queue is shared with its own threads; reports are served from its `poll`. A producer's
threads are known from its start: the last of them to end, librdkafka's main thread of the producer,
waits for those of all brokers, which close their connections.

After a fatal error (an idempotent producer gave up) each further write is refused when it is handed
over, and what is in progress ends by its reports: the run continues. The Python package raises such
an error, once, from whatever serves events next, whether there is an `error_cb` or not.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, libversion

from harness.errors import HarnessFailure, PlanError
from targets.kafka.clients.library import CONFLUENT, Library, librdkafka_protocol
from targets.kafka.clients.outcomes import refusals
from targets.kafka.clients.producers import KafkaClient, NotQueued, OneProducer, Reports, identity
from targets.kafka.definitions import DEFAULTS, PLACES, canonical, requested
from targets.kafka.plan import KafkaPlan

# librdkafka's own log lines: where the command line sends them, and nowhere if it does not.
_LOG: Final = logging.getLogger("ackloss.kafka.producer")
_LOG.addHandler(logging.NullHandler())

_THREADS: Final = Path("/proc/self/task")
_MAIN: Final = "rdk:main"
_RESOLUTION_S: Final = 0.001
"""The library waits for whole milliseconds, so for less than one not at all: who polls until it is
time would keep a core busy."""

_PURGED_S: Final = 1.0
_STARTING: Final = threading.Lock()


class LibrdkafkaProducer(OneProducer):
    """See `targets.kafka.clients.producers`."""

    def __init__(
        self, settings: Mapping[str, str], addresses: str, name: str, reports: Reports
    ) -> None:
        super().__init__(name, reports)
        configuration = {
            **settings,
            "bootstrap.servers": addresses,
            "client.id": name,
            "on_delivery": self._delivered,
        }
        with _STARTING:
            before = _main_threads()
            try:
                self._producer = Producer(configuration, logger=_LOG)
            except KafkaException as error:
                raise HarnessFailure(f"no client could be started: {error}") from error
            self._threads = _main_threads() - before

    def produce(
        self, process: int, topic: str, value: bytes, key: str | None, partition: int
    ) -> None:
        try:
            self._producer.produce(topic, value, key, partition)
        except KafkaException as error:  # raised before it was queued
            raise NotQueued(error.args[0].name()) from error
        self.pending[value if key is None else identity(value, key.encode())] = process

    def poll(self, timeout_s: float) -> int:
        if 0 < timeout_s < _RESOLUTION_S:
            time.sleep(timeout_s)
            timeout_s = 0
        try:
            return self._producer.poll(timeout_s)
        except KafkaException as error:
            return _fatal(error)

    def flush(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            self._producer.flush(timeout_s)
        except KafkaException as error:
            _fatal(error)
            self._producer.flush(max(0.0, deadline - time.monotonic()))

    def gone(self) -> bool:
        return bool(self._threads) and not self._threads & _main_threads()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if self._crashed:
            return
        process = self.pending.pop(identity(message.value() or b"", message.key()))
        if error is None:
            self._reports.acknowledged(process, message.offset())
        else:
            self._reports.unacknowledged(process, error.name(), error.code())

    def _give_up(self) -> None:
        self._producer.purge(blocking=False)

    def _end(self) -> None:
        self._producer.purge()
        self.flush(_PURGED_S)
        self._producer.close()


@dataclass(frozen=True)
class Librdkafka(Library):
    """librdkafka, by confluent-kafka: see `targets.kafka.clients.library`."""

    plugin: ClassVar[str] = "librdkafka"

    def check(self, plan: KafkaPlan) -> None:
        check_producer_settings(plan.workload.producer)

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        """The protocol, if brokers do not report it, and defaults of ackloss; then what is
        requested."""
        return {**librdkafka_protocol(plan), **effective_settings(plan.workload.producer)}

    def software(self, plan: KafkaPlan) -> str:
        return f"{CONFLUENT} {installed(CONFLUENT)} (librdkafka {libversion()[0]})"

    def producing(
        self, addresses: str, plan: KafkaPlan, more: Mapping[str, Any] = {}
    ) -> KafkaClient:
        settings = self.settings(plan)
        proof = refusals(self.plugin, settings)
        start = partial(LibrdkafkaProducer, {**settings, **more})
        return KafkaClient(addresses, plan, settings, proof, start)


def effective_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What the producers are started with, but for their addresses. Raises PlanError as
    `check_producer_settings` does, but for values that only librdkafka knows to be wrong."""
    return {**DEFAULTS, **requested(settings, "librdkafka")}


def check_producer_settings(settings: Mapping[str, Any]) -> None:
    """Raise PlanError for the first setting that is refused, given twice, or of a wrong value."""
    try:
        Producer({**effective_settings(settings), "log_level": 0})
    except KafkaException as error:
        refusal = error.args[0].str().strip().removeprefix("Failed to create producer: ")
        named = {canonical(name) for name in re.findall(r'["`]([a-z0-9._]+)["`]', refusal)}
        keys = [f'{PLACES["producer"]}."{key}"' for key in settings if canonical(key) in named]
        raise PlanError(
            f"librdkafka refuses it: {refusal[:1].lower()}{refusal[1:]}",
            key=keys[0] if keys else PLACES["producer"],
        ) from error


def _fatal(error: KafkaException) -> int:
    """Continue after a fatal error, which librdkafka's log reports: one event. Raises others."""
    if not error.args[0].fatal():
        raise error
    return 1


def _main_threads() -> frozenset[str]:
    found = set()
    for task in _THREADS.iterdir():
        with suppress(OSError):  # it has ended
            if (task / "comm").read_text().strip() == _MAIN:
                found.add(task.name)
    return frozenset(found)

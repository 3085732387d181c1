"""Writes to Kafka by kafka-python, in pure Python, for every version of Kafka.

A producer is started by its own thread, since its start blocks until a broker has answered;
it takes writes as soon as it knows the topic. From then on handing over a write blocks only while
the topic is unknown again, and that is taken for a full queue after `_BLOCKED_MS`. Answers come in
the producer's own thread and wait in a queue until they are polled for.

A producer that crashes is stopped without the flush of its `close`; its thread then fails what
is in progress and closes the connections. That takes a step past its public interface.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as installed
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaError
from kafka import KafkaProducer
from kafka import errors as theirs
from kafka.codec import has_lz4, has_snappy, has_zstd
from kafka.net.compat import KafkaNetClient

from harness.errors import HarnessFailure, PlanError
from targets.kafka import definitions
from targets.kafka.clients.library import Library, protocol
from targets.kafka.clients.outcomes import refusals
from targets.kafka.clients.producers import KafkaClient, NotQueued, OneProducer, Reports, identity
from targets.kafka.definitions import DEFAULTS, KAFKA_PYTHON, meant, place_of, requested
from targets.kafka.plan import KafkaPlan
from targets.kafka.promises import ALL, LEADER, NOBODY

# What happens to connections under faults; nowhere, unless the command line sends it somewhere.
logging.getLogger("kafka").addHandler(logging.NullHandler())

_AT_FIRST_S: Final = 0.25
"""How long a new producer is waited for: with all brokers up it takes a tenth of that."""

_BLOCKED_MS: Final = 50
_TRY_MS: Final = 1000
"""How long one try to reach any broker may take; a producer that crashes meanwhile waits for it."""

_PURGED_S: Final = 1.0

_CODES: Final[Mapping[type[Exception], int]] = {
    theirs.KafkaTimeoutError: KafkaError._MSG_TIMED_OUT,
    theirs.KafkaConnectionError: KafkaError._TRANSPORT,
    theirs.Cancelled: KafkaError._TRANSPORT,
    theirs.NodeNotReadyError: KafkaError._TRANSPORT,
    ValueError: KafkaError._UNKNOWN_PARTITION,  # from `send` alone
    theirs.IllegalStateError: KafkaError._PURGE_INFLIGHT,  # "Producer is closed forcefully"
}
"""What errors without a code of Kafka's protocol are to librdkafka. All prove nothing."""


class KafkaPythonProducer(OneProducer):
    """See `targets.kafka.clients.producers`."""

    def __init__(
        self,
        settings: Mapping[str, str],
        topic: str,
        addresses: str,
        name: str,
        reports: Reports,
        *,
        more: Mapping[str, Any] = {},
    ) -> None:
        super().__init__(name, reports)
        self._topic = topic
        self._answers: SimpleQueue[tuple[bytes, int | None, Exception | None]] = SimpleQueue()
        self._producer: KafkaProducer | None = None
        self._net: KafkaNetClient | None = None
        self._given_up = False
        self._failure: Exception | None = None
        self._ready = threading.Event()
        arguments = {
            **keyword_arguments(settings),
            "bootstrap_servers": addresses.split(","),
            "client_id": name,
            "max_block_ms": _BLOCKED_MS,
            "bootstrap_timeout_ms": _TRY_MS,
            "metrics_enabled": False,
            "kafka_client": self._network,
            **more,
        }
        self._starter = threading.Thread(
            target=self._start, args=[arguments], name=f"start {name}", daemon=True
        )
        self._starter.start()
        self._ready.wait(_AT_FIRST_S)

    def produce(
        self, process: int, topic: str, value: bytes, key: str | None, partition: int
    ) -> None:
        """See `OneProducer`. It takes nothing until it has started."""
        if not self._ready.is_set() or self._producer is None:
            raise BufferError
        raw_key = None if key is None else key.encode()
        try:
            future = self._producer.send(topic, value=value, key=raw_key, partition=partition)
        except theirs.KafkaTimeoutError:  # the topic is unknown for the moment
            raise BufferError from None
        except (theirs.KafkaError, ValueError) as error:  # raised before it was queued
            raise NotQueued(_named(error)[0]) from error
        write = identity(value, raw_key)
        self.pending[write] = process
        future.add_callback(lambda record: self._answers.put((write, record.offset, None)))
        future.add_errback(lambda error: self._answers.put((write, None, error)))

    def poll(self, timeout_s: float) -> int:
        if self._failure is not None:
            raise HarnessFailure(f"no client could be started: {self._failure!r}")
        return self._pass_on(timeout_s)

    def flush(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.pending and (left_s := deadline - time.monotonic()) > 0:
            self.poll(left_s)

    def gone(self) -> bool:
        sender = self._producer and self._producer._sender
        return not self._starter.is_alive() and not (sender and sender.is_alive())

    def _start(self, arguments: Mapping[str, Any]) -> None:
        """Try until a broker has answered and the topic is known, or it is no longer needed."""
        while not self._given_up and not self._ready.is_set():
            try:
                if self._producer is None:
                    self._producer = KafkaProducer(**arguments)
                self._producer.partitions_for(self._topic)
            except Exception as error:
                passing = theirs.KafkaError if self._producer else theirs.RetriableError
                if self._producer is None and self._net is not None:
                    self._net.close()
                if not isinstance(error, passing):
                    self._failure = error
                    return
                time.sleep(_BLOCKED_MS / 1000)
            else:
                self._ready.set()
        if self._given_up:
            self._stop()

    def _network(self, **configs: Any) -> KafkaNetClient:
        """Its connections, kept at hand: a start that fails leaves them open."""
        self._net = KafkaNetClient(**configs)
        return self._net

    def _pass_on(self, timeout_s: float) -> int:
        served = 0
        with suppress(Empty):
            answer = self._answers.get(block=timeout_s > 0, timeout=timeout_s)
            while True:
                self._answered(*answer)
                served += 1
                answer = self._answers.get_nowait()
        return served

    def _answered(self, write: bytes, offset: int | None, error: Exception | None) -> None:
        if self._crashed:
            return
        process = self.pending.pop(write)
        if error is None:
            self._reports.acknowledged(process, None if offset == -1 else offset)
        else:
            self._reports.unacknowledged(process, *_named(error))

    def _give_up(self) -> None:
        self._given_up = True
        self._stop()

    def _stop(self) -> None:
        """Its thread ends after the step that it is in. (`close` would flush, `force_close` too if
        it met that thread at the wrong instant.)"""
        if self._producer is not None:
            sender = self._producer._sender
            sender._force_close, sender._running = True, False
            sender.wakeup()

    def _end(self) -> None:
        self._give_up()
        self._starter.join(_PURGED_S)
        if self._producer is not None:
            self._producer._sender.join(_PURGED_S)
            with suppress(theirs.KafkaTimeoutError):  # its thread has not ended
                self._producer.close(timeout=0)
        self._pass_on(0)


def _named(error: Exception) -> tuple[str, int | None]:
    """An error's name and code, one set for all libraries where there is a code."""
    code = _CODES.get(type(error), getattr(error, "errno", None))
    return (type(error).__name__ if code is None else KafkaError(code).name()), code


@dataclass(frozen=True)
class KafkaPython(Library):
    """kafka-python: see `targets.kafka.clients.library`."""

    plugin: ClassVar[str] = "kafka-python"
    naming: ClassVar[definitions.Library] = "kafka-python"

    def check(self, plan: KafkaPlan) -> None:
        for name, why in _wrong(settings_in_force(plan)):
            raise PlanError(why, key=place_of(name, plan.workload.producer))

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        return settings_in_force(plan)

    def software(self, plan: KafkaPlan) -> str:
        return f"{KAFKA_PYTHON} {installed(KAFKA_PYTHON)}"

    def producing(
        self, addresses: str, plan: KafkaPlan, more: Mapping[str, Any] = {}
    ) -> KafkaClient:
        settings = self.settings(plan)
        start = partial(KafkaPythonProducer, settings, plan.topic.name, more=more)
        return KafkaClient(addresses, plan, settings, refusals(self.plugin, settings), start)


_REQUEST, _SOCKET = "request.timeout.ms", "socket.timeout.ms"
_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
_MOST_IN_FLIGHT: Final = 5
_LINGER_MS: Final = "0"  # kafka-python's own default
_ACKS: Final[Mapping[str, int]] = {ALL: -1, LEADER: 1, NOBODY: 0}
_CODECS: Final = {"snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
"""Compressions that need a Python package, and whether it is here."""


def settings_in_force(plan: KafkaPlan) -> dict[str, str]:
    """What the producers are started with, by the names that plans use: the protocol, if brokers do
    not report it, and defaults of ackloss; then what is requested. Raises PlanError.

    kafka-python has one timeout for a request, where librdkafka has one for the response
    (`socket.timeout.ms`) and one that it sends to the leader (`request.timeout.ms`)."""
    own = requested(plan.workload.producer, "kafka-python")
    if own.get(_REQUEST, own.get(_SOCKET)) != own.get(_SOCKET, own.get(_REQUEST)):
        raise PlanError(
            f"kafka-python has one timeout for both {_REQUEST} and {_SOCKET}",
            key=place_of(_SOCKET, plan.workload.producer),
            hint="set one of them",
        )
    force = {**DEFAULTS, **own}
    socket_ms = force.pop(_SOCKET)
    return {**protocol(plan), **force, _REQUEST: own.get(_REQUEST, socket_ms)}


def keyword_arguments(force: Mapping[str, str]) -> dict[str, Any]:
    """The settings in force as `KafkaProducer` takes them."""
    arguments: dict[str, Any] = {
        found.keyword: int(value)
        for name, value in force.items()
        if (found := meant(name)) and found.kind == "number" and found.keyword
    }
    arguments["acks"] = _ACKS[force["acks"]]
    arguments["enable_idempotence"] = force["enable.idempotence"] == "true"
    if (codec := force.get("compression.type", "none")) != "none":
        arguments["compression_type"] = codec
    if speaks := force.get("broker.version.fallback"):
        arguments["api_version"] = tuple(map(int, speaks.split(".")))
    return arguments


def _wrong(force: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in force.items():
        if (found := meant(name)) and found.kind == "number" and int(value) < 0:
            yield name, f"{name} is below 0"
    in_flight = int(force.get(_IN_FLIGHT, "1"))
    if in_flight == 0:
        yield _IN_FLIGHT, "no request may be under way"
    codec = force.get("compression.type", "none")
    if codec in _CODECS and not _CODECS[codec]():
        yield "compression.type", f"kafka-python finds no Python package for {codec}"
    if force["enable.idempotence"] == "true":
        if force["acks"] != ALL:
            yield "acks", "an idempotent producer needs acks = all"
        if force.get("retries") == "0":
            yield "retries", "an idempotent producer needs retries"
        if in_flight > _MOST_IN_FLIGHT:
            why = f"an idempotent producer has at most {_MOST_IN_FLIGHT} requests under way"
            yield _IN_FLIGHT, why
    needed_ms = int(force.get("linger.ms", _LINGER_MS)) + int(force[_REQUEST])
    if int(force["message.timeout.ms"]) < needed_ms:
        why = f"kafka-python needs at least linger.ms + {_REQUEST}, {needed_ms} here"
        yield "message.timeout.ms", why

"""Writes to Kafka: librdkafka producers that many processes share.

Each process belongs to one producer, or while that one is dead, to another. A write is found again
by its value when its delivery report comes, so nothing is made per message but one entry of a
table. Values are at least ten digits of decimal text. Reports are served only from `poll` and
`close`, in the caller's thread, and so their times are those at which the caller could know. That
thread also does what the faults' threads ask for: crashes and replacements (`harness.crashes`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as installed
from itertools import cycle
from queue import Empty, SimpleQueue
from typing import ClassVar, Final

from confluent_kafka import KafkaError, KafkaException, Message, libversion

from harness.crashes import ClientState, Death
from harness.errors import HarnessFailure
from harness.plan import Plan
from harness.protocols import (
    FAIL,
    INFO,
    OK,
    Client,
    Cluster,
    Completion,
    Done,
    Invoke,
    completion,
)
from targets.kafka.clients.library import CONFLUENT, bootstrap, bootstrap_of
from targets.kafka.clients.one_producer import OneProducer
from targets.kafka.clients.outcomes import outcome
from targets.kafka.clients.producer_settings import (
    attempts_once,
    check_producer_settings,
    effective_settings,
)

_SLICE_S: Final = 0.001
"""How long one producer is waited for while others may have reports: latency that it can add."""

_HANDED_OVER_S: Final = 5.0
"""How long a fault's thread waits until what it asked for was done: a poll takes 50 ms."""

CRASHED: Final = "_CRASHED"
"""The error of operations that were under way in a producer that crashed."""


class KafkaClient:
    """See `harness.protocols.Client` and `harness.crashes.Crashes`. `bootstrap` is a list of
    host:port, comma separated."""

    def __init__(self, bootstrap: str, plan: Plan) -> None:
        self._settings = effective_settings(plan.workload.producer)
        self._first = [
            bootstrap_of(index, bootstrap, plan) for index in range(plan.workload.clients)
        ]
        self._topic = plan.topic.name
        self._only_attempt = attempts_once(self._settings)
        self._refused: list[tuple[int, Completion]] = []
        self._done: Done
        self._wishes: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self._closed = False
        self._begun = [0] * plan.workload.clients
        self._alive: list[OneProducer | None] = [
            self._started(index) for index in range(len(self._begun))
        ]
        self._kept_dead: list[set[str]] = [set() for _ in self._alive]
        self._crashes: dict[tuple[int, str], _Crash] = {}
        self._routes: list[tuple[Callable[..., None], dict[bytes, int]]]
        self._route()

    def submit(self, process: int, op: Invoke) -> bool:
        """Queue a write. False: the producer's queue is full, or no producer lives."""
        _, value, partition, key = op
        raw = b"%010d" % value
        produce, pending = self._routes[process % len(self._routes)]
        try:
            produce(self._topic, raw, key, partition)
        except BufferError:
            return False
        except KafkaException as error:  # raised before it was queued: surely not written
            self._refused.append((process, completion(FAIL, error=error.args[0].name())))
        else:
            pending[raw] = process
        return True

    def poll(self, timeout_s: float, done: Done) -> None:
        """Serve every producer's reports; waits on one after the other, a millisecond each."""
        self._done = done
        if self._serve() or timeout_s <= 0:
            return
        deadline = time.monotonic() + timeout_s
        slice_s = _SLICE_S if any(one.pending for one in self._living) else timeout_s
        while True:
            served = next(self._turns).poll(slice_s) if self._living else self._grant_one(timeout_s)
            if self._serve() or served or time.monotonic() >= deadline:
                return

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is queued, at most so long; purge the rest, which ends in info."""
        self._done = done
        deadline = time.monotonic() + timeout_s
        self._serve()
        self._closed = True
        for one in self._living:
            one.producer.flush(max(0.0, deadline - time.monotonic()))
        for one in self._living:
            for process in one.purge():
                done(process, completion(INFO, error="_UNREPORTED"))

    def crash(self, number: int, fault: str, *, at_once: bool) -> None:
        """See `harness.crashes.Crashes`."""
        self._ask(partial(self._crash, number - 1, fault, at_once=at_once))

    def replace(self, number: int, fault: str) -> None:
        """See `harness.crashes.Crashes`."""
        if fault in self._kept_dead[number - 1] and not self._closed:
            self._ask(partial(self._replace, number - 1, fault))

    def state(self, number: int, fault: str) -> ClientState:
        """See `harness.crashes.Crashes`."""
        one = self._alive[number - 1]
        crash = self._crashes.get((number - 1, fault))
        return ClientState(
            alive=one.name if one and not one.gone() else None,
            kept_dead_by=frozenset(self._kept_dead[number - 1]),
            death=crash.told() if crash else None,
        )

    def _started(self, index: int) -> OneProducer:
        self._begun[index] += 1
        name = f"ackloss-{index + 1}.{self._begun[index]}"
        settings = {**self._settings, "bootstrap.servers": self._first[index]}
        return OneProducer(settings, name, self._reported)

    def _route(self) -> None:
        """Deal the processes out anew: those of a dead producer over the living ones."""
        self._living = [one for one in self._alive if one]
        self._turns = cycle([one.producer for one in self._living])
        carry = [
            one or (self._living[index % len(self._living)] if self._living else None)
            for index, one in enumerate(self._alive)
        ]
        self._routes = [
            (one.producer.produce, one.pending) if one else (_nobody, {}) for one in carry
        ]

    def _crash(self, index: int, fault: str, *, at_once: bool) -> None:
        if (index, fault) in self._crashes:
            return
        one, self._alive[index] = self._alive[index], None
        waiting = one.crash() if one else []
        self._crashes[index, fault] = _Crash(died=one, unknown=len(waiting))
        if at_once and one:
            self._start(index)
        elif not at_once:
            self._kept_dead[index].add(fault)
        self._route()
        for process in waiting:
            self._done(process, completion(INFO, error=CRASHED))

    def _replace(self, index: int, fault: str) -> None:
        self._kept_dead[index].discard(fault)
        if self._alive[index] is None and not self._kept_dead[index]:
            self._start(index)
            self._route()

    def _start(self, index: int) -> None:
        self._alive[index] = one = self._started(index)
        for (place, _), crash in self._crashes.items():
            if place == index and crash.successor is None:
                crash.successor = one.name

    def _ask(self, wish: Callable[[], None]) -> None:
        """Have the thread that plays this client do it, and wait until it was done."""
        if self._closed:
            raise HarnessFailure("the clients are closed")
        done: Future[None] = Future()
        self._wishes.put((wish, done))
        try:
            done.result(timeout=_HANDED_OVER_S)
        except TimeoutError:
            done.cancel()
            raise HarnessFailure(f"nobody polled the clients for {_HANDED_OVER_S:g} s") from None
        except KafkaException as error:
            raise HarnessFailure(f"no client could be started: {error}") from error

    def _grant_one(self, timeout_s: float) -> int:
        """Do what a fault's thread has asked for; how many that were: at most one."""
        try:
            wish, done = (
                self._wishes.get(timeout=timeout_s) if timeout_s else self._wishes.get(False)
            )
        except Empty:
            return 0
        if done.set_running_or_notify_cancel():
            try:
                wish()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)
        return 1

    def _serve(self) -> int:
        """Complete what is known, without waiting; how many events that were."""
        events = len(self._refused)
        for process, refusal in self._refused:
            self._done(process, refusal)
        self._refused.clear()
        if not self._wishes.empty():
            events += self._grant_one(0)
        for one in self._living:
            events += one.producer.poll(0)
        return events

    def _reported(self, process: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._done(process, (OK, message.offset(), None, None))
        else:
            ended = outcome(error.code(), only_attempt=self._only_attempt)
            self._done(process, completion(ended.type, error=error.name()))


@dataclass(frozen=True)
class Librdkafka:
    """librdkafka, by confluent-kafka: see `targets.kafka.clients.library`."""

    plugin: ClassVar[str] = "librdkafka"
    package: ClassVar[str | None] = CONFLUENT

    def check(self, plan: Plan) -> None:
        """Refuse what the allow-list or librdkafka itself refuses."""
        check_producer_settings(plan.workload.producer)

    def settings(self, plan: Plan) -> dict[str, str]:
        """Defaults of ackloss, then what the plan asks for."""
        return effective_settings(plan.workload.producer)

    def software(self, plan: Plan) -> str:  # noqa: ARG002
        """confluent-kafka and the librdkafka in it."""
        return f"{CONFLUENT} {installed(CONFLUENT)} (librdkafka {libversion()[0]})"

    def client(self, cluster: Cluster, plan: Plan) -> Client:
        """Producers that the processes share, and that can crash."""
        return KafkaClient(bootstrap(cluster), plan)


@dataclass
class _Crash:
    """A producer that crashed (null: none was there), and who took its place."""

    died: OneProducer | None
    unknown: int
    successor: str | None = None

    def told(self) -> Death:
        return Death(
            died=self.died.name if self.died else None,
            unknown=self.unknown,
            gone=self.died is not None and self.died.gone(),
            successor=self.successor,
        )


def _nobody(*_: object) -> None:
    """Stands for a producer while none lives: takes nothing, as one whose queue is full."""
    raise BufferError

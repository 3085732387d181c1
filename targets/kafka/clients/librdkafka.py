"""Writes to Kafka by librdkafka (confluent-kafka), in this process, where it is fastest: producers
that many processes share, and how one of them crashes.

A write is found again by its value when its delivery report comes, so nothing is made per message
but one entry of a table. Values are at least ten digits of decimal text. librdkafka's queue is
shared with its own threads; reports are served only from `poll` and `close`, in the thread of their
caller, and so their times are those at which it could know.

A producer that crashed is given up at once, queued and in flight, so that nothing more is sent, and
a separate thread ends it: that waits for the producer's threads, and nothing else should. These are
known from its start: the last of them to end, librdkafka's main thread of the producer, waits for
those of all brokers, which close their connections.

After a fatal error (an idempotent producer gave up) each further write is refused when it is handed
over, and what is in progress ends by its reports: the run continues. The Python package raises such
an error, once, from whatever serves events next, whether there is an `error_cb` or not.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as installed
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Final
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException, Message, Producer, libversion

from harness.errors import HarnessFailure, PlanError
from harness.protocols import FAIL, INFO, OK, Completion, Done, Invoke, completion
from harness.run.client_pool import ClientPool, Place
from targets.kafka.clients.library import (
    CONFLUENT,
    Library,
    bootstrap_of,
    librdkafka_protocol,
    outcome,
    refusals,
)
from targets.kafka.definitions import DEFAULTS, NOBODY, PLACES, canonical, requested
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import release_line_of

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
# Once for each set of settings: a producer starts threads.
_tried: Final = cache(lambda *given: bool(Producer({**dict(given), "log_level": 0})))


class LibrdkafkaProducer:
    """A producer; `pending` are the processes that wait for a report, by value and key; `heard_s`,
    when it last reported or had nothing to report (monotonic). `reported` takes a process, the
    error or `None`, and the offset."""

    def __init__(
        self,
        settings: Mapping[str, str],
        addresses: str,
        name: str,
        reported: Callable[[int, KafkaError | None, int | None], None],
    ) -> None:
        self.name = name
        self.pending: dict[bytes, int] = {}
        self.heard_s = time.monotonic()
        self._reported = reported
        self._given_up = False
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
        """Queue a write. Raises BufferError when its queue is full, and KafkaException for a write
        that the library refuses before it is queued: certainly not written."""
        self._producer.produce(topic, value, key, partition)
        self.pending[value if key is None else _identity(value, key.encode())] = process

    def poll(self, timeout_s: float) -> int:
        """Pass on the reports that are there, waiting for the first; how many events it were."""
        if 0 < timeout_s < _RESOLUTION_S:
            time.sleep(timeout_s)
            timeout_s = 0
        try:
            return self._producer.poll(timeout_s)
        except KafkaException as error:
            return _fatal(error)

    def hear(self, timeout_s: float) -> int:
        """`poll`, keeping `heard_s`."""
        waiting = len(self.pending)
        events = self.poll(timeout_s)
        if len(self.pending) < waiting:
            self.heard_s = time.monotonic()
        return events

    def flush(self, timeout_s: float) -> None:
        """Wait until nothing is in progress, at most so long, passing on the reports."""
        deadline = time.monotonic() + timeout_s
        try:
            self._producer.flush(timeout_s)
        except KafkaException as error:
            _fatal(error)
            self._producer.flush(max(0.0, deadline - time.monotonic()))

    def gone(self) -> bool:
        """Whether none of its threads is left, and with them none of its connections."""
        return bool(self._threads) and not self._threads & _main_threads()

    def crash(self) -> None:
        """Send nothing more and hear nothing more."""
        self._given_up = True
        self._producer.purge(blocking=False)
        threading.Thread(target=self.end, name=f"end {self.name}", daemon=True).start()

    def end(self) -> None:
        """Give up what is in progress and disconnect, reporting it."""
        self._producer.purge()
        self.flush(_PURGED_S)
        self._producer.close()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if not self._given_up:
            write = _identity(message.value() or b"", message.key())
            self._reported(self.pending.pop(write), error, message.offset())


def _identity(value: bytes, key: bytes | None) -> bytes:
    """What distinguishes a write in progress: values are unique under their key, and are digits."""
    return value if key is None else b"%b %b" % (value, key)


_SLICES_S: Final = (0.001, 0.01)
_SLICE_SHARE: Final = 1 / 16
_CLIENTS_A_MS: Final = 3
"""How long one producer is waited for while others may have reports, which is latency that it can
add: a share of the time since the last of them was heard of, within these bounds. So what is
answered at once is timed to a millisecond, and what waits for seconds costs few calls. Where more
clients than three share the interpreter, the cells of a run, a slice has a millisecond for each
three of them: their threads would spend more time on handing over its lock than on the load."""

_EVERYONE_S: Final = 0.1
"""How often producers are served that owe no report. Each call lets other threads run, which costs
more than the call when twelve cells of a run have a thread each."""

CRASHED: Final = "_CRASHED"
"""The error of operations that were in progress in a producer that crashed."""

_OPEN: Final[WeakSet[KafkaClient]] = WeakSet()


class KafkaClient(ClientPool[Place[LibrdkafkaProducer]]):
    """See `harness.protocols.Client`. `settings` are in force in the producers, by their names in
    plans, and `more` is what else reaching the brokers takes."""

    def __init__(
        self, addresses: str, plan: KafkaPlan, settings: Mapping[str, str], more: Mapping[str, str]
    ) -> None:
        super().__init__([Place(number) for number in range(1, plan.workload.clients + 1)])
        self._settings = {**settings, **more}
        self._first = [
            bootstrap_of(index, addresses, plan) for index in range(plan.workload.clients)
        ]
        self._topic = plan.topic.name
        self._proof = refusals(Librdkafka.plugin, settings)
        self._offsets_acknowledged = (
            release_line_of(plan).offsets_acknowledged and settings["acks"] != NOBODY
        )
        self._refused: list[tuple[int, Completion]] = []
        self._everyone_s = 0.0
        self._living: list[LibrdkafkaProducer] = []
        self._produce: list[Callable[[int, str, bytes, str | None, int], None]] = []
        _OPEN.add(self)
        for place in self._places:
            self._start(place)

    def submit(self, process: int, op: Invoke) -> bool:
        """Queue a write. False: the producer's queue is full, or no producer lives."""
        _, value, partition, key, _ = op
        produce = self._produce[process % len(self._produce)]
        try:
            produce(process, self._topic, b"%010d" % value, key, partition)
        except BufferError:
            return False
        except KafkaException as error:
            self._refused.append((process, completion(FAIL, error=error.args[0].name())))
        return True

    def poll(self, timeout_s: float, done: Done) -> None:
        """Serve every producer's reports, waiting for the first."""
        self._done = done
        deadline_s = time.monotonic() + timeout_s
        while not self._serve() and (left_s := deadline_s - time.monotonic()) > 0:
            if self._wait(left_s):
                return

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is queued, at most so long; purge the rest, which ends in info."""
        self._done = done
        deadline = time.monotonic() + timeout_s
        self._serve()
        _OPEN.discard(self)
        self._handed_over.close()
        for one in self._living:
            one.flush(max(0.0, deadline - time.monotonic()))
        for one in self._living:
            one.end()
            for process in one.pending.values():
                done(process, completion(INFO, error="_UNREPORTED"))

    def _start(self, place: Place[LibrdkafkaProducer]) -> None:
        place.starts += 1
        name = f"ackloss-{place.number}.{place.starts}"
        first = self._first[place.number - 1]
        place.client = LibrdkafkaProducer(self._settings, first, name, self._reported)
        self._made_ready(place)

    def _crashed(self, place: Place[LibrdkafkaProducer]) -> None:
        one, place.client, place.ready = place.client, None, False
        self._route()
        if one is not None:
            waiting = list(one.pending.values())
            one.pending.clear()
            one.crash()
            for process in waiting:
                self._done(process, completion(INFO, error=CRASHED))

    def _route(self) -> None:
        super()._route()
        self._living = [place.client for place in self._places if place.client]
        self._produce = [
            place.client.produce if place and place.client else _full for place in self._routes
        ]

    def _reported(self, process: int, error: KafkaError | None, offset: int | None) -> None:
        if error is None:
            known = offset if self._offsets_acknowledged else None
            self._done(process, (OK, known, None, None, None))
        else:
            type_ = outcome(error.code(), self._proof)
            self._done(process, completion(type_, error=error.name()))

    def _wait(self, timeout_s: float) -> int:
        """Wait for those that may have events; how many these were. Where several may, not for
        longer than a slice."""
        if not self._living:
            return self._handed_over.make_one(timeout_s)
        waiting = [one for one in self._living if one.pending]
        if not waiting:
            time.sleep(timeout_s)
            return 0
        last = max(waiting, key=attrgetter("heard_s"))
        return last.hear(min(timeout_s, _slice_s(last)) if len(waiting) > 1 else timeout_s)

    def _serve(self) -> int:
        """Complete what is known, without waiting; how many events that were."""
        events = len(self._refused)
        for process, refusal in self._refused:
            self._done(process, refusal)
        self._refused.clear()
        if self._handed_over:
            events += self._handed_over.make_one(0)
        now_s = time.monotonic()
        if everyone := now_s >= self._everyone_s:
            self._everyone_s = now_s + _EVERYONE_S
        for one in self._living:
            if not one.pending:
                one.heard_s = now_s
            if one.pending or everyone:
                events += one.hear(0)
        return events


def _slice_s(last: LibrdkafkaProducer) -> float:
    """How long to wait for the producer that was heard of last while others wait too."""
    shortest_s, longest_s = _SLICES_S
    silent_s = time.monotonic() - last.heard_s
    shortest_s *= max(1.0, len(_OPEN) / _CLIENTS_A_MS)
    return min(max(shortest_s, silent_s * _SLICE_SHARE), longest_s)


def _full(*_: object) -> None:
    """Stands for a producer while none lives: takes nothing, as one whose queue is full."""
    raise BufferError


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
        self, addresses: str, plan: KafkaPlan, *, run_id: str = "", more: Mapping[str, Any] = {}
    ) -> KafkaClient:
        return KafkaClient(addresses, plan, self.settings(plan), more)


def effective_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What the producers are started with, but for their addresses. Raises PlanError as
    `check_producer_settings` does, but for values that only librdkafka knows to be wrong."""
    return {**DEFAULTS, **requested(settings, "librdkafka")}


def check_producer_settings(settings: Mapping[str, Any]) -> None:
    """Raise PlanError for the first setting that is refused, given twice, or of a wrong value."""
    try:
        _tried(*effective_settings(settings).items())
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

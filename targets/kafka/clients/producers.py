"""Writes to Kafka: producers of one library that many processes share.

Each process belongs to one producer, or while that one is dead, to another. A write is found again
by its value when its delivery report comes, so nothing is made per message but one entry of a
table. Values are at least ten digits of decimal text. Reports are served only from `poll` and
`close`, in the caller's thread, and so their times are those at which the caller could know. That
thread also does what the faults' threads ask for: crashes and replacements
(`harness.protocols.crashes`).

A library's own producer is a subclass of `OneProducer`. All of it is called by the thread that
drives the client, but for `gone`. A producer that crashed is given up at once, queued and in
flight, so that nothing more is sent, and a separate thread ends it: that waits for the producer's
threads, and nothing else should.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Final, Protocol
from weakref import WeakSet

from harness.protocols import FAIL, INFO, OK, Completion, Done, Invoke, completion
from harness.protocols.crashes import ClientState
from harness.run.crashing import Crash, HandedOver, routes
from targets.kafka.clients.library import bootstrap_of
from targets.kafka.clients.outcomes import outcome
from targets.kafka.plan import KafkaPlan
from targets.kafka.promises import NOBODY
from targets.kafka.versions import release_line_of


class NotQueued(Exception):
    """The library refused a write when it was handed over: certainly not written. Holds the error's
    name."""


class Reports(Protocol):
    """What gets the results of writes, each by the process that waits for it."""

    def acknowledged(self, process: int, offset: int | None) -> None:
        """It was written, where the broker reports it (null: it does not)."""
        ...

    def unacknowledged(self, process: int, error: str, code: int | None) -> None:
        """It ended in an error; `code` is librdkafka's or Kafka's, null where it has none."""
        ...


def identity(value: bytes, key: bytes | None) -> bytes:
    """What distinguishes a write in progress: values are unique under their key, and are digits."""
    return value if key is None else b"%b %b" % (value, key)


class OneProducer(ABC):
    """A producer; `pending` are the processes that wait for a report, by the `identity` of what
    they write; `heard_s`, when it last reported or had nothing to report (monotonic)."""

    def __init__(self, name: str, reports: Reports) -> None:
        self.name = name
        self.pending: dict[bytes, int] = {}
        self.heard_s = time.monotonic()
        self._reports = reports
        self._crashed = False

    @abstractmethod
    def produce(
        self, process: int, topic: str, value: bytes, key: str | None, partition: int
    ) -> None:
        """Queue a write. Raises BufferError when its queue is full, and NotQueued."""

    @abstractmethod
    def poll(self, timeout_s: float) -> int:
        """Pass on the reports that are there, waiting for the first; how many events it were."""

    @abstractmethod
    def flush(self, timeout_s: float) -> None:
        """Wait until nothing is in progress, at most so long, passing on the reports."""

    @abstractmethod
    def gone(self) -> bool:
        """Whether none of its threads is left, and with them none of its connections."""

    @abstractmethod
    def _give_up(self) -> None:
        """Send nothing more, without waiting."""

    @abstractmethod
    def _end(self) -> None:
        """Give up and disconnect, passing on what is reported while it waits."""

    def hear(self, timeout_s: float) -> int:
        """`poll`, keeping `heard_s`."""
        waiting = len(self.pending)
        events = self.poll(timeout_s)
        if len(self.pending) < waiting:
            self.heard_s = time.monotonic()
        return events

    def crash(self) -> list[int]:
        """Send nothing more and hear nothing more; the processes that were waiting."""
        self._crashed = True
        waiting = list(self.pending.values())
        self.pending.clear()
        self._give_up()
        threading.Thread(target=self._end, name=f"end {self.name}", daemon=True).start()
        return waiting

    def purge(self) -> list[int]:
        """Give up what is in progress and disconnect, reporting it; the processes that were not
        reported to."""
        self._end()
        return list(self.pending.values())


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


Start = Callable[[str, str, Reports], OneProducer]
"""How a library starts one of its producers: by the bootstrap servers (host:port), comma separated,
its name, and what gets its reports."""


class KafkaClient:
    """See `harness.protocols.Client`, `Crashes` there, and for its producers `Reports`.

    `settings` are in force in the producers that `start` starts, by their names in plans; `proof`
    holds the codes that prove of them that a write was refused.
    """

    def __init__(
        self,
        addresses: str,
        plan: KafkaPlan,
        settings: Mapping[str, str],
        proof: Mapping[int, str],
        start: Start,
    ) -> None:
        self._start_one = start
        self._first = [
            bootstrap_of(index, addresses, plan) for index in range(plan.workload.clients)
        ]
        self._topic = plan.topic.name
        self._proof = proof
        self._offsets_acknowledged = (
            release_line_of(plan).offsets_acknowledged and settings["acks"] != NOBODY
        )
        self._refused: list[tuple[int, Completion]] = []
        self._done: Done
        self._wishes = HandedOver()
        self._closed = False
        self._everyone_s = 0.0
        _OPEN.add(self)
        self._begun = [0] * plan.workload.clients
        self._alive: list[OneProducer | None] = [
            self._started(index) for index in range(len(self._begun))
        ]
        self._kept_dead: list[set[str]] = [set() for _ in self._alive]
        self._crashes: dict[tuple[int, str], Crash] = {}
        self._routes: list[Callable[[int, str, bytes, str | None, int], None]]
        self._route()

    def submit(self, process: int, op: Invoke) -> bool:
        """Queue a write. False: the producer's queue is full, or no producer lives."""
        _, value, partition, key, _ = op
        produce = self._routes[process % len(self._routes)]
        try:
            produce(process, self._topic, b"%010d" % value, key, partition)
        except BufferError:
            return False
        except NotQueued as refusal:
            self._refused.append((process, completion(FAIL, error=str(refusal))))
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
        self._closed = True
        _OPEN.discard(self)
        self._wishes.close()
        for one in self._living:
            one.flush(max(0.0, deadline - time.monotonic()))
        for one in self._living:
            for process in one.purge():
                done(process, completion(INFO, error="_UNREPORTED"))

    def acknowledged(self, process: int, offset: int | None) -> None:
        self._done(process, (OK, offset if self._offsets_acknowledged else None, None, None, None))

    def unacknowledged(self, process: int, error: str, code: int | None) -> None:
        ended = outcome(code, self._proof)
        self._done(process, completion(ended.type, error=error))

    def crash(self, number: int, fault: str, *, at_once: bool) -> None:
        self._wishes.ask(partial(self._crash, number - 1, fault, at_once=at_once))

    def replace(self, number: int, fault: str) -> None:
        if fault in self._kept_dead[number - 1] and not self._closed:
            self._wishes.ask(partial(self._replace, number - 1, fault))

    def state(self, number: int, fault: str) -> ClientState:
        one = self._alive[number - 1]
        crash = self._crashes.get((number - 1, fault))
        return ClientState(
            alive=one.name if one and not one.gone() else None,
            kept_dead_by=frozenset(self._kept_dead[number - 1]),
            death=crash.report() if crash else None,
        )

    def _started(self, index: int) -> OneProducer:
        self._begun[index] += 1
        name = f"ackloss-{index + 1}.{self._begun[index]}"
        return self._start_one(self._first[index], name, self)

    def _route(self) -> None:
        """Distribute the processes again: those of a dead producer over the living ones."""
        self._living = [one for one in self._alive if one]
        self._routes = [one.produce if one else _nobody for one in routes(self._alive)]

    def _crash(self, index: int, fault: str, *, at_once: bool) -> None:
        if (index, fault) in self._crashes:
            return
        one, self._alive[index] = self._alive[index], None
        waiting = one.crash() if one else []
        self._crashes[index, fault] = Crash(died=one, unknown=len(waiting))
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

    def _wait(self, timeout_s: float) -> int:
        """Wait for those that may have events; how many these were. Where several may, not for
        longer than a slice."""
        if not self._living:
            return self._wishes.make_one(timeout_s)
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
        if self._wishes:
            events += self._wishes.make_one(0)
        now_s = time.monotonic()
        if everyone := now_s >= self._everyone_s:
            self._everyone_s = now_s + _EVERYONE_S
        for one in self._living:
            if not one.pending:
                one.heard_s = now_s
            if one.pending or everyone:
                events += one.hear(0)
        return events


def _slice_s(last: OneProducer) -> float:
    """How long to wait for the producer that was heard of last while others wait too."""
    shortest_s, longest_s = _SLICES_S
    silent_s = time.monotonic() - last.heard_s
    shortest_s *= max(1.0, len(_OPEN) / _CLIENTS_A_MS)
    return min(max(shortest_s, silent_s * _SLICE_SHARE), longest_s)


def _nobody(*_: object) -> None:
    """Stands for a producer while none lives: takes nothing, as one whose queue is full."""
    raise BufferError

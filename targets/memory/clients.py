"""Clients of the harness over the reference system: time passes while they are polled.

`PolledRequests` serves every model; one client for each model makes requests of its operations.

Where the clients are: requests with retries, and what is known when they end.

A request is tried at one node after another until its time is up, always under the same number, so
that the system can distinguish a retry from a new request. It ends

    ok    when a leader answered so;
    fail  when it had no effect: every attempt was refused before anything was appended, or
          a compare-and-set was applied and found another value, or it was a read;
    info  otherwise: an attempt went unanswered, or was given up after it had been appended.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar
from zlib import crc32

from harness.clusters.memory import MemoryCluster
from harness.clusters.memory.simulation import Refused
from harness.models import micro_ops
from harness.protocols import (
    INFO,
    NULL,
    OK,
    Client,
    Completion,
    Done,
    Expected,
    Invoke,
    Result,
    completion,
)
from targets.memory.plan import READS, Settings

MS: Final = 1_000_000
_BACK_OFF_NS: Final = 15 * MS


@dataclass(frozen=True)
class Place:
    """Where a group, or transactions, are in the system: the partition that decides, of a group its
    own, and the data partitions from a first one on; the first `inputs` of them are those of the
    first topic."""

    deciding: int
    first: int
    partitions: int
    inputs: int


class Command(NamedTuple):
    """What a process wants done. `f`: append, write, cas, read, read-all; of a queue: enqueue,
    dequeue, drain; of a consumer: fetch, commit, and what `targets.memory.leading` answers."""

    f: str
    key: str | None = None
    value: int | None = None
    expected: int | None = None
    partition: int = 0


class Outcome(NamedTuple):
    """How it ended: `type` ok, fail or info. `result` is what was read: a value, or for read-all a
    list of (offset, key, value); `position` the offset of what was written."""

    type: str
    result: Any = None
    position: int | None = None
    error: str | None = None
    node: str | None = None


OnDone = Callable[[int, Outcome], None]


@dataclass(slots=True)
class _Flight:
    """A request in progress. `maybe`: an attempt may have had, or may still have, effect."""

    seq: int
    command: Command
    on_done: OnDone
    deadline_ns: int
    attempt: int = 0
    maybe: bool = False
    error: str = "no-answer"


class Requests:
    """All requests of all processes: one for each simulated cluster."""

    def __init__(self, cluster: MemoryCluster, settings: Settings) -> None:
        self._host, self._network = cluster.clients, cluster.network
        self._settings, self._names = settings, settings.names
        self._flights: dict[int, _Flight] = {}
        self._seq: dict[int, int] = {}
        self._asks: dict[tuple[int, bool], str] = {}
        self._host.receive = self._receive
        self._host.unreachable = self._unreachable

    def submit(self, process: int, command: Command, on_done: OnDone) -> None:
        """Begin a request of a process that has none in progress."""
        seq = self._seq[process] = self._seq.get(process, 0) + 1
        deadline_ns = self._host.now_ns() + self._settings.request_ms * MS
        self._flights[process] = _Flight(seq, command, on_done, deadline_ns)
        self._asks.setdefault(_kind(process, command), self._names[process % len(self._names)])
        self._attempt(process, seq)

    def abandon(self, process: int) -> None:
        """This process' request is no longer waited for."""
        self._flights.pop(process, None)

    def _attempt(self, process: int, seq: int) -> None:
        flight = self._flights.get(process)
        if flight is None or flight.seq != seq:
            return
        if self._host.now_ns() >= flight.deadline_ns:
            type_ = "fail" if flight.command.f in READS or not flight.maybe else "info"
            self._end(process, flight, Outcome(type_, None, None, flight.error))
            return
        flight.attempt += 1
        f, key, value, expected, partition = flight.command
        request = ("op", partition, process, seq, flight.attempt, f, key, value, expected)
        self._network.send(self._host, self._asks[_kind(process, flight.command)], request)
        wait_ns = self._settings.attempt_ms * MS
        self._host.after(wait_ns, self._expired, process, seq, flight.attempt)

    def _expired(self, process: int, seq: int, attempt: int) -> None:
        if (flight := self._current(process, seq, attempt)) is not None:
            flight.maybe, flight.error = True, "no-answer"
            self._ask_another(process, flight)
            self._attempt(process, seq)

    def _receive(self, source: str, message: Any) -> None:
        _, process, seq, attempt, kind, what, position = message
        flight = self._flights.get(process)
        if flight is None or flight.seq != seq:
            return
        if kind == "ok":
            self._end(process, flight, Outcome("ok", what, position, None, source))
        elif kind == "fail":
            self._end(process, flight, Outcome("fail", None, None, what, source))
        elif flight.attempt == attempt:
            flight.error = "leader-unknown" if kind == "refused" and what is None else str(what)
            flight.maybe = flight.maybe or kind == "unknown"
            if what == "not-leader" and position is not None and position != source:
                self._asks[_kind(process, flight.command)] = position
            else:
                self._ask_another(process, flight)
            self._try_again_soon(process, flight)

    def _unreachable(self, target: str, refused: Refused) -> None:
        _, _, process, seq, attempt, *_ = refused.message
        if (flight := self._current(process, seq, attempt)) is not None:
            flight.maybe = flight.maybe or refused.sent
            flight.error = "connection-reset" if refused.sent else "connection-refused"
            self._ask_another(process, flight)
            self._try_again_soon(process, flight)

    def _try_again_soon(self, process: int, flight: _Flight) -> None:
        flight.attempt += 1  # what the ended attempt may still bring is late
        self._host.after(_BACK_OFF_NS, self._attempt, process, flight.seq)

    def _current(self, process: int, seq: int, attempt: int) -> _Flight | None:
        flight = self._flights.get(process)
        if flight is None or (flight.seq, flight.attempt) != (seq, attempt):
            return None
        return flight

    def _ask_another(self, process: int, flight: _Flight) -> None:
        kind = _kind(process, flight.command)
        place = self._names.index(self._asks[kind])
        self._asks[kind] = self._names[(place + 1) % len(self._names)]

    def _end(self, process: int, flight: _Flight, outcome: Outcome) -> None:
        del self._flights[process]
        flight.on_done(process, outcome)


def _kind(process: int, command: Command) -> tuple[int, bool]:
    """A process keeps using the node that answered it, separately for reads and for the rest."""
    return process, command.f in READS


APART: Final = 2**40
"""A number above that of any client's processes."""


Request = TypeVar("Request", contravariant=True)


class Begins(Protocol[Request]):
    """What begins requests in the simulation, as `Requests` does."""

    def submit(self, process: int, request: Request, on_done: OnDone) -> None:
        """Begin what a process requests, which has nothing in progress."""

    def abandon(self, process: int) -> None:
        """It is no longer waited for."""


class PolledRequests(Generic[Request]):
    """Requests that are begun by `submit` and ended inside `poll`, by one thread of the harness."""

    def __init__(self, cluster: MemoryCluster, requests: Begins[Request]) -> None:
        self._cluster, self._requests = cluster, requests
        self._ended: deque[tuple[int, Outcome]] = deque()
        self._answered = threading.Event()
        self._under_way: set[int] = set()

    def submit(self, process: int, request: Request) -> bool:
        """Begin a request; it always can."""
        self._under_way.add(process)
        with self._cluster.simulation.held():
            self._requests.submit(process, request, self._end)
        return True

    def poll(self, timeout_s: float, done: Callable[[int, Outcome], None]) -> None:
        """Report what has ended; let time pass until something does, or for `timeout_s`."""
        if not self._ended:
            self._cluster.clock.wait(self._answered, timeout_s)
        self._answered.clear()
        while self._ended:
            process, outcome = self._ended.popleft()
            self._under_way.discard(process)
            done(process, outcome)

    def close(self, timeout_s: float, done: Callable[[int, Outcome], None]) -> None:
        """Wait for what is in progress; what is left then is unknown."""
        clock = self._cluster.clock
        deadline_ns = clock.now_ns() + round(timeout_s * 1e9)
        while self._under_way and (left_ns := deadline_ns - clock.now_ns()) > 0:
            self.poll(left_ns / 1e9, done)
        for process in sorted(self._under_way):
            with self._cluster.simulation.held():
                self._requests.abandon(process)
            done(process, Outcome("info", error="closed"))
        self._under_way.clear()

    def _end(self, process: int, outcome: Outcome) -> None:
        self._ended.append((process, outcome))
        self._answered.set()


class ModelClient(Client):
    """What the clients of all models have in common: an operation becomes a request, and the answer
    a completion. Its partitions are counted from 0, the first of them is `first` in the system,
    which distinguishes its processes from those of other clients by that."""

    def __init__(
        self, cluster: MemoryCluster, requests: Requests, partitions: int = 1, first: int = 0
    ) -> None:
        self._polled = PolledRequests(cluster, requests)
        self.partitions, self._first = partitions, first

    @abstractmethod
    def command(self, op: Invoke) -> Command:
        """The request that an operation means."""

    def result(self, outcome: Outcome) -> Result:
        """What an operation has read."""
        value: int | None = outcome.result
        return value

    def submit(self, process: int, op: Invoke) -> bool:
        command = self.command(op)
        command = command._replace(partition=self._first + command.partition)
        return self._polled.submit(self._first * APART + process, command)

    def poll(self, timeout_s: float, done: Done) -> None:
        self._polled.poll(timeout_s, self._reporting(done))

    def close(self, timeout_s: float, done: Done) -> None:
        self._polled.close(timeout_s, self._reporting(done))

    def _reporting(self, done: Done) -> Callable[[int, Outcome], None]:
        before = self._first * APART
        return lambda process, ended: done(process - before, self._completion(ended))

    def _completion(self, ended: Outcome) -> Completion:
        result = self.result(ended) if ended.type == OK else None
        return completion(ended.type, ended.position, ended.error, ended.node, result)


class LogClient(ModelClient):
    """Appends, each to its own partition."""

    def command(self, op: Invoke) -> Command:
        _, value, partition, key, _ = op
        return Command("append", key, value, None, partition)


class RegisterClient(ModelClient):
    """Reads, writes and compare-and-sets of registers; a key belongs to one partition."""

    def command(self, op: Invoke) -> Command:
        f, value, _, key, expected = op
        partition = crc32((key or "").encode()) % self.partitions
        return Command(f, key, _or_none(value), _or_none(expected), partition)


class SetClient(ModelClient):
    """One set, in the first partition: its elements are what was appended there."""

    def command(self, op: Invoke) -> Command:
        f, value, *_ = op
        return Command("append", None, value) if f == "add" else Command("read-all")

    def result(self, outcome: Outcome) -> Result:
        """All elements, in the order of the log; nothing for an add."""
        if outcome.result is None:
            return None
        return tuple(value for _, _, value in outcome.result)


class QueueClient(ModelClient):
    """One queue, in the first partition: what changes it are entries of that log."""

    def command(self, op: Invoke) -> Command:
        f, value, *_ = op
        return Command(f, None, value)


class TransactClient(ModelClient):
    """Transactions on lists or registers. One that writes is an entry of the first partition, whose
    order is theirs; what it read follows from the entries before its own, which are requested when
    that one is committed. One that only reads requests all entries."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._open: dict[int, tuple[tuple[int, ...], Outcome | None]] = {}

    def command(self, op: Invoke) -> Command:
        """The entry of a transaction, or a read of all of them."""
        _, value, _, _, steps = op
        assert isinstance(steps, tuple)
        if all(f == "r" for f, *_ in micro_ops.steps_of(steps)):
            return Command("read-all")
        return Command("append", ",".join(map(str, steps)), value)

    def submit(self, process: int, op: Invoke) -> bool:
        assert isinstance(op[4], tuple)
        self._open[self._first * APART + process] = op[4], None
        return super().submit(process, op)

    def _reporting(self, done: Done) -> Callable[[int, Outcome], None]:
        def ended(process: int, outcome: Outcome) -> None:
            steps, entry = self._open.pop(process)
            if outcome.type == OK and outcome.result is None:  # its entry is committed
                self._open[process] = steps, outcome
                self._polled.submit(process, Command("read-all", partition=self._first))
                return
            result = None
            if outcome.type == OK:
                result = _executed(outcome.result, steps, entry)
            elif entry is not None:
                outcome = outcome._replace(type=INFO)
            how = completion(outcome.type, None, outcome.error, outcome.node, result)
            done(process - self._first * APART, how)

        return ended


def _executed(
    entries: list[tuple[int, str, int]], steps: tuple[int, ...], own: Outcome | None
) -> tuple[int, ...]:
    """A transaction's steps with what they read after the entries before its own."""
    held: dict[str, list[int]] = {}
    reads, registers, last = list[micro_ops.Read](), False, micro_ops.steps_of(steps)
    before = (
        _steps(text)
        for offset, text, _ in entries
        if own is None or own.position is None or offset < own.position
    )
    for transaction in (*before, last):
        for f, key, value in transaction:
            registers = registers or f == "w"
            if value is not None:
                held.setdefault(key, []).append(value)
            elif transaction is last:
                read = held.get(key, ())
                reads.append((*read[-1:], None)[0] if registers else list(read))
    return micro_ops.answered(steps, reads)


# Each transaction reads all entries before it.
_steps = lru_cache(10_000)(lambda text: micro_ops.steps_of([*map(int, text.split(","))]))


def _or_none(number: Expected) -> int | None:
    return None if number == NULL or isinstance(number, tuple) else number

"""Clients of a run that are made of many: a pool, and one whose clients block.

`ClientPool` is made of real clients that the processes of a workload share. Each process belongs to
one place, or while nobody is there, to another. What is there is up to the subclass: producers in
this process, or connections to programs (`harness.run.exec_client`). The faults' threads request
crashes and replacements; the thread that runs the pool executes them
(`harness.protocols.faults.Crashes`).

`ThreadedClient` is made of clients that block: each has its own thread, and one operation at a
time.

    submit   hands an operation to an idle thread; False while all are busy
    poll     completes what has ended; waits on the clock of the run
    close    waits, then disconnects the clients that are still busy, so that their calls end; what
             has not ended even then is info, and its thread is left behind

A client whose call raises, whatever it raises, is closed, and the next operation of its thread
connects another: the state of such a client is unknown. A KeyboardInterrupt ends its operation in
info too, and is then raised by the next `poll`, or by `close`: it is meant for the run. The
completions come only from `poll` and `close`, in the thread of the interpreter, whose times they
have.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeVar

from harness.errors import HarnessFailure
from harness.protocols import (
    INFO,
    BlockingClient,
    Client,
    Completion,
    Done,
    Invoke,
    completion,
    raised,
)
from harness.protocols.clock import Clock, RealClock
from harness.protocols.faults import ClientState, Crashes, Death

HANDED_OVER_S: Final = 5.0
"""How long a fault's thread waits until what it requested is done: a poll takes 50 ms."""


class RealClient(Protocol):
    """A real client; `pending` are the processes that wait for an answer, by what they wait for."""

    name: str

    @property
    def pending(self) -> dict[Any, int]: ...

    def gone(self) -> bool:
        """Whether nothing of it is left."""


C = TypeVar("C", bound=RealClient)
T = TypeVar("T")


@dataclass(eq=False)
class Place(Generic[C]):
    """A place in a pool, counted from 1.

    client       who is there; `None`: it is away
    ready        whether it accepts operations
    starts       how often it was filled
    again_ns     when another one is to be started
    retired      whether there will be none
    kept_dead    the faults that keep it away
    """

    number: int
    client: C | None = None
    ready: bool = False
    starts: int = 0
    again_ns: int | None = None
    retired: bool = False
    kept_dead: set[str] = field(default_factory=set)


P = TypeVar("P", bound=Place[Any])


@dataclass
class Crash:
    """A real client that crashed (`None`: none was there), and who took its place."""

    died: RealClient | None
    unknown: int
    successor: str | None = None


class ClientPool(Client, Crashes, Generic[P]):
    """See above; a subclass starts and ends clients, and calls `_made_ready` and `_route`."""

    def __init__(self, places: Sequence[P]) -> None:
        self._places = places
        self._routes: list[P | None] = [None] * len(places)
        self._handed_over = HandedOver()
        self._crashes: dict[tuple[int, str], Crash] = {}
        self._done: Callable[[int, Completion], None] = _nobody

    @abstractmethod
    def _start(self, place: P) -> None:
        """Start a client in an empty place."""

    @abstractmethod
    def _crashed(self, place: P) -> None:
        """End the client of a place, if there is one: what is in flight in it is unknown."""

    def _hear_out(self, place: P) -> None:
        """Take what the client of a place has answered: only the rest is unknown."""

    def _made_ready(self, place: P) -> None:
        """The client of a place accepts operations from now on."""
        place.ready = True
        for (number, _), crash in self._crashes.items():
            if number == place.number and crash.successor is None and place.client is not None:
                crash.successor = place.client.name
        self._route()

    def _route(self) -> None:
        """Deal the processes out again: those of a place that is away over the others."""
        self._routes = routes([place if place.ready else None for place in self._places])

    def crash(self, number: int, fault: str, *, at_once: bool) -> None:
        place = self._places[number - 1]
        self._handed_over.ask(partial(self._crash, place, fault, at_once=at_once))

    def replace(self, number: int, fault: str) -> None:
        place = self._places[number - 1]
        if fault in place.kept_dead and not self._handed_over.closed:
            self._handed_over.ask(partial(self._replace, place, fault))

    def state(self, number: int, fault: str) -> ClientState:
        place, crash = self._places[number - 1], self._crashes.get((number, fault))
        one, death = place.client, None
        if crash is not None:
            died = crash.died
            gone, name = died is not None and died.gone(), died.name if died else None
            death = Death(died=name, unknown=crash.unknown, gone=gone, successor=crash.successor)
        return ClientState(
            alive=one.name if one is not None and place.ready and not one.gone() else None,
            kept_dead_by=frozenset(place.kept_dead),
            death=death,
        )

    def _crash(self, place: P, fault: str, *, at_once: bool) -> None:
        if (place.number, fault) in self._crashes:
            return
        self._hear_out(place)
        one = place.client
        unknown = len(one.pending) if one is not None else 0
        self._crashes[place.number, fault] = Crash(died=one, unknown=unknown)
        self._crashed(place)
        if not at_once:
            place.kept_dead.add(fault)
        elif one is not None:
            self._start(place)

    def _replace(self, place: P, fault: str) -> None:
        place.kept_dead.discard(fault)
        if place.client is None and not (place.kept_dead or place.again_ns or place.retired):
            self._start(place)


class HandedOver:
    """Calls that other threads want the thread that runs a client to make."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self.closed = False

    def __bool__(self) -> bool:
        return not self._calls.empty()

    def close(self) -> None:
        """Accept no more."""
        self.closed = True

    def ask(self, call: Callable[[], None]) -> None:
        """Have it made, and wait until it was. Raises what it raises, and HarnessFailure when it
        was not made in time."""
        if self.closed:
            raise HarnessFailure("the clients are closed")
        done: Future[None] = Future()
        self._calls.put((call, done))
        try:
            done.result(timeout=HANDED_OVER_S)
        except TimeoutError:
            done.cancel()
            raise HarnessFailure(f"the clients were not polled for {HANDED_OVER_S:g} s") from None

    def make_one(self, timeout_s: float) -> int:
        """Make one call, waiting for it; how many were made."""
        try:
            call, done = self._calls.get(timeout=timeout_s) if timeout_s else self._calls.get(False)
        except Empty:
            return 0
        if done.set_running_or_notify_cancel():
            try:
                call()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)
        return 1


def routes(places: Sequence[T | None]) -> list[T | None]:
    """Who serves each place's share of the processes: itself, or while it is away, the others in
    turn; `None` while no client is there."""
    living = [one for one in places if one is not None]
    return [
        one if one is not None else (living[index % len(living)] if living else None)
        for index, one in enumerate(places)
    ]


def _nobody(_: int, __: Completion) -> None:
    """Stands for the interpreter until it polls."""


Connect = Callable[[int], BlockingClient]
"""Makes the client of a thread, by its number from 0, in that thread."""

THREADS_AT_MOST: Final = 256

CLOSED: Final = "closed"
"""The error of operations that had not ended when the client was closed."""

_REAL: Final = RealClock()
_CANCELLED_S: Final = 0.5
"""How long calls may take to end once their clients have been disconnected."""


class ThreadedClient(Client):
    """A `harness.protocols.Client` over `threads` blocking clients."""

    def __init__(
        self, connect: Connect, *, threads: int, clock: Clock = _REAL, pinned: bool = False
    ) -> None:
        """Connects nothing yet. `clock` is the cluster's, which on real nodes is the real one.
        `pinned`: process p always has client p modulo `threads`. Raises ValueError for an
        impossible number of threads."""
        if not 0 < threads <= THREADS_AT_MOST:
            raise ValueError(f"{threads} threads: use 1 to {THREADS_AT_MOST}")
        self._clock = clock
        self._ended: deque[tuple[_Worker, int, Completion]] = deque()
        self._answered = threading.Event()
        self._interrupts: list[KeyboardInterrupt] = []
        self._workers = [
            _Worker(number, connect, self._end, self._interrupts.append)
            for number in range(threads)
        ]
        self._idle = deque(self._workers)
        self._pinned = pinned
        self._busy: dict[int, _Worker] = {}
        self._closed = False

    def submit(self, process: int, op: Invoke) -> bool:
        """Hand an operation to an idle thread; False while there is none."""
        if process in self._busy:
            raise ValueError(f"process {process} has an operation in flight")
        worker = None if self._closed else self._idle_worker(process)
        if worker is None:
            return False
        self._idle.remove(worker)
        self._busy[process] = worker
        worker.begin(process, op, self._clock)
        return True

    def poll(self, timeout_s: float, done: Done) -> None:
        """See `harness.protocols.Client`. Raises the KeyboardInterrupt of a call."""
        self._raise_interrupt()
        self._poll(timeout_s, done)

    def _poll(self, timeout_s: float, done: Done) -> None:
        if not self._ended:
            self._clock.wait(self._answered, timeout_s)
        self._answered.clear()
        while self._ended:
            worker, process, ended = self._ended.popleft()
            if self._busy.pop(process, None) is worker:  # else it was given up
                self._idle.append(worker)
                done(process, ended)

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is in flight; disconnect; what has not ended then is info."""
        self._closed = True
        self._poll_for(timeout_s, done)
        for worker in self._workers:
            worker.disconnect()
        self._poll_for(_CANCELLED_S, done)
        for process in list(self._busy):
            del self._busy[process]
            done(process, completion(INFO, error=CLOSED))
        self._raise_interrupt()

    def _raise_interrupt(self) -> None:
        """Raise one for all of them: calls that the same signal has ended."""
        if self._interrupts:
            first = self._interrupts[0]
            self._interrupts.clear()
            raise first

    def _idle_worker(self, process: int) -> _Worker | None:
        """The one that a process is to have; `None` while it is busy."""
        if not self._pinned:
            return self._idle[0] if self._idle else None
        worker = self._workers[process % len(self._workers)]
        return worker if worker in self._idle else None

    def _poll_for(self, at_most_s: float, done: Done) -> None:
        """Complete what ends within this time, until nothing is in flight."""
        deadline_ns = self._clock.now_ns() + round(at_most_s * 1e9)
        while self._busy and (left_ns := deadline_ns - self._clock.now_ns()) > 0:
            self._poll(left_ns / 1e9, done)

    def _end(self, worker: _Worker, process: int, ended: Completion) -> None:
        self._ended.append((worker, process, ended))
        self._answered.set()


class _Worker:
    """A thread with a blocking client; it starts with its first operation."""

    def __init__(
        self,
        number: int,
        connect: Connect,
        end: Callable[[_Worker, int, Completion], None],
        interrupt: Callable[[KeyboardInterrupt], None],
    ) -> None:
        self._number, self._connect, self._end = number, connect, end
        self._interrupt = interrupt
        self._client: BlockingClient | None = None
        self._asked = threading.Event()
        self._job: tuple[int, Invoke] | None = None
        self._started = self._stopped = False

    def begin(self, process: int, op: Invoke, clock: Clock) -> None:
        """Give it an operation; it has none."""
        self._job = (process, op)
        self._asked.set()
        if not self._started:
            self._started = True
            clock.spawn(f"client-{self._number}", lambda: self._work(clock))

    def disconnect(self) -> None:
        """Close its client, from another thread; it begins nothing more."""
        self._stopped = True
        self._drop()
        self._asked.set()

    def _work(self, clock: Clock) -> None:
        while not self._stopped or self._job is not None:
            clock.wait(self._asked, None)
            self._asked.clear()
            if self._job is not None:
                (process, op), self._job = self._job, None
                self._end(self, process, self._call(op))
        self._drop()

    def _call(self, op: Invoke) -> Completion:
        try:
            if self._client is None:
                self._client = self._connect(self._number)
            return self._client.call(op)
        except BaseException as error:  # SystemExit and CancelledError too: else nobody ends the op
            self._drop()
            if isinstance(error, KeyboardInterrupt):
                self._interrupt(error)
            return raised(error)

    def _drop(self) -> None:
        """Close the client, and ignore what it raises."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(BaseException):
                client.close()


# A limit on calls of libraries that have none of their own: it cuts the socket.
#
# The call then ends by itself, with whatever its library raises for a lost connection, and its
# outcome is unknown. It is never cancelled: a server may answer a cancelled request as if it had
# succeeded. One thread watches all calls of a process.


@dataclass(eq=False)
class _Call:
    socket_of: Callable[[], int | None]
    deadline: float
    is_cut: bool = False


@dataclass
class _Watchdog:
    calls: set[_Call] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)
    thread: threading.Thread | None = None
    wakes_at: float = 0.0

    def begin(self, call: _Call) -> None:
        with self.changed:
            self.calls.add(call)
            if self.thread is None or not self.thread.is_alive():  # the first, or after a fork
                self.thread = threading.Thread(target=self.watch, name="call-limits", daemon=True)
                self.thread.start()
            elif call.deadline < self.wakes_at:
                self.changed.notify()

    def end(self, call: _Call) -> None:
        with self.changed:  # not while it is being cut: the next call has the same socket
            self.calls.discard(call)

    def watch(self) -> None:
        with self.changed:
            while True:
                now = time.monotonic()
                for call in [each for each in self.calls if each.deadline <= now]:
                    self.calls.discard(call)
                    call.is_cut = True
                    _cut(call.socket_of)
                self.wakes_at = min((each.deadline for each in self.calls), default=float("inf"))
                left = self.wakes_at - now
                self.changed.wait(left if self.calls else None)


def _cut(socket_of: Callable[[], int | None]) -> None:
    with suppress(Exception):  # whatever a library raises for a connection that it has closed
        number = socket_of()
        if number is not None:
            with socket.socket(fileno=os.dup(number)) as same:
                same.shutdown(socket.SHUT_RDWR)


_WATCHDOG: Final = _Watchdog()


@contextmanager
def limited(socket_of: Callable[[], int | None], limit_s: float) -> Iterator[None]:
    """Cut the socket (its file descriptor at that time) if the body takes longer than this. Raises
    TimeoutError in place of what the body raises after that."""
    call = _Call(socket_of, time.monotonic() + limit_s)
    _WATCHDOG.begin(call)
    try:
        yield
    except Exception as error:
        if call.is_cut:
            raise TimeoutError(f"no answer within {limit_s:g} s") from error
        raise
    finally:
        _WATCHDOG.end(call)

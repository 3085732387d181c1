"""A pool of real clients that the processes of a workload share: places, routes, crashes.

Each process belongs to one place, or while nobody is there, to another. What a pool is made of is
up to its subclass: producers in this process, or connections to programs
(`harness.run.exec_client`). The faults' threads request crashes and replacements; the thread that
runs the pool executes them (`harness.protocols.faults.Crashes`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeVar

from harness.errors import HarnessFailure
from harness.protocols import Client, Completion
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
        ...


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

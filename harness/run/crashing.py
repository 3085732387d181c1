"""What clients that can crash one by one have in common (`harness.protocols.crashes.Crashes`).

The faults' threads request crashes and replacements; the thread that runs the client executes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, Protocol, TypeVar

from harness.errors import HarnessFailure
from harness.protocols.crashes import Death

HANDED_OVER_S: Final = 5.0
"""How long a fault's thread waits until what it requested is done: a poll takes 50 ms."""

T = TypeVar("T")


class Mortal(Protocol):
    """A real client."""

    @property
    def name(self) -> str:
        """Its id."""

    def gone(self) -> bool:
        """Whether nothing of it is left."""


@dataclass
class Crash:
    """A real client that crashed (`None`: none was there), and who took its place."""

    died: Mortal | None
    unknown: int
    successor: str | None = None

    def report(self) -> Death:
        """As the lever reports it."""
        return Death(
            died=self.died.name if self.died else None,
            unknown=self.unknown,
            gone=self.died is not None and self.died.gone(),
            successor=self.successor,
        )


class HandedOver:
    """Calls that other threads want the thread that runs a client to make."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self._closed = False

    def __bool__(self) -> bool:
        return not self._calls.empty()

    def close(self) -> None:
        """Accept no more."""
        self._closed = True

    def ask(self, call: Callable[[], None]) -> None:
        """Have it made, and wait until it was. Raises what it raises, and HarnessFailure when it
        was not made in time."""
        if self._closed:
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

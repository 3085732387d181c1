"""Time as the harness uses it: reading the clock, waiting, and starting threads that wait.

Everything in a run that waits (the interpreter inside `Client.poll`, the schedule, the observer,
the wait before the final read) waits through a `Clock`. With the `RealClock` that costs nothing
and changes nothing. With the `VirtualClock` of simulated clusters, time passes only while every
thread that takes part is waiting, so a run of minutes takes a second and is the same every time.

Code works with both if it keeps three rules:

- wait through `Clock.wait`, never through `time.sleep`, `Event.wait`, `Thread.join` or
  `Future.result` (except for work that itself never waits on the clock);
- start threads that wait with `Clock.spawn`, and end them with `Task.join` or `Task.result`;
- hold no lock while waiting that another thread of the run needs.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock that can be waited on."""

    @abstractmethod
    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary zero; never goes back."""

    @abstractmethod
    def since(self, zero_ns: int) -> Callable[[], int]:
        """Returns nanoseconds since an instant of this clock, as cheaply as possible: it is
        called several times an operation."""

    @abstractmethod
    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Wait until `event` is set, or for `timeout_s`; whether it is set."""

    @abstractmethod
    def spawn(self, name: str, call: Callable[[], object]) -> Task:
        """Start a thread that takes part in this clock's time."""

    @abstractmethod
    def taking_part(self, name: str) -> AbstractContextManager[None]:
        """The calling thread takes part in this clock's time while the context lasts."""


@dataclass(eq=False)
class Task:
    """A thread that was started by `Clock.spawn`."""

    name: str
    clock: Clock
    call: Callable[[], object]
    finished: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None
    thread: threading.Thread | None = None

    def done(self) -> bool:
        """Whether its call has returned or raised."""
        return self.finished.is_set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait, in the clock's time, until it has ended; whether it has."""
        ended = self.clock.wait(self.finished, timeout_s)
        if ended and self.thread is not None:
            self.thread.join()
        return ended

    def result(self) -> None:
        """Wait until it has ended, then raise what its call raised."""
        self.join()
        if self.failure is not None:
            raise self.failure

    def execute(self) -> None:
        """Make the call and keep what it raises."""
        try:
            self.call()
        except BaseException as error:
            self.failure = error
        finally:
            self.finished.set()


@dataclass(frozen=True)
class RealClock:
    """The monotonic clock of this machine, counted from `zero_ns`."""

    zero_ns: int = 0

    def now_ns(self) -> int:
        """Nanoseconds since zero; by default what `time.monotonic_ns` returns."""
        return monotonic_ns() - self.zero_ns

    def since(self, zero_ns: int) -> Callable[[], int]:
        zero_ns += self.zero_ns
        return lambda: monotonic_ns() - zero_ns

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Wait for the event."""
        return event.wait(timeout_s)

    def spawn(self, name: str, call: Callable[[], object]) -> Task:
        """Start a thread."""
        task = Task(name, self, call)
        task.thread = threading.Thread(target=task.execute, name=name, daemon=True)
        task.thread.start()
        return task

    def taking_part(self, name: str) -> AbstractContextManager[None]:
        """Every thread takes part in real time."""
        return nullcontext()


@dataclass(frozen=True)
class RunClock:
    """A clock from the start of a run on: zero is its creation, just before the first operation.

    `now_ns` is a function of its base, not a method that calls another: the interpreter calls it
    twice an operation.
    """

    base: Clock = field(default_factory=RealClock)
    zero_ns: int | None = None
    wall_time: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    now_ns: Callable[[], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        zero_ns = self.base.now_ns() if self.zero_ns is None else self.zero_ns
        object.__setattr__(self, "zero_ns", zero_ns)
        object.__setattr__(self, "now_ns", self.base.since(zero_ns))

    def since(self, zero_ns: int) -> Callable[[], int]:
        return self.base.since((self.zero_ns or 0) + zero_ns)

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        return self.base.wait(event, timeout_s)

    def spawn(self, name: str, call: Callable[[], object]) -> Task:
        return self.base.spawn(name, call)

    def taking_part(self, name: str) -> AbstractContextManager[None]:
        return self.base.taking_part(name)

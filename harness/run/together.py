"""What the cells of a run do at the same time, in the time of the run's clock. A single cell needs
no thread: a run without cells is a run of one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.protocols.clock import Clock


def together(
    clock: Clock, name: str, calls: Sequence[Callable[[], None]], *, at_most: int | None = None
) -> None:
    """Make all calls, so many at a time; returns when all have ended, and raises what the first of
    them raised."""
    if len(calls) == 1:
        calls[0]()
        return
    left = deque(calls)

    def work() -> None:
        failures = []
        while True:
            try:
                call = left.popleft()
            except IndexError:  # none is left; to look before taking one would be a race
                break
            try:
                call()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    tasks = [
        clock.spawn(f"{name}-{number}", work)
        for number in range(min(len(calls), at_most or len(calls)))
    ]
    for task in tasks:
        task.join()
    for task in tasks:
        task.result()


@dataclass
class Meeting:
    """Has something done once, when all who are `expected` have come: the last one does it, the
    others wait for it."""

    clock: Clock
    expected: int
    then: Callable[[], None]
    _came: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: threading.Event = field(default_factory=threading.Event)
    _failure: BaseException | None = None

    def come(self, name: str) -> None:
        """Wait until all have come and it is done. Raises what it raised, for everyone."""
        self.leave(name)
        self.clock.wait(self._done, None)
        if self._failure is not None:
            raise self._failure

    def leave(self, name: str) -> None:
        """Do not wait; one that leaves after having come, or twice, counts once."""
        with self._lock:
            if name in self._came:
                return
            self._came.add(name)
            is_last = len(self._came) == self.expected
        if is_last:
            try:
                self.then()
            except BaseException as error:
                self._failure = error
            finally:
                self._done.set()

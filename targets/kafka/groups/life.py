"""One life of a consumer, on whatever machine its process is."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from harness.protocols import INFO
from harness.protocols.groups import KINDS, Delivery, consumer_name
from targets.kafka.groups.lines import parsed

Take = Callable[[list[Delivery]], None]
"""Takes rows as they come, from a thread of the life's own."""


class Life(ABC):
    """A consumer from its start to its end. `leaving`: it was asked to leave; `stopped`: it has
    reported itself that it has ended."""

    def __init__(self, number: int, life: int, take: Take) -> None:
        self.number, self.life, self._take = number, life, take
        self.leaving = self.stopped = False

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it runs, stopped or not."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Whether the kernel says that its process is stopped."""

    @abstractmethod
    def send(self, number: signal.Signals) -> None:
        """Send its process a signal, if it is there; SIGTERM: have the consumer leave."""

    @abstractmethod
    def kill(self) -> None:
        """End its process at once, and wait until it has ended."""

    @abstractmethod
    def wait(self, deadline_s: float) -> None:
        """Wait until it has ended by itself, until a time of the monotonic clock; else kill it."""

    @abstractmethod
    def ending(self) -> str:
        """How it ended, where it has not reported so itself."""

    def hear(self, lines: Iterable[bytes]) -> None:
        """Make rows of its lines to their end, and one of its own where it was cut short."""
        for line in lines:
            if (report := parsed(line)) is not None:
                self.stopped = self.stopped or report.f == KINDS.stop
                self._take(list(report.rows(consumer_name(self.number), self.life)))
        if not self.stopped:
            error, now_ns = self.ending(), time.monotonic_ns()
            name = consumer_name(self.number)
            row = Delivery(KINDS.stop, now_ns, now_ns, INFO, consumer=name, life=self.life)
            self._take([row._replace(error=error)])


def is_stopped(stat: str) -> bool:
    """What a process's file `stat` says of its state."""
    words = stat.rpartition(")")[2].split()
    return bool(words) and words[0] in "Tt"

"""One producer with what is in progress in it: it lives, or it crashed.

A library's own producer is a subclass of `OneProducer`. All of it is called by the thread that
drives the client, but for `gone`. A producer that crashed is given up at once, queued and in
flight, so that nothing more is sent, and a separate thread ends it: that waits for the producer's
threads, and nothing else should.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Protocol


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

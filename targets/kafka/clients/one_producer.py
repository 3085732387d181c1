"""One librdkafka producer with what is under way in it: it lives, or it crashed.

A producer that crashed is purged at once, queued and in flight, so that nothing more is sent, and
destroyed by a thread of its own: that waits for the producer's threads, and nobody else should.
Its threads are known from its start: the last of them to end, librdkafka's main thread of the
producer, waits for those of all brokers, which close their connections.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

# librdkafka's own log lines: where the command line sends them, and nowhere if it does not.
_LOG: Final = logging.getLogger("ackloss.kafka.producer")
_LOG.addHandler(logging.NullHandler())

_THREADS: Final = Path("/proc/self/task")
_MAIN: Final = "rdk:main"
_PURGED_S: Final = 1.0
_STARTING: Final = threading.Lock()

Report = Callable[[int, KafkaError | None, Message], None]
"""Told the process whose write was reported, and the report."""


class OneProducer:
    """A producer; `pending` are the processes that wait for a report, by the value written."""

    def __init__(self, settings: Mapping[str, str], name: str, report: Report) -> None:
        self.name = name
        self.pending: dict[bytes, int] = {}
        self._report = report
        self._crashed = False
        with _STARTING:
            before = _main_threads()
            self.producer = Producer(
                {**settings, "client.id": name, "on_delivery": self._delivered}, logger=_LOG
            )
            self._threads = _main_threads() - before

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if not self._crashed:
            self._report(self.pending.pop(message.value() or b""), error, message)

    def crash(self) -> list[int]:
        """Send nothing more and hear nothing more; the processes that were waiting."""
        self._crashed = True
        waiting = list(self.pending.values())
        self.pending.clear()
        self.producer.purge(blocking=False)
        threading.Thread(target=self._end, name=f"end {self.name}", daemon=True).start()
        return waiting

    def gone(self) -> bool:
        """Whether none of its threads is left, and with them none of its connections."""
        return bool(self._threads) and not self._threads & _main_threads()

    def purge(self) -> list[int]:
        """Give up what is under way and disconnect, reporting it; the processes that were not
        reported to."""
        self._end()
        return list(self.pending.values())

    def _end(self) -> None:
        self.producer.purge()
        self.producer.flush(_PURGED_S)
        self.producer.close()


def _main_threads() -> frozenset[str]:
    """The main threads of all producers in this process."""
    return frozenset(task.name for task in _THREADS.iterdir() if _comm(task) == _MAIN)


def _comm(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:  # it has ended
        return ""

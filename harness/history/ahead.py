"""Reads ahead: while the consumer works on a part, a thread makes the next ones.

Decoding Parquet and numpy's work on long arrays hold no lock of the interpreter, so the two use two
cores.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Full, Queue
from typing import Final, Generic, TypeVar

PARTS: Final = 2
"""The largest number of parts that wait for the consumer."""

_LOOK_S: Final = 0.2
"""How often a waiting thread checks whether its consumer has gone."""

Part = TypeVar("Part")


def ahead(parts: Iterator[Part]) -> Iterator[Part]:
    """The same parts, in order; what making them raises is raised here."""
    reader = _Reader(parts)
    reader.start()
    try:
        yield from reader.made()
    finally:
        reader.stop.set()


class _Reader(threading.Thread, Generic[Part]):
    """Makes parts until there are none, or `stop` is set."""

    def __init__(self, parts: Iterator[Part]) -> None:
        super().__init__(name="read-ahead", daemon=True)
        self.stop = threading.Event()
        self._parts = parts
        self._queue: Queue[tuple[Part] | BaseException | None] = Queue(PARTS)

    def run(self) -> None:
        """See threading.Thread."""
        try:
            for part in self._parts:
                if not self._put((part,)):
                    return
            self._put(None)
        except BaseException as error:  # raised again where the parts are used
            self._put(error)

    def made(self) -> Iterator[Part]:
        """The parts, as they are made."""
        while (got := self._queue.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            yield got[0]

    def _put(self, what: tuple[Part] | BaseException | None) -> bool:
        """Hand something over; whether it is still wanted."""
        while not self.stop.is_set():
            try:
                self._queue.put(what, timeout=_LOOK_S)
            except Full:
                continue
            return True
        return False

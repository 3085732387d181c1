"""Reads ahead: while the consumer works on a part, threads make the next ones.

Decoding Parquet and numpy's work on long arrays hold no lock of the interpreter, so all cores are
used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import Full, Queue
from typing import Final, Generic, TypeVar

THREADS: Final = 2
"""Each makes the parts of every other item."""

PARTS: Final = 1
"""The largest number of parts of a thread that wait for the consumer."""

_LOOK_S: Final = 0.2
"""How often a waiting thread checks whether its consumer has gone."""

Item = TypeVar("Item")
Part = TypeVar("Part")
_Said = tuple[Part] | BaseException | None
"""A part, what making one raised, or that the parts of an item are all there."""


def ahead(items: Sequence[Item], make: Callable[[Item], Iterable[Part]]) -> Iterator[Part]:
    """The parts that `make` returns for each item, in order; what it raises is raised here, behind
    the parts before it."""
    readers = [_Reader(items[n::THREADS], make) for n in range(min(THREADS, len(items)))]
    for reader in readers:
        reader.start()
    try:
        for place in range(len(items)):
            yield from readers[place % THREADS].of_next_item()
    finally:
        for reader in readers:
            reader.stop.set()


class _Reader(threading.Thread, Generic[Item, Part]):
    """Makes the parts of some items until there are none, or `stop` is set."""

    def __init__(self, items: Sequence[Item], make: Callable[[Item], Iterable[Part]]) -> None:
        super().__init__(name="read-ahead", daemon=True)
        self.stop = threading.Event()
        self._items, self._make = items, make
        self._queue: Queue[_Said[Part]] = Queue(PARTS)

    def run(self) -> None:
        """See threading.Thread."""
        try:
            for item in self._items:
                for part in self._make(item):
                    if not self._put((part,)):
                        return
                if not self._put(None):
                    return
        except BaseException as error:  # raised again where the parts are used
            self._put(error)

    def of_next_item(self) -> Iterator[Part]:
        """The parts of the next of its items, as they are made."""
        while (got := self._queue.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            yield got[0]

    def _put(self, what: _Said[Part]) -> bool:
        """Hand something over; whether it is still wanted."""
        while not self.stop.is_set():
            try:
                self._queue.put(what, timeout=_LOOK_S)
            except Full:
                continue
            return True
        return False

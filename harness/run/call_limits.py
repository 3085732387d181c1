"""A limit on calls of libraries that have none of their own: it cuts the socket.

The call then ends by itself, with whatever its library raises for a lost connection, and its
outcome is unknown. It is never cancelled: a server may answer a cancelled request as if it had
succeeded. One thread watches all calls of a process.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final


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

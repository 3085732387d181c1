"""Packets of the harness itself: every connection that it opens, to probe a fault or to observe,
leaves from a source port of a range that nothing else uses.

So a rule of the net lever knows by the port alone whether a packet is the system's (or comes from a
client of the workload) or was sent by a probe. The range lies above the ports that Linux gives to
connections by default (32768 to 60999). Where a host is configured to use the range too, some
packets of the workload count as our own: a proof may then be missed, but none is invented.
"""

from __future__ import annotations

import errno
import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, TypeVar

from harness.protocols import Node

FIRST_PORT: Final = 61_000
LAST_PORT: Final = 64_999
_PORTS: Final = LAST_PORT - FIRST_PORT + 1
_TRIES: Final = 20
# In turn, because a port cannot be reused while the kernel remembers its closed connection.
_turns = count(random.randrange(_PORTS))


T = TypeVar("T")


class NoAnswer(Exception):
    """A node was not reached, did not answer in time, or answered what is not its protocol."""


def first_answer(nodes: Iterable[Node], ask: Callable[[Node], T], *, kind: str) -> T:
    """What the first of these nodes says that answers at all. Raises NoAnswer: as the last one
    does, or that there is no node of this kind."""
    why = NoAnswer(f"there is no {kind}")
    for node in nodes:
        try:
            return ask(node)
        except NoAnswer as error:
            why = error
    raise why


def own_port() -> int:
    """The next source port of our own."""
    return FIRST_PORT + next(_turns) % _PORTS


def own_ports(times: int) -> int:
    """The first of this many successive source ports of our own; the next caller gets others."""
    first, *_ = (next(_turns) for _ in range(times))
    return FIRST_PORT + min(first % _PORTS, _PORTS - times)


_thread = threading.local()


@contextmanager
def own_traffic() -> Iterator[None]:
    """TCP connections that this thread opens meanwhile leave from ports of our own, by whatever
    library that uses Python's sockets."""
    before = getattr(_thread, "own", False)
    _thread.own = True
    try:
        yield
    finally:
        _thread.own = before


_connect = socket.socket.connect


def _connected(self: socket.socket, address: Any) -> None:
    if getattr(_thread, "own", False) and self.family == socket.AF_INET:
        unbound = self.type == socket.SOCK_STREAM and not self.getsockname()[1]
        if unbound:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind(("", own_port()))
    _connect(self, address)


socket.socket.connect = _connected  # type: ignore[assignment,method-assign]


def own_connection(address: str, port: int, *, timeout_s: float) -> socket.socket:
    """Connect from a port of our own. Raises OSError as `socket.create_connection` does."""
    for left in reversed(range(_TRIES)):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            connection.bind(("", own_port()))
            connection.settimeout(timeout_s)
            connection.connect((address, port))
        except OSError as error:
            connection.close()
            if left and error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                continue  # the kernel still remembers a connection of this port: try the next
            raise
        return connection
    raise AssertionError("the last try returns or raises")

"""One connection to a driver, and so one producer: the lines that `Driver.java` explains.

Beginning it blocks, and is done where that does no harm; afterwards nothing blocks: writes gather
until they are flushed, and answers are taken as they have come.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import quote

DRIVER_PORT: Final = 9095

JAVA: Final = "java"
"""The library's name in plans."""

_AGAIN_S: Final = 0.1
_BLOCK: Final = 1 << 16


class Refused(Exception):
    """The Java client does not accept a setting; says why in its own words."""


class Lost(Exception):
    """There is no connection, or no longer any."""


class Line:
    """A connection whose producer is ready. `reported` is its configuration, `pending` holds the
    processes that wait for an answer."""

    def __init__(
        self,
        address: tuple[str, int],
        topic: str,
        settings: Mapping[str, str],
        *,
        within_s: float,
    ) -> None:
        """Raises Refused, or Lost when no producer was ready in time."""
        self.pending: set[int] = set()
        self.reported: dict[str, str] = {}
        self.version = ""
        self._out = bytearray()
        self._in = b""
        deadline = time.monotonic() + within_s
        self.socket = connected(address, deadline)
        try:
            self._begin(topic, settings, deadline)
        except BaseException:
            self.socket.close()
            raise
        self.socket.setblocking(False)

    def _begin(self, topic: str, settings: Mapping[str, str], deadline: float) -> None:
        given = [f"set {key}={value}" for key, value in settings.items()]
        lines = [f"topic {topic}", *given, "begin", ""]
        try:
            self.socket.sendall("\n".join(lines).encode())
            while True:
                self.socket.settimeout(max(0.01, deadline - time.monotonic()))
                for line in self._split(self.socket.recv(_BLOCK)):
                    word, _, rest = line.decode().partition(" ")
                    if word == "set":
                        key, _, self.reported[key] = rest.partition("=")
                    elif word == "version":
                        self.version = rest
                    elif word == "ready":
                        return
                    elif word == "refused":
                        raise Refused(rest)
                    else:
                        raise Lost(f"its producer did not start: {rest}")
        except OSError as error:
            raise Lost(f"its producer was not ready: {error}") from error

    def write(self, process: int, partition: int, value: str, key: str | None) -> None:
        """Have something written once it is flushed; `process` waits for the answer."""
        self.pending.add(process)
        text = "" if key is None else f" ={quote(key, safe='')}"
        self.say(f"{process} {partition} {value}{text}")

    def say(self, line: str) -> None:
        """Have a line sent once it is flushed."""
        self._out += line.encode() + b"\n"

    def flush(self) -> bool:
        """Send what has gathered as far as it goes now; whether all of it went."""
        with suppress(BlockingIOError):
            while self._out:
                del self._out[: self.socket.send(self._out)]
        return not self._out

    def answers(self) -> list[list[bytes]]:
        """The words of what has been answered. Raises Lost at the end of the connection."""
        try:
            return [line.split(b" ") for line in self._split(self.socket.recv(_BLOCK))]
        except BlockingIOError:
            return []
        except OSError as error:
            raise Lost(str(error)) from error

    def end(self) -> None:
        """Have the producer closed; what it still answers is to be read until it is `closed`."""
        self.say("close")

    def _split(self, received: bytes) -> list[bytes]:
        if not received:
            raise Lost("the driver has ended the connection")
        *lines, self._in = (self._in + received).split(b"\n")
        return lines


def connected(address: tuple[str, int], deadline: float) -> socket.socket:
    """A connection, tried until a driver listens. Raises Lost."""
    while True:
        left_s = deadline - time.monotonic()
        try:
            made = socket.create_connection(address, timeout=max(0.01, left_s))
        except OSError as error:
            if left_s < _AGAIN_S:
                raise Lost(f"nothing answers at {address[0]}:{address[1]}: {error}") from error
            time.sleep(_AGAIN_S)
        else:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made

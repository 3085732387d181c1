"""Queries one ZooKeeper server, and no other: what it reports about itself is evidence.

kazoo's client reconnects by itself, to any remaining server, for as long as it exists; an observer
needs an answer from the server that it names, or none. Encoding is kazoo's; the socket is ours.
Each thread keeps a session for each server and creates it again when it is lost.
"""

from __future__ import annotations

import struct
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from kazoo.exceptions import ConnectionClosedError, NodeExistsError, NoNodeError, ZookeeperError
from kazoo.protocol.serialization import Connect, Create, Delete, GetChildren, GetData, ReplyHeader
from kazoo.security import OPEN_ACL_UNSAFE

from harness.faults.own_traffic import NoAnswer, own_connection
from targets.zookeeper.configuration import CLIENT_PORT

_SESSION_MS: Final = 10_000
_ANY_VERSION: Final = -1
_LENGTH: Final = struct.Struct(">i")
_TWO: Final = struct.Struct(">ii")
_LOST: Final = (OSError, struct.error, ConnectionClosedError)
_EXCEPTIONS: Final = {NodeExistsError.code: NodeExistsError, NoNodeError.code: NoNodeError}


class _Session:
    """A connection to one server with its own session."""

    def __init__(self, address: str, deadline: float) -> None:
        self._socket = own_connection(address, CLIENT_PORT, timeout_s=_left_s(deadline))
        weakref.finalize(self, self._socket.close)
        self._last = 0
        hello = Connect(0, 0, _SESSION_MS, 0, b"\x00" * 16, False)
        self._send(bytes(hello.serialize()))
        self._receive(deadline)

    def ask(self, request: Any, deadline: float) -> Any:
        """Raises what `_LOST` names, or what the server answers, such as NoNodeError."""
        self._last += 1
        self._send(_TWO.pack(self._last, request.type) + bytes(request.serialize()))
        while True:
            answer = self._receive(deadline)
            header, offset = ReplyHeader.deserialize(answer, 0)
            if header.xid != self._last:
                continue
            if header.err:
                raise _EXCEPTIONS.get(header.err, ZookeeperError)(f"error {header.err}")
            return request.deserialize(answer, offset)

    def _send(self, body: bytes) -> None:
        self._socket.sendall(_LENGTH.pack(len(body)) + body)

    def _receive(self, deadline: float) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline))
        return self._exactly(length, deadline)

    def _exactly(self, size: int, deadline: float) -> bytes:
        received = b""
        while len(received) < size:
            self._socket.settimeout(_left_s(deadline))
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionClosedError("the server closed the connection")
            received += part
        return received


class _Sessions(threading.local):
    """The sessions of one thread, by address."""

    def __init__(self) -> None:
        self.of: dict[str, _Session] = {}


_sessions: Final = _Sessions()


def ask(address: str, request: Any, *, timeout_s: float) -> Any:
    """One request to one server. Raises NoAnswer, or the server's own refusal (ZookeeperError)."""
    deadline = time.monotonic() + timeout_s
    kept = address in _sessions.of
    try:
        if not kept:
            _sessions.of[address] = _Session(address, deadline)
        return _sessions.of[address].ask(request, deadline)
    except _LOST as error:
        del_session(address)
        if kept and time.monotonic() < deadline:  # perhaps it expired between two queries
            return ask(address, request, timeout_s=_left_s(deadline))
        raise NoAnswer(f"{address}:{CLIENT_PORT}: {error}") from error


def del_session(address: str) -> None:
    """Give up this thread's session with a server."""
    _sessions.of.pop(address, None)


def get(address: str, path: str, *, timeout_s: float) -> bytes | None:
    """A znode's data; null if there is no such znode."""
    try:
        data, _ = _answer(address, GetData(path, None), timeout_s)
    except NoNodeError:
        return None
    return bytes(data or b"")


def children(address: str, path: str, *, timeout_s: float) -> Sequence[str]:
    """The names of a znode's children; none if there is no such znode."""
    try:
        return list(_answer(address, GetChildren(path, None), timeout_s))
    except NoNodeError:
        return []


def create(address: str, path: str, data: bytes, *, timeout_s: float) -> None:
    """Create a znode, and its parents if they are missing. An existing one is left unchanged."""
    parent = path.rpartition("/")[0]
    try:
        _answer(address, Create(path, data, OPEN_ACL_UNSAFE, 0), timeout_s)
    except NodeExistsError:
        return
    except NoNodeError:
        create(address, parent, b"", timeout_s=timeout_s)
        create(address, path, data, timeout_s=timeout_s)


def delete(address: str, path: str, *, timeout_s: float) -> None:
    """Delete a znode, if it is there."""
    with suppress(NoNodeError):
        _answer(address, Delete(path, _ANY_VERSION), timeout_s)


def _answer(address: str, request: Any, timeout_s: float) -> Any:
    """What the server answers. Raises NoAnswer, also for most refusals; NoNodeError,
    NodeExistsError."""
    try:
        return ask(address, request, timeout_s=timeout_s)
    except (NoNodeError, NodeExistsError):
        raise
    except ZookeeperError as error:
        raise NoAnswer(f"{address}:{CLIENT_PORT}: {error}") from error


def _left_s(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())

"""Watches of systems that stream the changes of a key to each client that asks, for `watch`.

A change and its event reach a client by two connections to one server, in no order. So a client
that has read a change waits for the event: once the server has answered again after the time limit
of a request, and there is still none, there will be none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from select import select
from typing import Any, Final

from harness.protocols import NULL
from harness.servers import connected

_NUMBERS: Final = count()


class Stream:
    """What a server sends in answer to one document that is posted, for as long as it does."""

    def __init__(
        self, address: str, port: int, path: str, document: Mapping[str, Any], *, limit_s: float
    ) -> None:
        self._got, self._socket = b"", connected(address, port, timeout_s=limit_s)
        body = json.dumps(document)
        head = f"POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(f"{head}{body}".encode())

    def came(self, what: bytes, wait_s: float) -> int:
        """Whether this has come, after this time at most; NULL: the connection ended before."""
        with suppress(OSError):
            while what not in self._got:
                if not select([self._socket], [], [], wait_s)[0]:
                    return 0
                if not (more := self._socket.recv(65536)):
                    return NULL
                self._got += more
            return 1
        return NULL

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()


class Watches:
    """The watches that a client leaves: one of each key. `look` returns the place of a key's last
    write, and its value; `wanted` is the document that requests `follow` for all later ones, with
    `event` in what it sends of each."""

    def __init__(
        self,
        look: Callable[[str], tuple[int, int]],
        wanted: Callable[[str, int], Mapping[str, Any]],
        follow: Callable[[Mapping[str, Any]], Stream],
        *,
        limit_s: float,
        event: bytes = b'"events":',
    ) -> None:
        self._look, self._wanted, self._follow = look, wanted, follow
        self._event, self._limit_s = event, limit_s
        self._left, self._number = dict[str, tuple[int, Stream]](), next(_NUMBERS)

    def watch(self, key: str) -> tuple[int, tuple[int, ...]]:
        """As `KeyValueClient.watch`."""
        since, before = self._left.get(key, (NULL, None))
        notified = before.came(self._event, 0) if before else NULL
        place, value = self._look(key)
        if before and place > since:
            if not before.came(self._event, self._limit_s):
                self._look(key)
            notified = before.came(self._event, self._limit_s)
        if before:
            before.close()
        self._left[key] = place, self._follow(self._wanted(key, place))
        return place, (value, notified, self._number)

    def close(self) -> None:
        """End them all."""
        for _, stream in self._left.values():
            stream.close()

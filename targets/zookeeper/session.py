"""One kazoo client without its retry layer, for one operation at a time.

kazoo keeps the connection of a session: when it is lost, what was in progress ends in
ConnectionLoss, and kazoo connects the same session to the next server. An operation is handed over
only while there is a connection, and once. One that is not answered in time may still be sent or
applied later.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.states import Callback
from kazoo.retry import KazooRetry

from targets.zookeeper.configuration import CLIENT_PORT

_CLOSE_S: Final = 0.3

_SILENT: Final = logging.Logger("kazoo", level=logging.CRITICAL)
"""kazoo logs each lost connection; that belongs to the history."""


class Answer(AsyncResult):  # type: ignore[misc]
    """The answer to a request; `at` is its place among all that came over the connection."""

    at = 0

    def set(self, value: object = None) -> None:
        """kazoo calls it in the thread that reads the connection."""
        self.at = next(self._handler.order)
        super().set(value)


class InOrder(SequentialThreadingHandler):  # type: ignore[misc]
    """Triggers watches in the thread that reads the connection. In kazoo's thread of callbacks an
    event may be late, and then nothing shows whether it came before an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.order = itertools.count(1)

    def async_result(self) -> Answer:
        """See kazoo."""
        return Answer(self)

    def dispatch_callback(self, callback: Callback) -> None:
        """See kazoo."""
        if callback.type == "watch":
            callback.func(*callback.args)
        else:
            super().dispatch_callback(callback)


class Session:
    """A session with the servers at these addresses, tried in this order. It begins to connect at
    once. `names` are the servers by address."""

    def __init__(
        self,
        addresses: Sequence[str],
        names: Mapping[str, str],
        *,
        session_ms: int,
        request_ms: int,
    ) -> None:
        self._names, self._request_s = names, request_ms / 1000
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_jitter=0.2, max_delay=0.5)
        self.kazoo = KazooClient(
            hosts=",".join(f"{address}:{CLIENT_PORT}" for address in addresses),
            timeout=session_ms / 1000,
            connection_retry=retry,
            randomize_hosts=False,
            logger=_SILENT,
            handler=InOrder(),
        )
        self._live = self.kazoo.start_async()

    def connected(self) -> bool:
        """Whether there is a connection, or there is one within the time of a request."""
        return bool(self._live.wait(self._request_s))

    def wait(self, requested: Any) -> Any:
        """The answer to an asynchronous request. Raises what the server answered, or kazoo's
        timeout."""
        return requested.get(timeout=self._request_s)

    @property
    def number(self) -> int | None:
        """ZooKeeper's number of the session; `None` while there is none. One that expires is
        followed by another, to which it promises nothing."""
        session, _ = self.kazoo.client_id or (None, None)
        return session

    def server(self) -> str | None:
        """The server to which it is connected."""
        with suppress(AttributeError, OSError):
            address, *_ = self.kazoo._connection._socket.getpeername()
            return self._names.get(address)
        return None

    def close(self) -> None:
        """End the session if its server answers at once. kazoo waits 10 s for one that does not, so
        it ends in a separate thread."""
        closing = threading.Thread(target=self._stop, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)

    def _stop(self) -> None:
        with suppress(Exception):
            self.kazoo.stop()
            self.kazoo.close()

"""Clients of the harness over kazoo: one for each model of operations.

set       an element is a separate znode below `PARENT/set`; a read lists the children
register  a key is a znode; a write sets it whatever its version is, or makes it; compare-and-set
          reads it, and sets it where its version is still the same

sequence  a number is that of a sequential znode below `PARENT/sequence`
lock      a lock is an ephemeral znode below `PARENT/locks`
watch     a key is a znode; a watch reads it with `watch=`, and says whether the watch that this
          client left there before was triggered

In an operation of several requests, only the last one changes something, and each further request
is sent only after an answer that proves that nothing was changed.
"""

from __future__ import annotations

import itertools
import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, ZookeeperError
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.states import Callback, EventType, WatchedEvent
from kazoo.retry import KazooRetry

from harness.protocols import (
    FAIL,
    INFO,
    NULL,
    OK,
    BlockingClient,
    Client,
    Cluster,
    Completion,
    Expected,
    Invoke,
    completion,
)
from harness.protocols.clock import RealClock
from harness.run.client_pool import ThreadedClient
from harness.servers import DIFFERS, NOT_CONNECTED, in_turn
from targets.zookeeper.configuration import CLIENT_PORT, LOCKS, SEQUENCE, SET, ZooKeeperPlan

# One kazoo client without its retry layer, for one operation at a time.
#
# kazoo keeps the connection of a session: when it is lost, what was in progress ends in
# ConnectionLoss, and kazoo connects the same session to the next server. An operation is handed
# over only while there is a connection, and once. One that is not answered in time may still be
# sent or applied later.

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
        return Answer(self)

    def dispatch_callback(self, callback: Callback) -> None:
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


# How an operation ended: from ZooKeeper's error codes to fail and info.
#
# `fail` means certainly not applied. A server gives that proof by a code that it returns while it
# prepares a request (`PrepRequestProcessor`): the transaction becomes an error and changes
# nothing. kazoo sends each request once (its retry layer, `KazooClient.retry`, is not used), and
# a session's requests are answered in order, so the code belongs to the only attempt. Everything
# else is `info`: the request may have been applied, or may be later.
# tests/targets/zookeeper/test_outcomes.py answers every code from a server that applies first.

REFUSED: Final[Mapping[int, str]] = {
    -6: "Unimplemented: the server does not have this request",
    -8: "BadArguments: the path is checked before the transaction is made",
    -101: "NoNode: there is no znode to change, or no parent to create it in",
    -102: "NoAuth: rights are checked before the transaction is made",
    -103: "BadVersion: the expected version is compared before the transaction is made",
    -108: "NoChildrenForEphemerals: the parent is checked before the transaction is made",
    -110: "NodeExists: the path was taken before this request",
    -111: "NotEmpty: a znode with children is not deleted",
    -114: "InvalidACL: rights are checked before the transaction is made",
    -119: "NotReadOnly: a server without a quorum refuses writes",
    -125: "QuotaExceeded: quotas are checked before the transaction is made",
    -127: "ThrottledOp: the request was dropped from the queue, and answered in its place",
}
"""Codes that a server returns without applying the request."""

UNPROVEN: Final[Mapping[int, str]] = {
    -1: "SystemError: says nothing of what came before it",
    -2: "RuntimeInconsistency: says nothing of what came before it",
    -3: "DataInconsistency: says nothing of what came before it",
    -4: "ConnectionLoss: kazoo's own: the connection was lost after the request was queued",
    -5: "MarshallingError: the answer, not the request, may be what could not be read",
    -7: "OperationTimeout: says nothing of what came before it",
    -112: "SessionExpired: the request may have been applied before the session ended",
    -115: "AuthFailed: ends the connection, whatever was under way in it",
    -118: "SessionMoved: another connection of the session may have been faster",
    -122: "RequestTimeout: says nothing of what came before it",
}
"""Codes that prove nothing, and why."""


def outcome(error: Exception) -> Completion:
    """How an operation ended for which kazoo raised this exception."""
    code = getattr(error, "code", None)
    name = type(error).__name__.removesuffix("Error")
    return completion(FAIL if code in REFUSED else INFO, error=name)


class ZooKeeperClient(BlockingClient):
    """What the clients of all models have in common: they write below `parent`. With `sync`, a
    `sync` precedes each read."""

    def __init__(self, session: Session, *, parent: str, sync: bool) -> None:
        self.session, self.parent, self.sync = session, parent, sync

    @abstractmethod
    def operate(self, op: Invoke) -> Completion:
        """Execute one operation. Raises what kazoo raises."""

    def call(self, op: Invoke) -> Completion:
        """See `BlockingClient`. A client whose request timed out raises, and is replaced."""
        if not self.session.connected():
            return completion(FAIL, error=NOT_CONNECTED)
        before = self.session.server()
        try:
            type_, position, error, _, result = self.operate(op)
        except ZookeeperError as refused:
            type_, position, error, _, result = outcome(refused)
        node = before if self.session.server() == before else None
        return completion(type_, position, error, node, result)

    def close(self) -> None:
        """End the session."""
        self.session.close()

    def ask(self, request: str, *given: Any, **options: Any) -> Any:
        """The answer to a request of kazoo's, by its name. Raises what the server answered."""
        return self.session.wait(getattr(self.session.kazoo, f"{request}_async")(*given, **options))

    def synced(self) -> None:
        """Make the server catch up with its leader, if reads are to be preceded by that."""
        if self.sync:
            self.ask("sync", self.parent)


class SetClient(ZooKeeperClient):
    """One set: its elements are znodes."""

    def operate(self, op: Invoke) -> Completion:
        f, value, *_ = op
        if f == "add":
            self.ask("create", f"{self.parent}/{SET}/{value}")
            return completion(OK, self.session.kazoo.last_zxid)
        self.synced()
        children = self.ask("get_children", f"{self.parent}/{SET}")
        return completion(OK, result=tuple(map(int, children)))


class SequenceClient(ZooKeeperClient):
    """A sequence: each request creates a sequential znode, whose name ends in its number."""

    def operate(self, op: Invoke) -> Completion:
        path, data = f"{self.parent}/{SEQUENCE}/n-", str(op[1]).encode()
        made = self.ask("create", path, data, sequence=True)
        return completion(OK, int(made.rpartition("-")[2]))


class LockClient(ZooKeeperClient):
    """Locks: a lock is an ephemeral znode, which ends with the session that created it."""

    def operate(self, op: Invoke) -> Completion:
        f, value, _, key, _ = op
        path = f"{self.parent}/{LOCKS}/{key}"
        if f == "acquire":
            self.ask("create", path, str(value).encode(), ephemeral=True)
            return completion(OK)
        if f == "confirm":
            self.synced()
            return completion(OK, result=int(self._is_own(path)))
        if not self._is_own(path):
            return completion(FAIL, error=DIFFERS)
        self.ask("delete", path)
        return completion(OK)

    def _is_own(self, path: str) -> bool:
        """Whether the znode belongs to this session, as the server has it."""
        stat = self.ask("exists", path)
        return stat is not None and stat.ephemeralOwner == self.session.number


class KeyedClient(ZooKeeperClient):
    """Keys that are znodes whose data is a value."""

    def _write(self, path: str, data: bytes) -> Completion:
        """Set it; create it if it is missing; set it after all if another client was first."""
        with suppress(NoNodeError):
            return completion(OK, self.ask("set", path, data).mzxid)
        with suppress(NodeExistsError):
            self.ask("create", path, data)
            return completion(OK)
        return completion(OK, self.ask("set", path, data).mzxid)


class RegisterClient(KeyedClient):
    """Registers: a key holds a value."""

    def operate(self, op: Invoke) -> Completion:
        f, value, _, key, expected = op
        path = f"{self.parent}/{key}"
        if f == "read":
            return self._read(path)
        if f == "write":
            return self._write(path, str(value).encode())
        if f == "delete":
            self.ask("delete", path)
            return completion(OK)
        return self._compare_and_set(path, str(value).encode(), expected)

    def _read(self, path: str) -> Completion:
        self.synced()
        try:
            data, stat = self.ask("get", path)
        except NoNodeError:
            return completion(OK)
        return completion(OK, stat.mzxid, result=int(data))

    def _compare_and_set(self, path: str, data: bytes, expected: Expected) -> Completion:
        held, stat = self.ask("get", path)
        if int(held) != expected:
            return completion(FAIL, error=DIFFERS)
        changed = self.ask("set", path, data, stat.version)
        return completion(OK, changed.mzxid)


@dataclass(eq=False)
class Left:
    """The watch that a client leaves on a znode. `at`: the place of its event among the answers and
    events of the connection; `lost`: the event is that the connection was lost."""

    order: Iterator[int]
    at: int | None = None
    lost: bool = False

    def __call__(self, event: WatchedEvent) -> None:
        """Called for a change, or when the connection is lost."""
        self.at, self.lost = next(self.order), event.type == EventType.NONE

    def notified(self, answer: int) -> int:
        """Whether a change had been reported before the answer at this place; NULL where the
        connection was lost before it."""
        if self.at is None or self.at > answer:
            return 0
        return NULL if self.lost else 1


class WatchClient(KeyedClient):
    """Keys that are written and watched. The result of each ends with the session that had it, NULL
    if it ended meanwhile."""

    def __init__(self, session: Session, *, parent: str, sync: bool) -> None:
        super().__init__(session, parent=parent, sync=sync)
        self._left: dict[str, Left] = {}

    def operate(self, op: Invoke) -> Completion:
        f, value, _, key, _ = op
        path, before = f"{self.parent}/{key}", self.session.number
        write = f == "write"
        ended = self._write(path, str(value).encode()) if write else self._watch(path)
        type_, position, error, node, result = ended
        number = before if before is not None and self.session.number == before else NULL
        found = result if isinstance(result, tuple) else ()
        return completion(type_, position, error, node, (*found, number))

    def _watch(self, path: str) -> Completion:
        """Read with a new watch. A znode that is missing has none, and the operation fails."""
        kazoo = self.session.kazoo
        before, left = self._left.pop(path, None), Left(kazoo.handler.order)
        answer = kazoo.get_async(path, watch=left)
        data, stat = self.session.wait(answer)
        self._left[path] = left
        notified = NULL if before is None else before.notified(answer.at)
        return completion(OK, stat.mzxid, result=(int(data), notified))


CLIENTS: Final[dict[str, Callable[..., ZooKeeperClient]]] = {
    "lock": LockClient,
    "register": RegisterClient,
    "sequence": SequenceClient,
    "set": SetClient,
    "watch": WatchClient,
}
"""By the name of their model."""


def client_of(cluster: Cluster, plan: ZooKeeperPlan, model: str, *, pinned: bool) -> Client:
    """One kazoo client for each of the plan's clients, connected when it is first used; `pinned` to
    their processes."""
    load, make = plan.workload, CLIENTS[model]
    names = {node.address: node.name for node in cluster.nodes.values()}

    def connect(number: int) -> ZooKeeperClient:
        session = Session(
            in_turn(list(names), load.connect, number),
            names,
            session_ms=load.session_ms,
            request_ms=load.request_ms,
        )
        return make(session, parent=load.parent, sync=load.read == "sync")

    return ThreadedClient(connect, threads=load.clients, clock=RealClock(), pinned=pinned)

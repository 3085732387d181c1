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

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kazoo.exceptions import NodeExistsError, NoNodeError, ZookeeperError
from kazoo.protocol.states import EventType, WatchedEvent

from harness.protocols import (
    FAIL,
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
from harness.run.blocking import ThreadedClient
from targets.zookeeper.any_client import addresses_of
from targets.zookeeper.layout import LOCKS, SEQUENCE, SET
from targets.zookeeper.outcomes import NOT_CONNECTED, outcome
from targets.zookeeper.plan import ZooKeeperPlan
from targets.zookeeper.session import Session

DIFFERS: Final = "Differs"
"""The error of a compare-and-set whose register held another value."""


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

    def synced(self) -> None:
        """Make the server catch up with its leader, if reads are to be preceded by that."""
        if self.sync:
            self.session.wait(self.session.kazoo.sync_async(self.parent))


class SetClient(ZooKeeperClient):
    """One set: its elements are znodes."""

    def operate(self, op: Invoke) -> Completion:
        """Create a znode, or list all."""
        f, value, *_ = op
        kazoo = self.session.kazoo
        if f == "add":
            self.session.wait(kazoo.create_async(f"{self.parent}/{SET}/{value}"))
            return completion(OK)
        self.synced()
        children = self.session.wait(kazoo.get_children_async(f"{self.parent}/{SET}"))
        return completion(OK, result=tuple(map(int, children)))


class SequenceClient(ZooKeeperClient):
    """A sequence: each request creates a sequential znode, whose name ends in its number."""

    def operate(self, op: Invoke) -> Completion:
        """Create the next znode."""
        _, value, *_ = op
        path = f"{self.parent}/{SEQUENCE}/n-"
        data = str(value).encode()
        made = self.session.wait(self.session.kazoo.create_async(path, data, sequence=True))
        return completion(OK, int(made.rpartition("-")[2]))


class LockClient(ZooKeeperClient):
    """Locks: a lock is an ephemeral znode, which ends with the session that created it."""

    def operate(self, op: Invoke) -> Completion:
        """Create the znode, read whose it is, or delete it."""
        f, value, _, key, _ = op
        path = f"{self.parent}/{LOCKS}/{key}"
        kazoo = self.session.kazoo
        if f == "acquire":
            data = str(value).encode()
            self.session.wait(kazoo.create_async(path, data, ephemeral=True))
            return completion(OK)
        if f == "confirm":
            self.synced()
            return completion(OK, result=int(self._is_own(path)))
        if not self._is_own(path):
            return completion(FAIL, error=DIFFERS)
        self.session.wait(kazoo.delete_async(path))
        return completion(OK)

    def _is_own(self, path: str) -> bool:
        """Whether the znode belongs to this session, as the server has it."""
        stat = self.session.wait(self.session.kazoo.exists_async(path))
        return stat is not None and stat.ephemeralOwner == self.session.number


class KeyedClient(ZooKeeperClient):
    """Keys that are znodes whose data is a value."""

    def _write(self, path: str, data: bytes) -> Completion:
        """Set it; create it if it is missing; set it after all if another client was first."""
        kazoo = self.session.kazoo
        try:
            return completion(OK, self.session.wait(kazoo.set_async(path, data)).mzxid)
        except NoNodeError:
            pass
        try:
            self.session.wait(kazoo.create_async(path, data))
            return completion(OK)
        except NodeExistsError:
            return completion(OK, self.session.wait(kazoo.set_async(path, data)).mzxid)


class RegisterClient(KeyedClient):
    """Registers: a key holds a value."""

    def operate(self, op: Invoke) -> Completion:
        """Read, write, or compare and set."""
        f, value, _, key, expected = op
        path = f"{self.parent}/{key}"
        if f == "read":
            return self._read(path)
        if f == "write":
            return self._write(path, str(value).encode())
        return self._compare_and_set(path, str(value).encode(), expected)

    def _read(self, path: str) -> Completion:
        self.synced()
        try:
            data, stat = self.session.wait(self.session.kazoo.get_async(path))
        except NoNodeError:
            return completion(OK)
        return completion(OK, stat.mzxid, result=int(data))

    def _compare_and_set(self, path: str, data: bytes, expected: Expected) -> Completion:
        kazoo = self.session.kazoo
        held, stat = self.session.wait(kazoo.get_async(path))
        if int(held) != expected:
            return completion(FAIL, error=DIFFERS)
        changed = self.session.wait(kazoo.set_async(path, data, stat.version))
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
        """Write, or read and leave a watch."""
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
            addresses_of(names, plan, number),
            names,
            session_ms=load.session_ms,
            request_ms=load.request_ms,
        )
        return make(session, parent=load.parent, sync=load.read == "sync")

    return ThreadedClient(connect, threads=load.clients, clock=RealClock(), pinned=pinned)

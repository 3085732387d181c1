"""Clients of the harness over the reference system: time passes while they are polled.

`PolledRequests` serves every model; one client for each model makes requests of its operations.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar
from zlib import crc32

from harness.clusters.memory.cluster import MemoryCluster
from harness.protocols import (
    NULL,
    OK,
    Client,
    Completion,
    Done,
    Expected,
    Invoke,
    Result,
    completion,
)
from targets.memory.requests import Command, OnDone, Outcome, Requests

APART: Final = 2**40
"""A number above that of any client's processes."""


Request = TypeVar("Request", contravariant=True)


class Begins(Protocol[Request]):
    """What begins requests in the simulation, as `Requests` does."""

    def submit(self, process: int, request: Request, on_done: OnDone) -> None:
        """Begin what a process requests, which has nothing in progress."""
        ...

    def abandon(self, process: int) -> None:
        """It is no longer waited for."""
        ...


class PolledRequests(Generic[Request]):
    """Requests that are begun by `submit` and ended inside `poll`, by one thread of the harness."""

    def __init__(self, cluster: MemoryCluster, requests: Begins[Request]) -> None:
        self._cluster, self._requests = cluster, requests
        self._ended: deque[tuple[int, Outcome]] = deque()
        self._answered = threading.Event()
        self._under_way: set[int] = set()

    def submit(self, process: int, request: Request) -> bool:
        """Begin a request; it always can."""
        self._under_way.add(process)
        with self._cluster.simulation.held():
            self._requests.submit(process, request, self._end)
        return True

    def poll(self, timeout_s: float, done: Callable[[int, Outcome], None]) -> None:
        """Report what has ended; let time pass until something does, or for `timeout_s`."""
        if not self._ended:
            self._cluster.clock.wait(self._answered, timeout_s)
        self._answered.clear()
        while self._ended:
            process, outcome = self._ended.popleft()
            self._under_way.discard(process)
            done(process, outcome)

    def close(self, timeout_s: float, done: Callable[[int, Outcome], None]) -> None:
        """Wait for what is in progress; what is left then is unknown."""
        clock = self._cluster.clock
        deadline_ns = clock.now_ns() + round(timeout_s * 1e9)
        while self._under_way and (left_ns := deadline_ns - clock.now_ns()) > 0:
            self.poll(left_ns / 1e9, done)
        for process in sorted(self._under_way):
            with self._cluster.simulation.held():
                self._requests.abandon(process)
            done(process, Outcome("info", error="closed"))
        self._under_way.clear()

    def _end(self, process: int, outcome: Outcome) -> None:
        self._ended.append((process, outcome))
        self._answered.set()


class ModelClient(Client):
    """What the clients of all models have in common: an operation becomes a request, and the answer
    a completion. Its partitions are counted from 0, the first of them is `first` in the system,
    which distinguishes its processes from those of other clients by that."""

    def __init__(
        self, cluster: MemoryCluster, requests: Requests, partitions: int = 1, first: int = 0
    ) -> None:
        self._polled = PolledRequests(cluster, requests)
        self.partitions, self._first = partitions, first

    @abstractmethod
    def command(self, op: Invoke) -> Command:
        """The request that an operation means."""

    def result(self, outcome: Outcome) -> Result:
        """What an operation has read."""
        value: int | None = outcome.result
        return value

    def submit(self, process: int, op: Invoke) -> bool:
        """See `harness.protocols.Client`."""
        command = self.command(op)
        command = command._replace(partition=self._first + command.partition)
        return self._polled.submit(self._first * APART + process, command)

    def poll(self, timeout_s: float, done: Done) -> None:
        """See `harness.protocols.Client`."""
        self._polled.poll(timeout_s, self._reporting(done))

    def close(self, timeout_s: float, done: Done) -> None:
        """See `harness.protocols.Client`."""
        self._polled.close(timeout_s, self._reporting(done))

    def _reporting(self, done: Done) -> Callable[[int, Outcome], None]:
        before = self._first * APART
        return lambda process, ended: done(process - before, self._completion(ended))

    def _completion(self, ended: Outcome) -> Completion:
        result = self.result(ended) if ended.type == OK else None
        return completion(ended.type, ended.position, ended.error, ended.node, result)


class LogClient(ModelClient):
    """Appends, each to its own partition."""

    def command(self, op: Invoke) -> Command:
        """An append."""
        _, value, partition, key, _ = op
        return Command("append", key, value, None, partition)


class RegisterClient(ModelClient):
    """Reads, writes and compare-and-sets of registers; a key belongs to one partition."""

    def command(self, op: Invoke) -> Command:
        """A read, a write or a compare-and-set."""
        f, value, _, key, expected = op
        partition = crc32((key or "").encode()) % self.partitions
        return Command(f, key, _or_none(value), _or_none(expected), partition)


class SetClient(ModelClient):
    """One set, in the first partition: its elements are what was appended there."""

    def command(self, op: Invoke) -> Command:
        """An append, or a read of everything."""
        f, value, *_ = op
        return Command("append", None, value) if f == "add" else Command("read-all")

    def result(self, outcome: Outcome) -> Result:
        """All elements, in the order of the log; nothing for an add."""
        if outcome.result is None:
            return None
        return tuple(value for _, _, value in outcome.result)


def _or_none(number: Expected) -> int | None:
    return None if number == NULL or isinstance(number, tuple) else number

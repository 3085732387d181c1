"""Clients of the harness over the reference system: time passes while they are polled.

`PolledRequests` serves every model: a register's read, write and compare-and-set, a set's add
(`append`) and read (`read-all`). `LogClient` is the client of the append workload over it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from harness.clusters.memory.cluster import MemoryCluster
from harness.protocols import Completion, Done, Invoke, completion
from targets.memory.requests import Command, Outcome, Requests


class PolledRequests:
    """Requests that are begun by `submit` and ended inside `poll`, by one thread of the harness."""

    def __init__(self, cluster: MemoryCluster, requests: Requests) -> None:
        self._cluster, self._requests = cluster, requests
        self._ended: deque[tuple[int, Outcome]] = deque()
        self._answered = threading.Event()
        self._under_way: set[int] = set()

    def submit(self, process: int, command: Command) -> bool:
        """Begin a request; it always can."""
        self._under_way.add(process)
        with self._cluster.simulation.held():
            self._requests.submit(process, command, self._end)
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
        """Wait for what is under way; what is left then is unknown."""
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


class LogClient:
    """Appends, as the append workload invokes them."""

    def __init__(self, cluster: MemoryCluster, requests: Requests) -> None:
        self._polled = PolledRequests(cluster, requests)

    def submit(self, process: int, op: Invoke) -> bool:
        """Begin an append."""
        _, value, partition, key, _ = op
        return self._polled.submit(process, Command("append", key, value, None, partition))

    def poll(self, timeout_s: float, done: Done) -> None:
        """See `harness.protocols.Client`."""
        self._polled.poll(timeout_s, lambda process, outcome: done(process, _completion(outcome)))

    def close(self, timeout_s: float, done: Done) -> None:
        """See `harness.protocols.Client`."""
        self._polled.close(timeout_s, lambda process, outcome: done(process, _completion(outcome)))


def _completion(outcome: Outcome) -> Completion:
    return completion(outcome.type, outcome.position, outcome.error, outcome.node)

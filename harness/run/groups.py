"""The group of consumers that reads beside a run's load, from its start to what it has committed.

    begin   all consumers start; every partition is assigned before the load begins (the gate:
            else a group that begins at the latest offset skips what was written before it joined)
    drain   after the load and the faults: until everything is read and its commit confirmed, for
            `final.drain_s` at most; then all leave, and each node is queried for what is committed

What consumers did is kept until the run's clock has begun, and goes to `deliveries/` from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from harness.errors import HarnessFailure
from harness.history import DELIVERIES
from harness.history.parquet_writer import ParquetWriter
from harness.history.run_folder import RunDir
from harness.plan import Plan
from harness.protocols import FAIL, INFO, OK, RunCluster, Target
from harness.protocols.clock import Clock, RunClock
from harness.protocols.groups import KINDS, Consumers, Delivery, GroupSettings, HasConsumers

_GATE_S: Final = 60.0
_LEAVE_S: Final = 20.0
_TICK_S: Final = 0.1


class GroupRun:
    """One group during its run; its methods are called in their order. A context that ends the
    remaining consumers."""

    def __init__(
        self,
        target: Target[Any],
        cluster: RunCluster,
        plan: Plan,
        group: GroupSettings,
        clock: Clock,
    ) -> None:
        assert isinstance(target, HasConsumers)
        self._plan, self._clock = plan, clock
        self._lock = threading.Lock()
        self._kept: list[Delivery] = []
        self._write: Callable[[Sequence[Delivery]], None] = self._kept.extend
        self.consumers: Consumers = target.consumers(cluster, plan, group, self._record)
        self._ended = False

    def __enter__(self) -> GroupRun:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            self.consumers.close(0)

    def begin(self) -> None:
        """Start the consumers, and wait until every partition has one that reads it."""
        begun_ns = self._clock.now_ns()
        self.consumers.start()
        why = self._until(self.consumers.assigned, _GATE_S, threading.Event())
        self._note(KINDS.gate, begun_ns, why)

    @contextmanager
    def recording(self, clock: RunClock, rundir: RunDir) -> Iterator[None]:
        """Write rows into the run folder while the context lasts, on the run's clock."""
        zero_ns = clock.zero_ns or 0
        rundir.deliveries.mkdir(exist_ok=True)
        with ParquetWriter(rundir.deliveries, DELIVERIES, run_id=rundir.run_id) as writer:

            def write(rows: Sequence[Delivery]) -> None:
                writer.append([_since(row, zero_ns) for row in rows])

            with self._lock:
                write(self._kept)
                self._write = write
            yield
            if writer.failure is not None:
                raise writer.failure

    def drain(self, stop: threading.Event) -> None:
        """Wait until all is read and committed, end the consumers, and ask what is committed."""
        begun_ns, limit_s = self._clock.now_ns(), self._plan.final.drain_s
        why = self._until(self.consumers.drained, limit_s, stop)
        self._note(KINDS.drain, begun_ns, why)
        self._ended = True
        self.consumers.close(_LEAVE_S)
        self._record(self.consumers.committed(limit_s))

    def _until(
        self, why_not: Callable[[], str | None], limit_s: float, stop: threading.Event
    ) -> str | None:
        """Wait until nothing is missing; returns what still is when the time is up."""
        deadline_ns = self._clock.now_ns() + round(limit_s * 1e9)
        while (why := why_not()) is not None:
            if stop.is_set() or self._clock.now_ns() >= deadline_ns:
                return why
            self._clock.wait(stop, _TICK_S)
        return None

    def _note(self, kind: str, begun_ns: int, why: str | None) -> None:
        ended = OK if why is None else INFO
        self._record([Delivery(kind, begun_ns, self._clock.now_ns(), ended, error=why)])

    def _record(self, rows: Sequence[Delivery]) -> None:
        for row in rows:
            if row.f not in KINDS or row.type not in (OK, INFO, FAIL, "invoke"):
                raise HarnessFailure(f"a consumer reports {row!r:.200}, which is not a row")
        with self._lock:
            self._write(rows)


def _since(row: Delivery, zero_ns: int) -> Delivery:
    return row._replace(begun_ns=row.begun_ns - zero_ns, time_ns=row.time_ns - zero_ns)

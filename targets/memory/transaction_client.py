"""The client of transactions: each operation is a script of several requests, one after the other.

Readers keep a position in each partition, also when their process is replaced by another.
"""

from __future__ import annotations

from typing import Final

from harness.clusters.memory.cluster import MemoryCluster
from harness.models.micro_ops import (
    DISCARDED,
    END,
    POLL,
    STORED,
    UNCOMMITTED,
    WHOLE,
    MicroOp,
    elements_of,
    micro_ops,
)
from harness.protocols import FAIL, OK, Client, Done, Invoke, completion
from harness.protocols.transactions import (
    NOT_AT_END,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TransactionSettings,
)
from targets.memory.clients import APART, PolledRequests
from targets.memory.requests import Command, OnDone, Outcome, Requests
from targets.memory.system import system_of
from targets.memory.transaction_steps import (
    AT_ONCE,
    MS,
    Producer,
    Script,
    Transaction,
    TransactionPlace,
    polled,
)
from targets.memory.transactions import ENDS, marks_of
from targets.memory.transactions import SEND as SEND_ENTRY

_END_WITHIN_NS: Final = 10_000 * MS
_AGAIN_NS: Final = 50 * MS


class Scripts:
    """Runs a script for each process that requests one, in the simulation."""

    def __init__(self, cluster: MemoryCluster, requests: Requests) -> None:
        self._host, self._requests = cluster.clients, requests
        self._running: dict[int, tuple[Script, OnDone]] = {}

    def submit(self, process: int, requested: Script, on_done: OnDone) -> None:
        """Begin a script."""
        self._running[process] = requested, on_done
        self._go_on(process, None)

    def abandon(self, process: int) -> None:
        """It is no longer waited for."""
        self._running.pop(process, None)
        self._requests.abandon(process)

    def _go_on(self, process: int, answer: Outcome | None) -> None:
        if process not in self._running:
            return
        script, on_done = self._running[process]
        try:
            wanted = script.send(answer)
        except StopIteration as ended:
            del self._running[process]
            on_done(process, ended.value)
            return
        if isinstance(wanted, int):
            self._host.after(wanted, self._go_on, process, None)
        else:
            self._requests.submit(process, wanted, self._go_on)


class TransactionClient(Client):
    """Transactions and polls; `processes` of the workload have a position each."""

    def __init__(
        self,
        cluster: MemoryCluster,
        requests: Requests,
        place: TransactionPlace,
        settings: TransactionSettings,
        processes: int,
    ) -> None:
        self._cluster, self._place = cluster, place
        self._settings, self._processes = settings, processes
        self._polled = PolledRequests[Script](cluster, Scripts(cluster, requests))
        consuming, _ = settings.dealt(processes)
        self._producers = {
            process: Producer(tuple(range(place.inputs)[number :: len(consuming)]))
            for number, process in enumerate(consuming)
        }
        self._positions: dict[tuple[int, int], int] = {}

    def submit(self, process: int, op: Invoke) -> bool:
        """See `harness.protocols.Client`."""
        f, value, _, _, expected = op
        requested = tuple(micro_ops(expected)) if isinstance(expected, tuple) else ()
        who = process % self._processes
        if f == "txn":
            producer = self._producers.setdefault(who, Producer(()))
            one = Transaction(f"t{value}", producer, self._place, self._settings)
            script = one.script(list(requested))
        elif f == "subscribe":
            script = _subscribed(requested)
        elif f == "read-log":
            script = self._whole([each.key for each in requested if each.kind == WHOLE])
        elif keys := [each.key for each in requested if each.kind == END]:
            script = self._to_the_end(keys)
        else:
            script = self._poll(who, UNCOMMITTED if requested else POLL)
        return self._polled.submit(self._place.first * APART + process, script)

    def poll(self, timeout_s: float, done: Done) -> None:
        """See `harness.protocols.Client`."""
        self._polled.poll(timeout_s, lambda *ended: self._report(done, *ended))

    def close(self, timeout_s: float, done: Done) -> None:
        """See `harness.protocols.Client`."""
        self._polled.close(timeout_s, lambda *ended: self._report(done, *ended))

    def _report(self, done: Done, process: int, ended: Outcome) -> None:
        result = None if ended.result is None else elements_of(*ended.result)
        own = process - self._place.first * APART
        done(own, completion(ended.type, None, ended.error, ended.node, result))

    def _poll(self, reader: int, kind: int) -> Script:
        """The next records of every partition that answers, as micro-operations of `kind`."""
        isolation = READ_UNCOMMITTED if kind == UNCOMMITTED else READ_COMMITTED
        found: list[MicroOp] = []
        answer, answered = None, False
        for key in range(self._place.partitions):
            position = self._positions.get((reader, key), 0)
            answer = yield self._fetch(key, position, isolation)
            if answer is not None and answer.type == OK:
                records, self._positions[reader, key] = answer.result
                found += polled(key, records, kind)
                answered = True
        return (
            Outcome(OK, found)
            if answered
            else Outcome(FAIL, error=answer.error if answer else None)
        )

    def _to_the_end(self, keys: list[int]) -> Script:
        """All records of some partitions, once no transaction is open in them."""
        found: list[MicroOp] = []
        deadline_ns = self._cluster.simulation.now_ns + _END_WITHIN_NS
        for key in keys:
            end, position = -1, 0
            while end < 0 or position < end:
                if self._cluster.simulation.now_ns > deadline_ns:
                    return Outcome(FAIL, error=NOT_AT_END)
                if end < 0:
                    answer = yield Command(ENDS, partition=self._place.first + key)
                    if answer is not None and answer.type == OK:
                        stable, committed = answer.result
                        end = committed if stable == committed else -1
                    if end < 0:
                        yield _AGAIN_NS
                    continue
                answer = yield self._fetch(key, position)
                if answer is not None and answer.type == OK:
                    records, position = answer.result
                    found += polled(key, records)
            found.append(MicroOp(END, key, end))
        return Outcome(OK, found)

    def _whole(self, keys: list[int]) -> Script:
        """All that another replica than the leader holds of some partitions, once it has no open
        transaction in them and all that the leader has committed. Its state is read directly,
        without a request: so no defect in answering requests can interfere."""
        found: list[MicroOp] = []
        deadline_ns = self._cluster.simulation.now_ns + _END_WITHIN_NS
        for key in keys:
            entries = None
            while entries is None:
                if self._cluster.simulation.now_ns > deadline_ns:
                    return Outcome(FAIL, error=NOT_AT_END)
                answer = yield Command(ENDS, partition=self._place.first + key)
                if answer is not None and answer.type == OK:
                    stable, committed = answer.result
                    if stable == committed:
                        entries = system_of(self._cluster).another(
                            self._place.first + key, answer.node, committed
                        )
                # Logs that differ: what has no marker there neither committed nor was aborted.
                if entries is None or (marks := marks_of(entries)).open:
                    entries = None
                    yield _AGAIN_NS
            found += (
                MicroOp(STORED if marks.shows(entry) else DISCARDED, key, offset, entry.value)
                for offset, entry in enumerate(entries)
                if entry.f == SEND_ENTRY and entry.value is not None
            )
            found.append(MicroOp(WHOLE, key, len(entries)))
        return Outcome(OK, found)

    def _fetch(self, key: int, position: int, isolation: str = READ_COMMITTED) -> Command:
        return Command("fetch", isolation, position, AT_ONCE, self._place.first + key)


def _subscribed(requested: tuple[MicroOp, ...]) -> Script:
    """Which logs a process consumes does not change: there is nothing to request."""
    yield MS
    return Outcome(OK, requested)

"""The client of transactions: each operation is a script of several requests, one after the other.

Readers keep a position in each partition, also when their process is replaced by another.

Transactions as scripts of requests: the steps that an operation requests, one after the other.

A transaction ends in

    ok    when the coordinator acknowledged its commit;
    fail  when its commit was never requested, it was aborted before, or another instance had taken
          over before the commit was requested, and it was not acknowledged;
    info  when the commit was requested, and its outcome is unknown.

Consumers keep a position in each log, and go back to what is stored where a transaction is not ok.
A process that begins a transaction first has its earlier one aborted, unless it knows that it
ended.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from harness.clusters.memory import MemoryCluster
from harness.models.micro_ops import (
    ABORT,
    COMMIT,
    CONSUME,
    CRASH,
    DISCARDED,
    END,
    FENCE,
    OFFSETS,
    POLL,
    SEND,
    STORED,
    UNCOMMITTED,
    WHOLE,
    MicroOp,
    elements_of,
    micro_ops,
)
from harness.protocols import FAIL, INFO, OK, Client, Done, Invoke, completion
from harness.protocols.groups import (
    ABORTED,
    CRASHED,
    NOT_AT_END,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TAKEN_OVER,
    TransactionSettings,
)
from targets.memory import log
from targets.memory.clients import APART, Command, OnDone, Outcome, Place, PolledRequests, Requests
from targets.memory.log import ENDS, OTHERWISE, begin_key, marks_of
from targets.memory.log import SEND as SEND_ENTRY
from targets.memory.system import system_of

MS: Final = 1_000_000
AT_ONCE: Final = 500

Script = Generator[Command | int, Outcome | None, Outcome]
"""Yields a request, or how many nanoseconds it waits; returns how its operation ended. The `result`
of that is the micro-operations that were done."""
Step = Generator[Command | int, Outcome | None, Outcome | None]
"""The same for one step; it returns how the operation ends, or `None` if it continues."""


@dataclass
class Producer:
    """What one process keeps between its transactions. `reads`: the logs that it consumes; `open`:
    a transaction that it does not know to have ended; `position`: the next offset of a log."""

    reads: tuple[int, ...]
    open: str | None = None
    position: dict[int, int] = field(default_factory=dict)


@dataclass
class Transaction:
    """One transaction of a process, by its name."""

    name: str
    producer: Producer
    place: Place
    settings: TransactionSettings
    polled: list[MicroOp] = field(default_factory=list)
    sent: list[MicroOp] = field(default_factory=list)
    fenced: bool = False

    def script(self, steps: list[MicroOp]) -> Script:
        """Take all steps, and commit if they do not say how it ends."""
        ended = yield from self._taken(steps)
        if ended.type != OK:
            self.producer.position.clear()
        done = [*self.polled, *self.sent, *([MicroOp(FENCE)] if self.fenced else [])]
        if steps[0].kind == CONSUME:
            done.insert(0, MicroOp(CONSUME, value=len(self.polled)))
        return ended._replace(result=done)

    def _taken(self, steps: list[MicroOp]) -> Script:
        if self.producer.open is not None:
            if not (yield from self._take_over(self.producer.open)):
                return Outcome(FAIL, error="earlier-transaction-open")
            self.producer.open = None
        if steps[0].kind == CONSUME:
            if (
                failed := (yield from self._consume(steps[0].value))
            ) is not None or not self.polled:
                return failed or Outcome(OK)
            steps = _for_so_many(steps[1:], len(self.polled))
        partitions = {self.place.first + each.key for each in steps if each.kind == SEND}
        key = begin_key(self.name, sorted(partitions))
        self.producer.open = self.name
        answer = yield self._decide(log.BEGIN, key)
        if answer is None or answer.type != OK:
            return _failed(answer)
        committed = None
        for step in steps:
            if (ended := (yield from self._step(step, steps))) is not None:
                if ended.type != OK or step is steps[-1]:
                    return ended
                committed = ended
        return committed or (yield from self._commit())

    def _step(self, step: MicroOp, steps: list[MicroOp]) -> Step:
        if step.kind == SEND:
            return (yield from self._send(step))
        if step.kind == OFFSETS:
            return (yield from self._store(inside=self.settings.offsets == "transaction"))
        if step.kind == FENCE:
            self.fenced = yield from self._take_over(self.name)
            return None if self.fenced else (yield from self._abort("no-takeover"))
        if step.kind == ABORT:
            return (yield from self._abort(ABORTED))
        ended = (yield from self._commit()) if step.kind == COMMIT else Outcome(FAIL, error=CRASHED)
        if steps[-1].kind == CRASH and step.kind == COMMIT:
            self.producer.open = self.name
            return Outcome(INFO, error=CRASHED)
        return ended

    def _send(self, step: MicroOp) -> Step:
        partition = self.place.first + step.key
        answer = yield Command(log.SEND, self.name, step.value, None, partition)
        if answer is not None and answer.type == OK:
            assert answer.position is not None
            self.sent.append(step._replace(offset=answer.position))
        elif not self.fenced:
            return (yield from self._abort(answer.error if answer is not None else None))
        else:
            self.sent.append(step)
        if pause_ns := round(self.settings.pause_ms * MS):
            yield pause_ns
        return None

    def _store(self, *, inside: bool) -> Step:
        """Store how far each log was consumed: inside of the transaction, or at once."""
        behind = {each.key: each.offset + 1 for each in self.polled}
        for key, offset in behind.items():
            of = f"{self.name if inside else ''}/{key}"
            partition = self.place.deciding
            answer = yield Command(log.OFFSETS, of, offset, None, partition)
            if (answer is None or answer.type != OK) and not self.fenced:
                return (yield from self._abort("offsets-not-stored")) if inside else None
        return None

    def _commit(self) -> Script:
        answer = yield self._decide(log.TX_END, self.name, 1)
        assert answer is not None
        if answer.type != INFO:
            self.producer.open = None
        if self.fenced and answer.type != OK:
            return Outcome(FAIL, error=TAKEN_OVER)
        return answer

    def _abort(self, error: str | None) -> Script:
        answer = yield self._decide(log.TX_END, self.name, 0)
        if answer is not None and answer.type == OK:
            self.producer.open = None
        return Outcome(FAIL, error=error)

    def _take_over(self, name: str) -> Generator[Command | int, Outcome | None, bool]:
        """Have a transaction aborted as another instance does; whether it has ended."""
        answer = yield self._decide(log.FENCE, name, 0)
        assert answer is not None
        return answer.type == OK or (answer.type == FAIL and answer.error == OTHERWISE)

    def _consume(self, at_most: int) -> Step:
        """The next records of the logs of this process."""
        producer = self.producer
        for key in producer.reads:
            if key not in producer.position:
                answer = yield self._decide(log.CONSUMED, str(key))
                if answer is None or answer.type != OK:
                    return _failed(answer)
                producer.position[key] = int(answer.result)
            room = at_most - len(self.polled)
            if room:
                begin = producer.position[key]
                partition = self.place.first + key
                answer = yield Command("fetch", READ_COMMITTED, begin, room, partition)
                if answer is not None and answer.type == OK:
                    records, producer.position[key] = answer.result
                    self.polled += polled(key, records)
        return None

    def _decide(self, f: str, key: str, flag: int | None = None) -> Command:
        return Command(f, key, None, flag, self.place.deciding)


def _for_so_many(steps: list[MicroOp], inputs: int) -> list[MicroOp]:
    """The steps with a send for each of so many inputs."""
    sends = [each for each in steps if each.kind == SEND][:inputs]
    return [each for each in steps if each.kind != SEND or each in sends]


def polled(key: int, records: Iterable[tuple[int, Any]], kind: int = POLL) -> Iterator[MicroOp]:
    """Records of a log, as what a poll returned."""
    return (MicroOp(kind, key, offset, value) for offset, value in records)


def _failed(answer: Outcome | None) -> Outcome:
    """It certainly did not happen: its commit was not requested, or it was a read."""
    return Outcome(FAIL, error=None if answer is None else answer.error)


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
        place: Place,
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
        self._polled.poll(timeout_s, lambda *ended: self._report(done, *ended))

    def close(self, timeout_s: float, done: Done) -> None:
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
        return Outcome(OK, found) if answered else _failed(answer)

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

"""Transactions that send values to several logs, and readers that poll them meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.models import TRANSACTION, micro_ops
from harness.protocols import INFO, OK, Invoke, Script, Workload, invoke
from harness.protocols.groups import TransactionSettings

_UNCOMMITTED: Final = micro_ops.MicroOp(micro_ops.UNCOMMITTED)
_TRIES: Final = 3
"""How often a process tries its final read, until one is ok; each waits for open transactions."""


@dataclass(frozen=True, kw_only=True)
class Transactions(TransactionSettings, Workload):
    """Processes send increasing integers, unique in the run, in transactions that commit or abort,
    some of them for values that they consume; readers poll all logs. At the end each log is read
    from start to end, by two readers.

    readers_count     processes that poll all logs
    processors_count  processes that consume the first topic as one group, and send a value to other
                      topics for each that they get; the processes that are left send (one at least
                      does), to the first topic if there are processors
    topics_count      topics, each with as many logs as the plan has partitions
    sends_count       sends of a transaction, at most
    inputs_count      values that a processor consumes in a transaction, at most
    keys_count        logs that a transaction sends to, at most
    offsets           where a processor stores how far it has consumed: in the transaction, or by a
                      separate commit before or after it
    abort_share       transactions that are aborted after their sends
    fence_share       those in which another instance of the producer takes over, and the first one
                      continues and requests the commit
    crash_share       those in which the process crashes between two requests, or during the commit
    pause_ms          wait after each send, so that faults meet more open transactions
    isolation         of readers on the way; both: every second reader gets what has not committed
    """

    plugin: ClassVar[str] = "transactions"
    model: ClassVar[str] = TRANSACTION.name

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """The last processes poll, and those before them consume. Process p of P sends p, p + P,
        p + 2 P ...; a transaction has the first value that it may send as its own `value`."""
        processors, readers = self.dealt(processes)
        if process in readers:
            poll = self._poll(process - readers.start)
            while True:
                yield poll
        if process in processors:
            yield from self._consuming(process, processes, partitions, seed)
            return
        for value, steps in self._transactions(process, processes, partitions, seed):
            yield _transaction(value, steps)

    def _poll(self, reader: int) -> Invoke:
        if not self.uncommitted(reader):
            return invoke("poll")
        return invoke("poll", expected=micro_ops.elements_of(_UNCOMMITTED))

    def _transactions(
        self, process: int, processes: int, partitions: int, seed: int
    ) -> Iterator[tuple[int, list[micro_ops.MicroOp]]]:
        draw, value = _draw(seed, process), process
        logs = range(partitions * (1 if self.processors_count else self.topics_count))
        while True:
            number = draw.randint(1, self.sends_count)
            values = range(value, value + number * processes, processes)
            yield value, self._ended(draw, self._sends(draw, logs, values))
            value = values.stop

    def _consuming(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Subscribes, again after each operation whose outcome is not known: what follows is
        another process."""
        draw, value = _draw(seed, process), process
        logs = range(partitions, partitions * self.topics_count)
        inputs = (micro_ops.MicroOp(micro_ops.ASSIGNED, key) for key in range(partitions))
        subscribe = invoke("subscribe", expected=micro_ops.elements_of(*inputs))
        offsets = micro_ops.MicroOp(micro_ops.OFFSETS)
        yield subscribe
        while True:
            values = range(value, value + self.inputs_count * processes, processes)
            steps = self._sends(draw, logs, values)
            behind: list[micro_ops.MicroOp] = []
            if self.offsets == "after":
                behind = [offsets]
            else:
                steps.insert(0 if self.offsets == "before" else len(steps), offsets)
            steps.insert(0, micro_ops.MicroOp(micro_ops.CONSUME, value=self.inputs_count))
            if (yield _transaction(value, self._ended(draw, steps, behind)))[0] == INFO:
                yield subscribe
            value = values.stop

    def _sends(self, draw: random.Random, logs: range, values: range) -> list[micro_ops.MicroOp]:
        keys = draw.sample(logs, min(len(logs), self.keys_count))
        return [
            micro_ops.MicroOp(micro_ops.SEND, keys[place % len(keys)], value=each)
            for place, each in enumerate(values)
        ]

    def _ended(
        self,
        draw: random.Random,
        steps: list[micro_ops.MicroOp],
        behind: Sequence[micro_ops.MicroOp] = (),
    ) -> list[micro_ops.MicroOp]:
        """A transaction's steps and how it ends: it commits, and takes the steps `behind` that; or
        aborts, is taken over or crashes. A crash comes, each as often, before the first step but a
        poll, before any other, behind all, or while the commit is in progress."""
        commit, crash = micro_ops.MicroOp(micro_ops.COMMIT), micro_ops.MicroOp(micro_ops.CRASH)
        first = int(steps[0].kind == micro_ops.CONSUME)
        chance, place = draw.random() - self.abort_share, draw.randint(first, len(steps))
        if chance < 0:
            return [*steps, micro_ops.MicroOp(micro_ops.ABORT)]
        if chance < self.crash_share:
            behind_all = len(steps)
            place = draw.choice([first, place, behind_all, behind_all + 1])
            return [*([*steps, commit] if place > behind_all else steps[:place]), crash]
        if chance < self.crash_share + self.fence_share:
            steps = [*steps[:place], micro_ops.MicroOp(micro_ops.FENCE), *steps[place:]]
        return [*steps, commit, *behind]

    def final(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """A read of this process's share of the logs, each to its end, and the same by a second
        reader, which gets everything in them; again where it is not ok, a few times."""
        logs = partitions * self.topics_count
        keys = range(process % logs, logs, processes)
        for f, kind in (("poll", micro_ops.END), ("read-log", micro_ops.WHOLE)):
            read = micro_ops.elements_of(*(micro_ops.MicroOp(kind, key) for key in keys))
            for _ in range(_TRIES):
                if (yield invoke(f, expected=read))[0] == OK:
                    break


def _draw(seed: int, process: int) -> random.Random:
    return random.Random(f"{seed}/transactions/{process}")


def _transaction(value: int, steps: list[micro_ops.MicroOp]) -> Invoke:
    return invoke("txn", value, expected=micro_ops.elements_of(*steps))

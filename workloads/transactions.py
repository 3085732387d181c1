"""Transactions that send values to several logs, and readers that poll them meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.models import TRANSACTION, micro_ops
from harness.protocols import OK, HasFinal, Script, Workload, invoke
from harness.protocols.transactions import TransactionSettings

_TRIES: Final = 3
"""How often a process tries its final read, until one is ok; each waits for open transactions."""


@dataclass(frozen=True, kw_only=True)
class Transactions(TransactionSettings, Workload, HasFinal):
    """Processes send increasing integers, unique in the run, in transactions that commit or abort;
    readers poll all logs. When everything is over, each log is read from its start to its end.

    readers_count  processes that poll all logs; the others send (one at least does)
    sends_count    sends of a transaction, at most; it has one at least
    keys_count     logs that a transaction sends to, at most
    abort_share    the share of transactions that are aborted after their sends
    pause_ms       wait after each send, so that faults meet more transactions that are open
    isolation      read_committed: readers are to get what has committed; read_uncommitted:
                   everything
    """

    plugin: ClassVar[str] = "transactions"
    model: ClassVar[str] = TRANSACTION.name

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """The last processes poll. Process p of P sends p, p + P, p + 2 P ...; a transaction has
        the first value that it sends as its own `value`."""
        if process >= max(1, processes - self.readers_count):
            while True:
                yield invoke("poll")
        for micro in self._transactions(process, processes, partitions, seed):
            yield invoke("txn", micro[0].value, expected=micro_ops.elements_of(*micro))

    def _transactions(
        self, process: int, processes: int, partitions: int, seed: int
    ) -> Iterator[list[micro_ops.MicroOp]]:
        draw = random.Random(f"{seed}/transactions/{process}")
        abort, value = micro_ops.MicroOp(micro_ops.ABORT), process
        while True:
            keys = draw.sample(range(partitions), min(partitions, self.keys_count))
            number = draw.randint(1, self.sends_count)
            values = range(value, value + number * processes, processes)
            value = values.stop
            micro = [
                micro_ops.MicroOp(micro_ops.SEND, keys[place % len(keys)], value=each)
                for place, each in enumerate(values)
            ]
            yield [*micro, abort] if draw.random() < self.abort_share else micro

    def final(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """A read of this process's share of the logs, each to its end, and the same by a second
        reader, which gets all that stands in them; again where it is not ok, a few times."""
        del seed  # nothing is drawn
        keys = range(process % partitions, partitions, processes)
        for f, kind in (("poll", micro_ops.END), ("read-log", micro_ops.WHOLE)):
            read = micro_ops.elements_of(*(micro_ops.MicroOp(kind, key) for key in keys))
            for _ in range(_TRIES):
                if (yield invoke(f, expected=read))[0] == OK:
                    break

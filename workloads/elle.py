"""Transactions that append to lists, or write registers, and read them: the generators of Elle.

Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 14
(3), 2020; the options are those of Jepsen's `append` and `wr` workloads.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from harness.models import LIST_APPEND, RW_REGISTER, micro_ops
from harness.protocols import OK, Completion, Invoke, Script, Workload, invoke

_TRIES: Final = 3
"""How often a process tries each of its final reads."""


@dataclass(frozen=True, kw_only=True)
class _Transactions(Workload):
    kind: ClassVar[int]

    keys_count: Annotated[int, Field(ge=1, le=10_000)] = 5
    max_txn_length: Annotated[int, Field(ge=1, le=100)] = 4
    max_writes_per_key: Annotated[int, Field(ge=1, le=100_000)] = 32
    read_share: Annotated[float, Field(ge=0, lt=1)] = 0.5

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P writes p, p + P, p + 2 P ...; a transaction that only reads takes one of
        these numbers too, as its own `value`. Which keys are in use follows from the highest number
        that a process has written or read: so a process that was held up catches up."""
        draw = random.Random(f"{seed}/{self.plugin}/{process}")
        value = newest = process
        while True:
            first = newest // self.max_writes_per_key
            own, steps = value, list[micro_ops.MicroOp]()
            for _ in range(draw.randint(1, self.max_txn_length)):
                key = first + draw.randrange(self.keys_count)
                if draw.random() < self.read_share:
                    steps.append(micro_ops.MicroOp(micro_ops.READ, key))
                else:
                    steps.append(micro_ops.MicroOp(self.kind, key, value=value))
                    value += processes
            value = max(value, own + processes)
            completion = yield _transaction(own, steps)
            newest = max(newest, value, *_read(completion))

    def final(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Reads of this process's share of the keys, until there are no more."""
        step = processes * self.max_txn_length
        keys = range(process, process + step, processes)
        while True:
            steps = [micro_ops.MicroOp(micro_ops.READ, key) for key in keys]
            for _ in range(_TRIES):
                completion = yield _transaction(-1 - keys.start, steps)
                if completion[0] == OK:
                    break
            if not list(_read(completion)):
                return
            keys = range(keys.start + step, keys.stop + step, processes)


def _transaction(value: int, steps: list[micro_ops.MicroOp]) -> Invoke:
    return invoke("txn", value, expected=micro_ops.elements_of(*steps))


def _read(completion: Completion) -> list[int]:
    """All values that a transaction read."""
    result, found = completion[-1], list[int]()
    for kind, *numbers in micro_ops.micro_ops(result if isinstance(result, tuple) else ()):
        if kind == micro_ops.READ:
            found.append(numbers[-1])
        elif kind == micro_ops.HELD:
            found += numbers
    return [value for value in found if value >= 0]


@dataclass(frozen=True, kw_only=True)
class ListAppend(_Transactions):
    """Transactions append unique values to lists, and read lists. At the end all are read.

    keys_count          keys in use at a time
    max_txn_length      steps of a transaction, at most
    max_writes_per_key  after about so many writes a key retires, and a new one takes its place
    read_share          reads among the steps
    """

    plugin: ClassVar[str] = "list-append"
    model: ClassVar[str] = LIST_APPEND.name
    kind: ClassVar[int] = micro_ops.APPEND


@dataclass(frozen=True, kw_only=True)
class RwRegister(_Transactions):
    """Transactions write unique values to registers, and read registers. At the end all are read.

    keys_count          keys in use at a time
    max_txn_length      steps of a transaction, at most
    max_writes_per_key  after about so many writes a key retires, and a new one takes its place
    read_share          reads among the steps
    """

    plugin: ClassVar[str] = "rw-register"
    model: ClassVar[str] = RW_REGISTER.name
    kind: ClassVar[int] = micro_ops.WRITE

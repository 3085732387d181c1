"""A queue that is filled and emptied at once; at the end it is drained."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from harness.models import QUEUE
from harness.protocols import OK, Script, Workload, invoke

_TRIES: Final = 5
"""How often a process tries to drain the queue, until it is drained."""


@dataclass(frozen=True, kw_only=True)
class Queue(Workload):
    """Each process enqueues increasing integers, unique in the run, into one queue, and dequeues
    now and then; at the end each drains the queue.

    dequeue_share  dequeues; with less than half, the queue grows
    """

    plugin: ClassVar[str] = "queue"
    model: ClassVar[str] = QUEUE.name

    dequeue_share: Annotated[float, Field(ge=0, lt=1)] = 0.3

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P enqueues p, p + P, p + 2 P ..."""
        draw = random.Random(f"{seed}/queue/{process}")
        value = process
        while True:
            if draw.random() < self.dequeue_share:
                yield invoke("dequeue")
            else:
                yield invoke("enqueue", value)
                value += processes

    def final(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """A drain; again where it is not ok, a few times."""
        for _ in range(_TRIES):
            if (yield invoke("drain"))[0] == OK:
                return

"""Appends of unique integers: what is acknowledged must be read back once the cluster is whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.models import APPEND, LOG
from harness.protocols import NULL, Script, Workload


@dataclass(frozen=True)
class Append(Workload):
    """Each process appends increasing integers, unique in the run, to every partition in turn."""

    plugin: ClassVar[str] = "append"
    model: ClassVar[str] = LOG.name

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P writes p, p + P, p + 2 P ...: dense when all are equally fast."""
        del seed  # nothing is drawn
        value, partition = process, process % partitions
        while True:
            yield APPEND, value, partition, None, NULL
            value += processes
            partition = (partition + 1) % partitions

"""What clients of a log do in workloads of several models: they append unique integers."""

from __future__ import annotations

from harness.models import APPEND
from harness.protocols import NULL, Script


def increasing(process: int, processes: int, partitions: int) -> Script:
    """Process p of P appends p, p + P, p + 2 P ... to every partition in turn: dense when all are
    equally fast."""
    value, partition = process, process % partitions
    while True:
        yield APPEND, value, partition, None, NULL
        value += processes
        partition = (partition + 1) % partitions

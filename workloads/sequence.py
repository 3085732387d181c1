"""Numbers that the system hands out: each once, and later ones larger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.models import SEQUENCE
from harness.protocols import Script, Workload, invoke


@dataclass(frozen=True)
class Sequence(Workload):
    """Each process requests the next number, again and again."""

    plugin: ClassVar[str] = "sequence"
    model: ClassVar[str] = SEQUENCE.name

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P stores p, p + P, p + 2 P ... under the numbers that it gets."""
        del partitions, seed  # there is one sequence, and nothing is drawn
        value = process
        while True:
            yield invoke("next", value)
            value += processes

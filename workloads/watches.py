"""Keys that are written, and watched by clients that want to be notified of each change."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from harness.models import WATCH
from harness.protocols import Script, Workload, invoke


@dataclass(frozen=True, kw_only=True)
class Watches(Workload):
    """Each process writes keys, and watches keys: it reads one and asks to be notified of its next
    change. Every value that it writes is unique in the run.

    keys_count   how many keys there are
    write_share  the share of writes; all other operations are watches
    """

    plugin: ClassVar[str] = "watches"
    model: ClassVar[str] = WATCH.name

    keys_count: int = 3
    write_share: float = 0.3

    def __post_init__(self) -> None:
        if not 1 <= self.keys_count <= 100_000:
            raise ValueError(f"keys_count is {self.keys_count}; use 1 to 100,000")
        if not 0 < self.write_share < 1:
            raise ValueError(f"write_share is {self.write_share:g}; use more than 0, less than 1")

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P writes p, p + P, p + 2 P ..."""
        del partitions  # a key belongs to one of them, as the target decides
        draw = random.Random(f"{seed}/watches/{process}")
        value = process
        while True:
            key = f"k{draw.randrange(self.keys_count)}"
            if draw.random() < self.write_share:
                yield invoke("write", value, key=key)
                value += processes
            else:
                yield invoke("watch", key=key)

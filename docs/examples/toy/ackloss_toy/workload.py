"""A workload: appends of which most go to one partition."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from ackloss.plugins import Script, Workload, invoke


@dataclass(frozen=True, kw_only=True)
class Hot(Workload):
    """Each process appends increasing integers, most of them to partition 0.

    hot_share  the share of the appends that go to partition 0
    """

    plugin: ClassVar[str] = "hot"
    model: ClassVar[str] = "log"

    hot_share: float = 0.8

    def __post_init__(self) -> None:
        if not 0 <= self.hot_share <= 1:
            raise ValueError(f"hot_share is {self.hot_share:g}; use 0 to 1")

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P appends p, p + P, p + 2 P ..."""
        draw, value = random.Random(f"{seed}/{process}"), process
        while True:
            hot = draw.random() < self.hot_share
            yield invoke("append", value, 0 if hot else draw.randrange(partitions))
            value += processes

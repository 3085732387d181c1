"""The run's clock: nanoseconds on the monotonic clock since the run's start."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True)
class RunClock:
    """Zero is its making, just before the first operation."""

    zero_ns: int = field(default_factory=time.monotonic_ns)
    wall_time: str = field(default_factory=lambda: datetime.now(UTC).isoformat())

    def now_ns(self) -> int:
        """Nanoseconds since zero."""
        return time.monotonic_ns() - self.zero_ns

"""The run's clock: nanoseconds on the monotonic clock since the run's start."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic_ns


@dataclass(frozen=True)
class RunClock:
    """Zero is its making, just before the first operation."""

    zero_ns: int = field(default_factory=monotonic_ns)
    wall_time: str = field(default_factory=lambda: datetime.now(UTC).isoformat())

    def now_ns(self) -> int:
        """Nanoseconds since zero."""
        return monotonic_ns() - self.zero_ns

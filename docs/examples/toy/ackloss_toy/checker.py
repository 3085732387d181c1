"""A checker: writes that were acknowledged later than they should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from ackloss.plugins import MARKS, Checker, CheckResult, Run, Statement


@dataclass(frozen=True)
class Counted:
    """What one shard says: how many writes, and the values and delays of the late ones."""

    attempted: int
    acknowledged: int
    late: list[tuple[int, float]]


@dataclass(frozen=True, kw_only=True)
class Deadline(Checker[None, Counted]):
    """Counts writes that were acknowledged later than a limit after they were due.

    limit_ms  the limit
    """

    plugin: ClassVar[str] = "deadline"
    models: ClassVar[frozenset[str]] = frozenset({"log"})

    limit_ms: float = 1000

    def shards(self, run: Run) -> Sequence[None]:
        """One: it takes no more than a pass."""
        return [None]

    def check(self, run: Run, shard: None) -> Counted:
        """Count the rows; a write has one for its start and one for its end."""
        attempted = acknowledged = 0
        late: list[tuple[int, float]] = []
        for rows in run.writes():
            ok = rows.mark == MARKS.ok
            attempted += int(np.count_nonzero(rows.mark == MARKS.invoked))
            acknowledged += int(np.count_nonzero(ok))
            is_late = ok & (rows.delay_ns > self.limit_ms * 1e6)
            delays_ms = (rows.delay_ns[is_late] / 1e6).tolist()
            late += zip(rows.value[is_late].tolist(), delays_ms, strict=True)
        return Counted(attempted, acknowledged, late)

    def merge(self, run: Run, parts: Sequence[Counted]) -> CheckResult:
        """Add up; one late write is enough."""
        late = [each for part in parts for each in part.late]
        sentence = f"{len(late):,} writes were acknowledged later than {self.limit_ms:g} ms"
        return CheckResult(
            counts={
                "attempted": sum(part.attempted for part in parts),
                "acknowledged": sum(part.acknowledged for part in parts),
                "late": len(late),
            },
            findings=_findings(run.facts.run_id, late),
            counter_examples=(Statement("late", sentence),) if late else (),
            all_well=f"all acknowledgements came within {self.limit_ms:g} ms",
        )


def _findings(run_id: str, late: Sequence[tuple[int, float]]) -> pa.Table:
    """One row for each late write."""
    return pa.table(
        {
            "run_id": pa.array([run_id] * len(late), pa.string()),
            "kind": pa.array(["late"] * len(late), pa.string()),
            "value": pa.array([value for value, _ in late], pa.int64()),
            "delay_ms": pa.array([delay for _, delay in late], pa.float64()),
        }
    )

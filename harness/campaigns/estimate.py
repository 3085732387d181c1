"""What a campaign will take, before it begins: workers, time and disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from harness.campaigns.plan import Campaign, Cell
from harness.campaigns.worker import may_be_kept

_LANES_PER_CORE = 1.5
_HOLDER_MB = 64
_OF_MEMORY = 0.8
# Measured on two cores: what a run takes beside its workload, on a kept cluster and on its own.
_KEPT_S, _OWN_S = 5.0, 22.0
_BYTES_PER_WRITE, _BYTES_PER_RUN = 60, 400_000


@dataclass(frozen=True)
class Estimate:
    """How long the runs that are left may take on so many workers, and what they store."""

    workers: int
    runs: int
    seconds: float
    disk_mb: float


def estimate(
    campaign: Campaign, finished: Iterable[tuple[str, int]] = (), workers: int | None = None
) -> Estimate:
    """Of all runs that are not finished, on so many workers: else the campaign's own number, or as
    many as the machine holds."""
    done, workers = set(finished), workers or campaign.plan.workers or workers_for(campaign)
    runs, seconds, stored = 0, 0.0, 0.0
    for cell in campaign.possible:
        left = sum((cell.name, n) not in done for n in range(cell.repetitions))
        runs += left
        seconds += left * _seconds(cell)
        load = cell.bound.plan.workload
        writes = load.rate_per_s * load.duration_s
        stored += left * (writes * _BYTES_PER_WRITE + _BYTES_PER_RUN)
    return Estimate(workers, runs, seconds / workers, stored / 2**20)


def workers_for(campaign: Campaign) -> int:
    """As many as cores and free memory hold: most of a run is waiting."""
    largest_mb = max(
        len(cell.bound.target.names(cell.bound.plan))
        * (cell.bound.plan.target.memory_mb + _HOLDER_MB)
        for cell in campaign.possible
    )
    by_memory = psutil.virtual_memory().available / 2**20 * _OF_MEMORY / largest_mb
    return max(1, int(min(by_memory, (os.cpu_count() or 1) * _LANES_PER_CORE)))


def _seconds(cell: Cell) -> float:
    beside_s = _KEPT_S if may_be_kept(cell.bound) else _OWN_S
    return cell.bound.plan.workload.duration_s + beside_s

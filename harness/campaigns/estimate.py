"""Workers, time and disk that a campaign will take."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from harness.campaigns.plan import Campaign, Cell
from harness.campaigns.worker import may_be_kept
from harness.clusters.docker.cluster import INFRA_MB

_WORKERS_PER_CORE = 1.5
_MEMORY_SHARE = 0.8
# Measured on two cores: the time of a run beside its workload, on a kept and on a new cluster.
_KEPT_S, _NEW_S = 5.0, 22.0
_BYTES_PER_WRITE, _BYTES_PER_RUN = 60, 400_000


@dataclass(frozen=True)
class Estimate:
    """Time and disk for the runs that are left, on this number of workers."""

    workers: int
    runs: int
    seconds: float
    disk_mb: float


def estimate(
    campaign: Campaign, finished: Iterable[tuple[str, int]] = (), workers: int | None = None
) -> Estimate:
    """Estimate all runs that are not finished. The number of workers is the given one, else the
    campaign's own, else as many as the machine can run."""
    done, workers = set(finished), workers or campaign.plan.workers or workers_for(campaign)
    runs, seconds, stored = 0, 0.0, 0.0
    for cell in campaign.possible:
        left = sum((cell.name, n) not in done for n in range(cell.repetitions))
        runs += left
        seconds += left * _seconds(cell)
        load = cell.resolved.plan.workload
        writes = load.rate_per_s * load.duration_s
        stored += left * (writes * _BYTES_PER_WRITE + _BYTES_PER_RUN)
    return Estimate(workers, runs, seconds / workers, stored / 2**20)


def workers_for(campaign: Campaign) -> int:
    """As many workers as cores and free memory allow; a run mostly waits."""
    largest_mb = max(
        len(cell.resolved.target.names(cell.resolved.plan))
        * (cell.resolved.plan.target.memory_mb + INFRA_MB)
        for cell in campaign.possible
    )
    by_memory = psutil.virtual_memory().available / 2**20 * _MEMORY_SHARE / largest_mb
    return max(1, int(min(by_memory, (os.cpu_count() or 1) * _WORKERS_PER_CORE)))


def _seconds(cell: Cell) -> float:
    overhead_s = _KEPT_S if may_be_kept(cell.resolved) else _NEW_S
    return cell.resolved.plan.workload.duration_s + overhead_s

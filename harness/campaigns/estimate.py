"""Workers, time and disk that a campaign will take."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from harness.campaigns.plan import Campaign, Cell
from harness.campaigns.sharing import groups_of_campaign
from harness.campaigns.worker import may_be_kept
from harness.protocols import Cost

_WORKERS_PER_CORE = 1.5
_MEMORY_SHARE = 0.8
_BYTES_PER_WRITE, _BYTES_PER_RUN = 60, 400_000


@dataclass(frozen=True)
class Estimate:
    """Time and disk for the runs that are left, on this number of workers. In `executions` a run
    that several cells share counts once, in `runs` once for each cell."""

    workers: int
    runs: int
    executions: int
    seconds: float
    disk_mb: float


def estimate(
    campaign: Campaign, finished: Iterable[tuple[str, int]] = (), workers: int | None = None
) -> Estimate:
    """Estimate all runs that are not finished. The number of workers is the given one, else the
    campaign's own, else as many as the machine can run."""
    done, workers = set(finished), workers or campaign.plan.workers or workers_for(campaign)
    runs, executions, seconds, stored = 0, 0, 0.0, 0.0
    for group in groups_of_campaign(campaign):
        left = Counter(
            n for cell in group for n in range(cell.repetitions) if (cell.name, n) not in done
        )
        runs += left.total()
        executions += len(left)
        seconds += _seconds(_cost(group[0]), left.values())
        load = group[0].resolved.plan.workload
        writes = load.rate_per_s * load.duration_s
        stored += left.total() * (writes * _BYTES_PER_WRITE + _BYTES_PER_RUN)
    return Estimate(workers, runs, executions, seconds / workers, stored / 2**20)


def _seconds(cost: Cost, cells: Iterable[int]) -> float:
    """The time of runs that have so many cells each."""
    return sum(cost.seconds + (number - 1) * cost.further_cell_s for number in cells)


def workers_for(campaign: Campaign) -> int:
    """As many workers as cores and memory allow; a run mostly waits, unless it is simulated."""
    costs = [_cost(cell) for cell in campaign.possible]
    largest_mb = max(cost.memory_mb for cost in costs)
    by_memory = psutil.virtual_memory().available / 2**20 * _MEMORY_SHARE / largest_mb
    per_core = 1.0 if any(cost.whole_cores for cost in costs) else _WORKERS_PER_CORE
    return max(1, int(min(by_memory, (os.cpu_count() or 1) * per_core)))


def _cost(cell: Cell) -> Cost:
    kept = may_be_kept(cell.resolved)
    return cell.resolved.provider.cost(cell.resolved.order, kept=kept)

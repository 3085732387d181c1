"""Workers, time and disk that a campaign will take."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import psutil

from harness.campaigns.journal import Progress, Run
from harness.campaigns.plan import Campaign, Cell
from harness.campaigns.scheduler import rounds_ahead
from harness.campaigns.sharing import Group, groups_of_campaign
from harness.campaigns.worker import cluster_key, may_be_kept
from harness.protocols import Cost

_WORKERS_PER_CORE = 1.5
_MEMORY_SHARE = 0.8
_BYTES_PER_WRITE, _BYTES_PER_RUN = 60, 400_000


@dataclass(frozen=True)
class Estimate:
    """Time and disk for the runs that are left, on this number of workers. In `executions` a run
    that several cells share counts once, in `runs` once for each cell. `session_s`: the seconds of
    them that the budget's hours allow one session."""

    workers: int
    runs: int
    executions: int
    seconds: float
    session_s: float
    disk_mb: float


def if_shared(campaign: Campaign, workers: int | None = None) -> tuple[float, float] | None:
    """The seconds of all runs as the campaign's `share` has them and with "auto", where that takes
    at most two thirds of the time; else `None`."""
    if campaign.plan.share != "never":
        return None
    shared = replace(campaign, plan=campaign.plan.model_copy(update={"share": "auto"}))
    alone_s, shared_s = (estimate(each, workers=workers).seconds for each in (campaign, shared))
    return (alone_s, shared_s) if shared_s <= alone_s * 2 / 3 else None


def estimate(
    campaign: Campaign, finished: Iterable[tuple[str, int]] = (), workers: int | None = None
) -> Estimate:
    """Estimate all runs that are not finished. The number of workers is the given one, else the
    campaign's own, else as many as the machine can run."""
    done, workers = set(finished), workers or campaign.plan.workers or workers_for(campaign)
    runs, executions, seconds, stored = 0, 0, 0.0, 0.0
    starts = _Starts(workers)
    for group in groups_of_campaign(campaign):
        left = Counter(
            n for cell in group for n in range(cell.repetitions) if (cell.name, n) not in done
        )
        runs += left.total()
        executions += len(left)
        seconds += _seconds(_cost(group[0]), left.values())
        starts.add(group, len(left))
        load = group[0].resolved.plan.workload
        writes = load.rate_per_s * load.duration_s
        stored += left.total() * (writes * _BYTES_PER_WRITE + _BYTES_PER_RUN)
    seconds += starts.seconds()
    seconds /= max(1, min(workers, executions))  # a worker without a run makes nothing faster
    hours = campaign.plan.budget.hours
    session_s = seconds if hours is None else min(seconds, hours * 3600)
    return Estimate(workers, runs, executions, seconds, session_s, stored / 2**20)


def left_s(campaign: Campaign, progress: Progress, workers: int, now: datetime) -> float:
    """The seconds until all runs are finished: executions take as long as those so far did, and
    before the first has ended as long as estimated."""
    left = estimate(campaign, progress.finished(), workers)
    if not left.executions:
        return 0.0
    at_once = min(left.workers, left.executions)
    runs = {name: progress.of_execution(name) for name in list(progress.executions)}
    over = [max(run.lasted_s(now) for run in each) for each in runs.values() if _is_done(each)]
    each_s = sum(over) / len(over) if over else left.seconds * at_once / left.executions
    under_way = [each[0].lasted_s(now) for each in runs.values() if each[0].state == "begun"]
    spent_s = sum(min(lasted_s, each_s) for lasted_s in under_way)
    return max(0.0, each_s * left.executions - spent_s) / at_once


def _is_done(runs: Iterable[Run]) -> bool:
    return all(run.state == "done" for run in runs)


class _Starts:
    """The clusters that are kept from run to run: each is started, and warmed up by a run."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._rounds: dict[str, int] = {}
        self._each_s: dict[str, float] = {}
        self._executions = 0

    def add(self, group: Group, rounds: int) -> None:
        """Runs of these cells are left in so many rounds."""
        plan = group[0].resolved
        if rounds and (key := cluster_key(plan)) is not None:
            self._rounds[key] = max(self._rounds.get(key, 0), rounds)
            self._each_s[key] = plan.provider.cost(plan.order, kept=False).seconds
            self._executions += rounds

    def seconds(self) -> float:
        """Each key has a new cluster when others had their turn (`order`), each worker has one."""
        if not self._rounds:
            return 0.0
        clusters = {key: -(-left // rounds_ahead(left)) for key, left in self._rounds.items()}
        if len(self._rounds) <= self._workers:
            clusters = dict.fromkeys(self._rounds, 1)
        at_least = min(self._workers, self._executions) / sum(clusters.values())
        each_s = sum(self._each_s[key] * number for key, number in clusters.items())
        return each_s * max(1.0, at_least)


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

"""Runs an hour by workers, and whether many workers find what one worker finds.

The same short plan (`plans/short-unclean.toml`) is run on one worker and on several, the same
number of runs each. The rate is that of a long campaign: from the first finished run to the last,
so the start of clusters and their warm-up are left out; the time of all is printed, too. The share
of lossy runs must be equivalent within 5 points (two one-sided exact tests), and starved runs are
counted. Every run of this plan loses, so the shares say little of the workers: for that there is
`campaigns/workers-equivalence.toml`, and `ackloss campaign compare`.

    python -m bench.campaigns [RUNS] [WORKERS ...]     default: 60 runs on 1 and on 3 workers
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.campaign import run_rows
from analysis.statistics.contrasts import equivalence
from analysis.statistics.intervals import Share
from checkers.judging.one_run import judge_run
from harness.campaigns.folder import CampaignDir
from harness.campaigns.loading import load_campaign
from harness.campaigns.plan import Campaign
from harness.campaigns.scheduler import Scheduler

RUNS = 60
WORKERS = (1, 3)
BAR_PER_HOUR = 600
PLAN = Path(__file__).parents[1] / "plans" / "short-unclean.toml"


@dataclass(frozen=True)
class Ran:
    """One campaign: runs and how they ended, and how long it took."""

    workers: int
    classes: dict[str, int]
    lossy: Share
    per_hour: float
    seconds: float


def run_all(campaign: Campaign, where: CampaignDir, workers: int) -> tuple[list[float], float]:
    """Run a campaign: when each of its results was there (monotonic), and how many seconds all of
    it took, with the start of clusters."""
    ends_s: list[float] = []
    scheduler = Scheduler(
        campaign,
        where,
        judge_run,
        workers,
        threading.Event(),
        after=lambda *_: ends_s.append(time.monotonic()),
    )
    begun_s = time.monotonic()
    scheduler.run()
    return ends_s, time.monotonic() - begun_s


def steady_an_hour(ends_s: Sequence[float], first: int) -> float:
    """Results an hour after the first ones, about when each worker has finished a run."""
    steady = ends_s[first - 1 :]
    return (len(steady) - 1) / (steady[-1] - steady[0]) * 3600


def ran(runs: int, workers: int, folder: Path) -> Ran:
    """Run the plan so many times on so many workers."""
    file = folder / "campaign.toml"
    file.write_text(f'schema = 1\nname = "bench"\nplan = "{PLAN}"\nrepetitions = {runs}\n')
    campaign = load_campaign(file)
    where = CampaignDir.create(folder / f"workers-{workers}", campaign)
    ends_s, seconds = run_all(campaign, where, workers)
    classes: dict[str, int] = {}
    rows = run_rows(where)
    counted = [row["class"] == "loss" for row in rows if row["conclusive"]]
    for row in rows:
        classes[row["class"]] = classes.get(row["class"], 0) + 1
    lossy = Share(sum(counted), len(counted))
    return Ran(workers, classes, lossy, steady_an_hour(ends_s, workers), seconds)


def main(runs: int, workers: list[int]) -> int:
    """Run, print a table, compare; 1 when a bar is missed."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in workers:
            each = ran(runs, number, Path(folder))
            found.append(each)
            print(
                f"{number} workers: {each.per_hour:,.0f} runs an hour, {each.seconds:,.0f} s in "
                f"all, {each.classes}",
                flush=True,
            )
    missed = max(each.per_hour for each in found) < BAR_PER_HOUR
    first = found[0]
    for other in found[1:]:
        reported = equivalence(first.lossy, other.lossy)
        missed |= not reported.equivalent
        print(
            f"{first.workers} against {other.workers} workers: lossy {first.lossy.part} of "
            f"{first.lossy.whole} and {other.lossy.part} of {other.lossy.whole}, "
            f"{'equivalent' if reported.equivalent else 'NOT SHOWN to be equivalent'} within "
            f"{reported.margin * 100:.0f} points (p = {reported.p:.3f})"
        )
    return int(missed)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(main(numbers[0] if numbers else RUNS, numbers[1:] or list(WORKERS)))

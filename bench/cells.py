"""Judged cells an hour where settings share their faults, beside cells that have each a run of
their own, and what the processors did.

`campaigns/isr-settings.toml` without its storm, as users run it: twelve cells a run; then once more
with `share = "never"`, one repetition of each cell. The rate is that of a long campaign: results
after each worker has finished a run, until the last; the one with the start of clusters is printed
too. A cell counts as judged if it is conclusive. What runs beside the campaign is counted with the
brokers, so let nothing.

    python -m bench.cells [RUNS] [WORKERS]       default: 60 shared runs on 3 workers
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from analysis.campaign import run_rows
from bench.campaigns import run_all, steady_an_hour
from bench.processors import Processors
from harness.campaigns.folder import CampaignDir
from harness.campaigns.loading import load_campaign
from harness.campaigns.plan import Campaign

RUNS = 60
WORKERS = 3
CELLS = 12
BAR_AN_HOUR = 10_000
FILE = Path(__file__).parents[1] / "campaigns" / "isr-settings.toml"
"""Its choices of faults that take ten seconds; the storm takes forty."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A campaign: its results by class and how many are starved; conclusive ones an hour, in the
    steady state and with the start; seconds of processors a run, of the workers and of all else."""

    classes: dict[str, int]
    starved: int
    steady: float
    with_start: float
    workers_s: float
    others_s: float


def campaign_of(folder: Path, share: str, repetitions: int) -> Campaign:
    """The campaign with its two short faults."""
    text = FILE.read_text()
    plan = tomllib.loads(text)["plan"]
    before, storm = text.split("[axes.faults.choices.storm]")
    text = before + "[policy]" + storm.split("[policy]")[1]
    text = re.sub("^repetitions = .*$", f"repetitions = {repetitions}", text, flags=re.M)
    text = re.sub("^share = .*$", f'share = "{share}"', text, flags=re.M)
    file = folder / f"{share}.toml"
    file.write_text(text.replace(f'"{plan}"', f'"{(FILE.parent / plan).resolve()}"'))
    return load_campaign(file)


def ran(folder: Path, campaign: Campaign, workers: int, *, cells: int) -> Ran:
    """Run it; each run has so many cells."""
    where = CampaignDir.create(folder / f"of-{cells}", campaign)
    processors = Processors()
    ends_s, seconds = run_all(campaign, where, workers)
    (workers_s, others_s), rows = processors.split(), run_rows(where)
    judged = sum(bool(row["conclusive"]) for row in rows)
    runs = len(rows) // cells
    return Ran(
        classes=dict(Counter(str(row["class"]) for row in rows)),
        starved=sum("starved" in str(row["doubts"]) for row in rows),
        steady=steady_an_hour(ends_s, cells * workers) * judged / len(rows),
        with_start=judged / seconds * 3600,
        workers_s=workers_s / runs,
        others_s=others_s / runs,
    )


def say(name: str, ran: Ran) -> None:
    """Print what was measured."""
    print(
        f"{name}: {ran.classes}, {ran.starved} starved\n"
        f"  {ran.steady:,.0f} cells an hour, {ran.with_start:,.0f} with the start\n"
        f"  {ran.workers_s + ran.others_s:.1f} s of processors a run: {ran.workers_s:.1f} s the "
        f"workers, {ran.others_s:.1f} s brokers, controllers, Docker and all else",
        flush=True,
    )


def main(runs: int, workers: int) -> int:
    """Run both, print; 1 when the bar is missed or a result was starved."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shared = ran(folder, campaign_of(folder, "auto", -(-runs // 2)), workers, cells=CELLS)
        say(f"{CELLS} cells a run, {workers} workers", shared)
        alone = ran(folder, campaign_of(folder, "never", 1), workers, cells=1)
        say(f"a run for each cell, {workers} workers", alone)
    met = shared.steady >= BAR_AN_HOUR
    print(
        f"{shared.steady / alone.steady:.1f} times as many cells an hour; "
        f"bar {BAR_AN_HOUR:,}: {'met' if met else 'MISSED'}"
    )
    return int(not met or shared.starved > 0)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(numbers + [RUNS, WORKERS][len(numbers) :])))

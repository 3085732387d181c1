"""Judged cells an hour where settings share their faults, and what the processors did.

`campaigns/isr-settings.toml` without its storm, as users run it: twelve cells a run. The rate is
that of a long campaign: cells that ended after each worker had finished a run, until the last; the
one with the start of clusters is printed too. A cell counts as judged if it is conclusive. What
runs beside the campaign is counted with the brokers, so let nothing.

    python -m bench.cells [RUNS] [WORKERS]       default: 60 runs on 3 workers
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from collections import Counter
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


def campaign_of(runs: int, folder: Path) -> Campaign:
    """So many runs of the campaign, half of them with each of its two short faults."""
    text = FILE.read_text()
    plan = tomllib.loads(text)["plan"]
    before, storm = text.split("[axes.faults.choices.storm]")
    text = before + "[policy]" + storm.split("[policy]")[1]
    text = re.sub("^repetitions = .*$", f"repetitions = {-(-runs // 2)}", text, flags=re.M)
    file = folder / "campaign.toml"
    file.write_text(text.replace(f'"{plan}"', f'"{(FILE.parent / plan).resolve()}"'))
    return load_campaign(file)


def main(runs: int, workers: int) -> int:
    """Run, print; 1 when the bar is missed or a run was starved."""
    with tempfile.TemporaryDirectory() as name:
        campaign = campaign_of(runs, Path(name))
        where = CampaignDir.create(Path(name) / "campaign", campaign)
        processors = Processors()
        ends_s, seconds = run_all(campaign, where, workers)
        (workers_s, others_s), rows = processors.split(), run_rows(where)
    classes = Counter(str(row["class"]) for row in rows)
    share = sum(bool(row["conclusive"]) for row in rows) / len(rows)
    runs, cells = len(rows) // CELLS, len(rows) * share
    steady = steady_an_hour(ends_s, CELLS * workers) * share
    print(f"{runs} runs of {CELLS} cells, {workers} workers: {dict(classes)}")
    print(f"{steady:,.0f} cells an hour, {cells / seconds * 3600:,.0f} with the start")
    print(
        f"{(workers_s + others_s) / runs:.1f} s of processors a run: {workers_s / runs:.1f} s the "
        f"workers, {others_s / runs:.1f} s brokers, controllers, Docker and all else"
    )
    starved = sum("starved" in str(row["doubts"]) for row in rows)
    print(f"{starved} cells starved; bar {BAR_AN_HOUR:,} cells an hour")
    return int(steady < BAR_AN_HOUR or starved > 0)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(numbers + [RUNS, WORKERS][len(numbers) :])))

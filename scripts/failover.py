"""The published figures of failovers: table and picture of docs/evidence/failover.md.

    python scripts/failover.py                 write them again from the stored rows
    python scripts/failover.py CAMPAIGN ...    first take the rows from the runs of these campaigns

A row is one measured fault. Left out are runs that are not eligible, and faults that were healed
before everything was back: how long that would have taken is not known.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pandas as pd

from analysis.drawing import png
from analysis.failover import STAGES, laws, picture
from analysis.failover import faults as faults_of
from analysis.palette import LIGHT

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs/evidence/results/2026-11-28-failover"
ROWS: Final = FOLDER / "tables/faults.csv"
PAGE: Final = ROOT / "docs/evidence/failover.md"
BEGIN, END = "<!-- written by scripts/failover.py -->\n", "<!-- to here -->\n"
PANELS: Final = (
    ("stop", "led_s"),
    ("stop", "agreed_s"),
    ("crash", "agreed_s"),
    ("controller", "changed_s"),
)
FURTHER: Final = (("stop", "gone_s"), ("crash", "written_s"))
FAULTS: Final = {
    "stop": "broker stopped",
    "crash": "broker killed",
    "controller": "controller killed",
}
MILLIONS: Final = 2_000_000


def take(campaigns: list[str]) -> None:
    """The rows of all judged runs of these campaigns."""
    runs = [each for name in campaigns for each in sorted(Path(name).glob("runs/2*"))]
    rows = faults_of([each for each in runs if (each / "result.json").is_file()])
    zookeeper = rows["system"].str.endswith(" zookeeper")
    rows["system"] = rows["system"].str.split().str[0] + zookeeper.map(
        {True: ", ZooKeeper", False: ", KRaft"}
    )
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    rows.to_csv(ROWS, index=False)


def table(rows: pd.DataFrame) -> Iterator[str]:
    """Medians by number of partitions with how many faults they are of, slope, and 2 million."""
    sizes = sorted(rows["partitions"].unique())
    heads = " | ".join(f"{size:,}" for size in sizes)
    yield f"| fault: seconds until | Kafka | {heads} | slope | at 2 million |"
    yield f"|---|---|{'---|' * len(sizes)}---|---|"
    for fault, stage in (*PANELS, *FURTHER):
        found = laws(rows, fault, stage)
        own = rows[(rows["fault"] == fault) & rows[stage].notna()]
        for system, points in own.groupby("system"):
            cells = []
            for size in sizes:
                seconds = points[points["partitions"] == size][stage]
                cells.append(f"{seconds.median():.2f} ({len(seconds)})" if len(seconds) else "—")
            line = found.get(str(system))
            slope, far = "—", "—"
            if line is not None:
                slope = f"{line.slope:.2f} ({line.low:.2f} to {line.high:.2f})"
                far = " to ".join(_short(limit) for limit in line.at(MILLIONS)[1:])
            name = f"{FAULTS[fault]}: {STAGES[stage]}"
            yield f"| {name} | {system} | {' | '.join(cells)} | {slope} | {far} |"


def _short(seconds: float) -> str:
    """Two digits, but no power of ten."""
    return f"{seconds:.2g}" if seconds < 10 else f"{float(f'{seconds:.2g}'):,.0f}"


def main(campaigns: list[str]) -> None:
    """Write the picture, and the table into its page."""
    if campaigns:
        take(campaigns)
    rows = pd.read_csv(ROWS)
    ended_early = rows["leaderless"] + rows["disagreed"] + rows["unwritten"] > 0
    rows = rows[rows["eligible"] & ~ended_early]
    shades = ("#c8310f", "#4477aa", "#17705f", "#a86e00")
    colours = {
        **LIGHT,
        **dict(zip(sorted(rows["system"].unique()), reversed(shades), strict=False)),
    }
    panels = [(fault, stage) for fault, stage in PANELS if (rows["fault"] == fault).any()]
    (FOLDER / "failover.png").write_bytes(png(picture(rows, panels, colours)))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + "\n".join(table(rows)) + "\n" + END + after, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

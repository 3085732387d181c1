"""The published figures of failovers: table and picture of docs/evidence/failover.md, and its table
of all stages, tables/medians.csv.

    python scripts/failover.py                 write them again from the stored rows
    python scripts/failover.py CAMPAIGN ...    first add the rows of the runs of these campaigns

A time s that grows as n^b is a line of the slope b in logarithms: least squares over single faults,
intervals of Student's t. A slope of 0 is a time that does not grow, of 1 one that grows as the
partitions do. A line that is carried on to more partitions than were measured has the interval of
its mean there, which says nothing of whether the law holds so far.

A row is one measured fault. Left out are faults that were healed before everything was back: how
long that would have taken is not known; and those of runs that are not eligible, unless that is for
another fault alone: one that came too late because the one before it took so long.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from scipy import stats

from analysis.drawing import LIGHT, plain, png
from harness.history.documents import read_result
from harness.history.run_folder import RunDir
from harness.protocols import DOUBTS, OUTCOME_DOUBTS

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs/evidence/results/2026-11-28-failover"
ROWS: Final = FOLDER / "tables/faults.csv"
MEDIANS: Final = FOLDER / "tables/medians.csv"
PAGE: Final = ROOT / "docs/evidence/failover.md"
BEGIN, END = "<!-- written by scripts/failover.py -->\n", "<!-- to here -->\n"
PANELS: Final = (
    ("stop", "led_s"),
    ("stop", "agreed_s"),
    ("crash", "agreed_s"),
    ("controller", "controller_s"),
)
FURTHER: Final = (
    ("controller", "agreed_s"),
    ("controller", "changed_s"),
    ("stop", "gone_s"),
    ("crash", "written_s"),
)
FAULTS: Final = {
    "stop": "broker stopped",
    "crash": "broker killed",
    "controller": "controller killed",
}
MILLIONS: Final = 2_000_000
CONFIDENCE: Final = 0.95
LEAST_S: Final = 0.001
"""A time of zero has no logarithm: it was shorter than what is shown."""

STAGES: Final[Mapping[str, str]] = {
    "controller_s": "another controller is active",
    "changed_s": "metadata can be changed again",
    "led_s": "every partition has another leader",
    "agreed_s": "every node names it",
    "written_s": "every partition is written again",
    "gone_s": "the node has stopped",
}
"""What is timed, by the names of the check."""


def measured_faults(runs: Sequence[Path]) -> pd.DataFrame:
    """One row for each measured fault of these run folders: `run_id, eligible, system, partitions`,
    and what the check has of it; a system is its version, and what else its plan says. Raises
    HistoryError."""
    return pd.DataFrame([row for path in runs for row in _rows(RunDir(path))])


def _rows(run: RunDir) -> Iterator[dict[str, Any]]:
    result, plan = read_result(run), run.read_json(run.plan)
    target = plan["target"]
    for check in result.checks:
        for each in check.details.get("failover", ()) if check.name == "failover" else ():
            yield {
                "run_id": run.run_id,
                "eligible": result.doubts is not None and _OTHER_FAULTS.issuperset(result.doubts),
                "system": " ".join(filter(None, (target["version"], target.get("metadata")))),
                **{name: value for name, value in each.items() if name != "nodes"},
                "fault": _REPEATED.sub("", each["fault"]),
            }


_OTHER_FAULTS: Final = OUTCOME_DOUBTS | {DOUBTS.unproven, DOUBTS.unmet}
"""Doubts that say nothing against a fault that is proven itself."""

_REPEATED: Final = re.compile(r"-\d+$")
"""What the id of a step that is repeated ends with."""


@dataclass(frozen=True, kw_only=True)
class Law:
    """s = exp(at) * n^slope, from so many faults; `low`, `high`: of the slope."""

    faults: int
    slope: float
    low: float
    high: float
    _at: float
    _mean: float
    _spread: float
    _error: float

    def at(self, partitions: float) -> tuple[float, float, float]:
        """The mean at so many partitions, and its limits."""
        x = np.log(partitions)
        middle = self._at + self.slope * x
        error = self._error * np.sqrt(1 / self.faults + (x - self._mean) ** 2 / self._spread)
        half = stats.t.ppf((1 + CONFIDENCE) / 2, self.faults - 2) * error
        low, mean, high = np.exp([middle - half, middle, middle + half]).tolist()
        return mean, low, high


def law(partitions: Sequence[float], seconds: Sequence[float]) -> Law | None:
    """The line through these; `None` for fewer than three, or all of as many partitions."""
    x, y = np.log(partitions), np.log(np.maximum(seconds, LEAST_S))
    if len(x) < 3 or len(set(partitions)) < 2:
        return None
    mean, spread = float(x.mean()), float(((x - x.mean()) ** 2).sum())
    slope = float(((x - mean) * (y - y.mean())).sum() / spread)
    at = float(y.mean() - slope * mean)
    error = float(np.sqrt(((y - at - slope * x) ** 2).sum() / (len(x) - 2)))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(x) - 2) * error / np.sqrt(spread))
    return Law(
        faults=len(x), slope=slope, low=slope - half, high=slope + half,
        _at=at, _mean=mean, _spread=spread, _error=error,
    )  # fmt: skip


def laws(rows: pd.DataFrame, fault: str, stage: str) -> dict[str, Law]:
    """Those of one fault and stage, by system."""
    found = {}
    for system, own in rows[(rows["fault"] == fault) & rows[stage].notna()].groupby("system"):
        if (made := law(own["partitions"].tolist(), own[stage].tolist())) is not None:
            found[str(system)] = made
    return found


def picture(
    rows: pd.DataFrame, panels: Sequence[tuple[str, str]], colours: Mapping[str, str]
) -> Figure:
    """A panel for each fault and stage: every fault as a point, every law as a line, both axes
    logarithmic."""
    figure = Figure(figsize=(3.6 * len(panels), 3.4), layout="constrained", facecolor="white")
    for place, (fault, stage) in enumerate(panels, start=1):
        panel = figure.add_subplot(1, len(panels), place)
        plain(panel, colours)
        own = rows[(rows["fault"] == fault) & rows[stage].notna()]
        lines = laws(rows, fault, stage)
        for system, points in own.groupby("system"):
            colour = colours[str(system)]
            seconds = points[stage].clip(lower=LEAST_S)
            panel.plot(points["partitions"], seconds, "o", ms=4, alpha=0.7, c=colour, label=system)
            if (line := lines.get(str(system))) is not None:
                ends = [points["partitions"].min(), points["partitions"].max()]
                panel.plot(ends, [line.at(n)[0] for n in ends], "-", lw=1.2, c=colour)
        panel.set(xscale="log", yscale="log", xlabel="partitions")
        for axis in (panel.xaxis, panel.yaxis):  # by default their texts are formulas
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if axis is panel.yaxis else (1,)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
        panel.set_title(f"{fault}: {STAGES[stage]}", fontsize=9, loc="left")
        if place == 1:
            panel.set_ylabel("seconds since the fault began")
            panel.legend(frameon=False, fontsize=8)
    return figure


def take(campaigns: list[str]) -> None:
    """Add the rows of all judged runs of these campaigns to those that are there."""
    runs = [each for name in campaigns for each in sorted(Path(name).glob("runs/2*"))]
    rows = measured_faults([each for each in runs if (each / "result.json").is_file()])
    zookeeper = rows["system"].str.endswith(" zookeeper")
    rows["system"] = rows["system"].str.split().str[0] + zookeeper.map(
        {True: ", ZooKeeper", False: ", KRaft"}
    )
    if ROWS.exists():
        rows = pd.concat([pd.read_csv(ROWS), rows]).drop_duplicates(["run_id", "fault", "begun_s"])
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    rows.to_csv(ROWS, index=False)


def medians(rows: pd.DataFrame) -> pd.DataFrame:
    """All stages that are timed: faults and median seconds by number of partitions, slope with its
    interval, and the limits of the line's mean at 2 million."""
    made = []
    for fault, stage in (*PANELS, *FURTHER):
        found = laws(rows, fault, stage)
        own = rows[(rows["fault"] == fault) & rows[stage].notna()]
        for system, points in own.groupby("system"):
            row: dict[str, Any] = {"fault": FAULTS[fault], "until": STAGES[stage]}
            row["system"] = system
            for size, seconds in points.groupby("partitions")[stage]:
                row |= {f"{size}.faults": len(seconds), f"{size}.median_s": seconds.median()}
            if (line := found.get(str(system))) is not None:
                _, low, high = line.at(MILLIONS)
                row |= {"slope": line.slope, "slope.low": line.low, "slope.high": line.high}
                row |= {f"{MILLIONS}.low_s": low, f"{MILLIONS}.high_s": high}
            made.append(row)
    sizes = sorted(rows["partitions"].unique())
    by_size = [f"{size}.{kind}" for size in sizes for kind in ("faults", "median_s")]
    far = [f"{MILLIONS}.low_s", f"{MILLIONS}.high_s"]
    columns = ["fault", "until", "system", *by_size, "slope", "slope.low", "slope.high", *far]
    return pd.DataFrame(made).reindex(columns=columns)


def table(rows: pd.DataFrame) -> Iterator[str]:
    """Medians by number of partitions with how many faults they are of, slope, and 2 million, of
    the stages in the picture."""
    sizes = sorted(rows["partitions"].unique())
    heads = " | ".join(f"{size:,}" for size in sizes)
    yield f"| fault: seconds until | Kafka | {heads} | slope | at 2 million |"
    yield f"|---|---|{'---|' * len(sizes)}---|---|"
    for fault, stage in PANELS:
        found = laws(rows, fault, stage)
        own = rows[(rows["fault"] == fault) & rows[stage].notna()]
        name = f"{FAULTS[fault]}: {STAGES[stage]}"
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
            yield f"| {name} | {system} | {' | '.join(cells)} | {slope} | {far} |".replace(
                "|  |", "| |"
            )
            name = ""


def _short(seconds: float) -> str:
    """Two digits, but no power of ten."""
    return f"{seconds:.2g}" if seconds < 10 else f"{float(f'{seconds:.2g}'):,.0f}"


def main(campaigns: list[str]) -> None:
    """Write the picture, the table of all stages, and that of the page."""
    if campaigns:
        take(campaigns)
    rows = pd.read_csv(ROWS)
    ended_early = rows["leaderless"] + rows["disagreed"] + rows["unwritten"] > 0
    rows.loc[ended_early, ["led_s", "agreed_s", "written_s"]] = np.nan
    rows = rows[rows["eligible"]]
    shades = ("#c8310f", "#4477aa", "#17705f", "#a86e00")
    colours = {
        **LIGHT,
        **dict(zip(sorted(rows["system"].unique()), reversed(shades), strict=False)),
    }
    panels = [(fault, stage) for fault, stage in PANELS if (rows["fault"] == fault).any()]
    (FOLDER / "failover.png").write_bytes(png(picture(rows, panels, colours)))
    medians(rows).to_csv(MEDIANS, index=False, float_format="%.4g")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + "\n".join(table(rows)) + "\n" + END + after, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

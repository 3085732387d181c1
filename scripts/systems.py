"""The same question of every system: runs campaigns/systems/*.toml, and publishes what came out.

    python -m scripts.systems [--only SYSTEM ...] [--repetitions N] [--out FOLDER] [--workers N]
    python -m scripts.systems --publish FOLDER     only add the runs of the campaigns there
    python -m scripts.systems --runs FOLDER ...    only the latest run there of each shipped plan
    python -m scripts.systems --write              only write docs/evidence/systems.md and its
                                                   table, cells.csv, again

A campaign that FOLDER has is resumed, and its finished runs are not repeated. Published is one row
for each run, and further runs of a cell, as its campaign file describes it, are added to those that
are published: so twenty repetitions may come from several machines and days. The page and its
sentences are made of these rows alone.

A cell is what its campaign file and the base plan beside it make of it: published runs of another
one are left out. What a schedule's own file and ackloss' defaults were is not compared.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import orjson
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import ackloss
from analysis.drawing import LIGHT, STYLE, plain, png
from analysis.statistics.intervals import (
    CLOPPER_PEARSON,
    CONFIDENCE,
    Share,
    bounds,
    chosen_by_outcome,
)
from analysis.wording import counted
from harness.campaigns.plan import Choice, Document, with_choices
from scripts.published import counts, interval, shown

ROOT: Final = Path(__file__).parents[1]
CAMPAIGNS: Final = ROOT / "campaigns/systems"
RESULTS: Final = ROOT / "docs/evidence/results/2026-11-28-systems"
RUNS: Final = RESULTS / "runs.csv"
CELLS: Final = RESULTS / "cells.csv"
PAGE: Final = ROOT / "docs/evidence/systems.md"
PICTURE: Final = ROOT / "docs/evidence/systems.png"
SCHEDULES: Final = (
    *("kill-leader", "isolate-leader", "pause-leader", "kill-all", "rolling-kill"),
    *("restart-quickly", "lag-kill", "power-loss-all", "lag-power-loss"),
)
"""The columns of the picture: one fault of the leader, of all, of each; then those that meet only
what is in memory, or behind."""
BEGIN, END = "<!-- written by scripts/systems.py -->\n", "<!-- to here -->\n"
ANSWER: Final = "<!-- answer: written by scripts/systems.py -->\n"
DEFAULT: Final = "default"
COLUMNS: Final = (
    *("run_id", "settings", "schedule", "seed", "conclusive", "class", "verdict"),
    *("acknowledged", "lost", "loss_rate", "unacknowledged_success_rate", "longest_gap_s"),
    *("duplicates", "faults_proven", "faults", "leader_met", "doubts"),
)
"""Of each run."""
COUNTED: Final = (
    *("runs", "conclusive", "conclusive_lossy", "wrong", "inconclusive", "inconclusive_lossy"),
)
"""Of each cell; `wrong`: nothing was lost, and something else that was promised does not hold."""
MEDIANS: Final = (*("loss_rate", "unacknowledged_success_rate", "longest_gap_s", "duplicates"),)
NAMES: Final = {
    "kafka": "Kafka",
    "zookeeper": "ZooKeeper",
    "etcd": "etcd",
    "galera": "MariaDB Galera",
    "nats": "NATS JetStream",
    "postgresql": "PostgreSQL with Patroni",
    "rabbitmq": "RabbitMQ",
    "redis": "Redis with Sentinel",
    "valkey": "Valkey with Sentinel",
}
PUBLISHED: Final = {
    "etcd": "Jepsen 2020, etcd 3.4.3: no acknowledged write of a register was lost.",
    "galera": "Jepsen 2026, MariaDB Galera Cluster 12.1.2: with the value of "
    "`innodb_flush_log_at_trx_commit` that the vendor advises, 9 elements were lost in a minute "
    "after a coordinated crash.",
    "nats": "Jepsen 2025, NATS 2.12.1: 131,418 of 930,005 acknowledged messages lost (14.1 %), and "
    "679,153 of 1,367,069 (49.7 %); replicas that differ. nats-server#7545: 5 of 5,236 lost with "
    "`sync_interval: always`.",
    "postgresql": "Jepsen 2013, one PostgreSQL server: 950 acknowledged, 952 there: commits whose "
    "acknowledgement was lost.",
    "rabbitmq": "Jepsen 2014: mirrored queues lose acknowledged elements. Vanlightly 2018: mirrors "
    "that were not synchronized are promoted.",
    "redis": "Jepsen 2013, Redis with Sentinel: of 1,998 acknowledged writes 872 were there (56 % "
    "lost).",
}
"""What others have published. Their faults, loads and versions are not ours."""
HERE: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "galera": (("flush-2", "power-loss-all"), ("flush-0", "power-loss-all")),
    "nats": (
        *(("2.12.1", "power-loss-all"), ("2.12.1", "lag-power-loss")),
        ("sync-always", "lag-power-loss"),
    ),
    "rabbitmq": (("default", "isolate-leader"), ("default", "rolling-kill")),
    "redis": (("default", "isolate-leader"),),
}
"""The cells that are most like what others have published."""
ADVISED: Final = {
    "kafka": "min-isr-2",
    "galera": "flush-0",
    "nats": "sync-always",
    "postgresql": "synchronous",
    "rabbitmq": "quorum",
    "redis": "strictest",
    "valkey": "strictest",
}
"""What documentation advises where it is not the default: so that writes survive; of Galera, which
has them on all servers, for speed."""


def run(files: list[Path], out: Path, *, repetitions: int | None, workers: int) -> bool:
    """Run or resume the campaigns, one after the other; whether all came to their end."""
    ended = True
    for file in files:
        folder = out / file.stem
        command = [sys.executable, "-m", "ackloss", "campaign"]
        if (folder / "journal.jsonl").exists():
            command += ["resume", str(folder)]
        else:
            command += ["run", str(file), "--out", str(folder)]
            command += ["--repetitions", str(repetitions)] if repetitions else []
        done = subprocess.run([*command, "--workers", str(workers)], cwd=ROOT, check=False)
        ended = ended and done.returncode in (0, 1, 3)  # what the policy says of cells
    return ended


def runs_of(folder: Path) -> pd.DataFrame:
    """One row for each finished run of a campaign, in the order of its cells."""
    campaign = ackloss.load_campaign(folder)
    cells = campaign.cells().rename(columns=lambda name: name.removeprefix("key."))
    cells = cells[["name", "settings", "schedule"]].rename(columns={"name": "cell"})
    runs = campaign.runs()
    return cells.merge(runs, on="cell").reindex(columns=list(COLUMNS))


def cells_of(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each cell of these runs: how many there are, and medians of those that count."""
    lossy, counts = runs["class"] == "loss", runs["conclusive"].astype(bool)
    numbers = runs.assign(
        runs=1,
        conclusive=counts,
        conclusive_lossy=counts & lossy,
        wrong=counts & (runs["class"] == "wrong"),
        inconclusive=~counts,
        inconclusive_lossy=~counts & lossy,
    )
    key = ["settings", "schedule"]
    cells = numbers.groupby(key, sort=False)[list(COUNTED)].sum().astype(int)
    medians = runs[counts].groupby(key)[list(MEDIANS)].median().add_suffix(".median")
    return cells.join(medians).reset_index().rename(columns={each: f"key.{each}" for each in key})


def publish(out: Path) -> None:
    """Add the runs of the campaigns in a folder to those that are published of the same cells."""
    (RESULTS / "runs").mkdir(parents=True, exist_ok=True)
    for folder in sorted(path.parent for path in out.glob("*/journal.jsonl")):
        kinds = {"campaign.toml": "toml", "base.json": "plan.json"}
        files = [RESULTS / f"runs/{folder.name}.{kind}" for kind in kinds.values()]
        as_it_ran, runs = [(folder / name).read_bytes() for name in kinds], runs_of(folder)
        published = RESULTS / f"runs/{folder.name}.csv"
        if published.exists():
            before = [file.read_bytes() for file in files]
            runs = together(unchanged(pd.read_csv(published), before, as_it_ran), runs)
        runs = in_order(runs, tomllib.loads(as_it_ran[0].decode()))
        for file, text in zip(files, as_it_ran, strict=True):
            file.write_bytes(text)
        runs.to_csv(published, index=False)


_NOT_OF_A_CELL: Final = frozenset({"about", "axes", "exclude", "policy", "repetitions"})
"""`--only` excludes cells, and changes none."""
_NOT_OF_A_RUN: Final = frozenset({"about", "expect", "name"})


def unchanged(runs: pd.DataFrame, before: Sequence[bytes], now: Sequence[bytes]) -> pd.DataFrame:
    """Those of the runs whose cell is the same in both campaigns: of each its file and its base
    plan."""
    both = [(tomllib.loads(file.decode()), orjson.loads(plan)) for file, plan in (before, now)]

    def cell(campaign: Mapping[str, Any], base: Document, **labels: str) -> Any:
        choices = {axis: campaign["axes"][axis]["choices"].get(labels[axis]) for axis in labels}
        if None in choices.values():
            return None
        chosen = {axis: Choice.model_validate(choices[axis]) for axis in choices}
        document = with_choices(base, chosen)
        rest = {key: campaign[key] for key in campaign if key not in _NOT_OF_A_CELL}
        shared = [chosen[axis].share for axis in chosen]
        return rest, shared, {k: v for k, v in document.items() if k not in _NOT_OF_A_RUN}

    keys = zip(runs["settings"], runs["schedule"], strict=True)
    found = [[cell(*each, settings=a, schedule=b) for each in both] for a, b in keys]
    return runs[[old == new for old, new in found]]


def in_order(runs: pd.DataFrame, campaign: Mapping[str, Any]) -> pd.DataFrame:
    """The runs in the order of the campaign file, whose first settings are the default."""
    for axis in ("schedule", "settings"):
        places = {label: place for place, label in enumerate(campaign["axes"][axis]["choices"])}
        runs = runs.sort_values(axis, key=lambda labels, p=places: labels.map(p), kind="stable")
    return runs


def together(earlier: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of both tables, each once, cell by cell."""
    every = pd.concat([earlier, runs]).drop_duplicates("run_id", keep="last")
    return pd.concat([own for _, own in every.groupby(["settings", "schedule"], sort=False)])


def latest(folders: list[Path]) -> pd.DataFrame:
    """One row for the latest run below these folders of each shipped plan and version as it is
    shipped, whatever came out."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for file in sorted((f for each in folders for f in each.rglob("result.json")), key=_run_id):
        run = ackloss.load_run(file.parent)
        system, plan = run.plan["target"]["system"], run.plan["name"]
        version = run.plan["target"].get("version") or ""
        if file.parent.name != run.result.run_id:  # a copy
            continue
        if not (ROOT / f"plans/{system}/{plan}.toml").exists():
            continue
        changed = (run.plan.get("yours") or {}).get("set") or ()
        if any(key != "target.version" and not key.startswith("final.") for key in changed):
            continue  # another version is the same plan, and so is a longer wait for replicas
        counts = run.result.counts
        leaders = run.result.leaders or ()
        moved = [name for each in leaders for name in each.moved_to or ()]
        known = any(each.moved_to is not None for each in leaders)
        loses = run.result.verdict != "unknown" and run.result.model in _LOSE
        found[f"{system}/{plan}", version] = {
            "plan": f"{system}/{plan}",
            "version": version,
            "run_id": run.result.run_id,
            "verdict": run.result.verdict,
            "counter_examples": " ".join(run.result.counter_examples or ()),
            "acknowledged": counts.acknowledged,
            "lost": counts.lost if loses else None,
            "longest_gap_s": run.result.availability.longest_gap_s,
            "led_next": " ".join(moved) or ("no other" if known else "not recorded"),
        }
    return pd.DataFrame([found[key] for key in sorted(found)])


_LOSE: Final = ("log", "set", "queue")
"""The models of which a checker counts lost writes."""


def _run_id(file: Path) -> str:
    return file.parent.name


def runs_in_words(runs: pd.DataFrame) -> list[str]:
    """How many shipped plans have a latest run, and what came out; the rows are in RUNS."""
    verdicts = runs["verdict"].value_counts()
    came_out = ", ".join(f"{verdicts[each]} `{each}`" for each in sorted(verdicts.index))
    return [
        "## One run of each shipped plan",
        "",
        f"The latest runs of {runs['plan'].nunique()} plans, {len(runs)} with their versions, are "
        f"in [runs.csv](results/2026-11-28-systems/runs.csv): {came_out}, each with what it lost "
        "and who led next. One run is one observation.",
        "",
    ]


def page(tables: dict[str, pd.DataFrame]) -> str:
    """What the page has between its marks, of campaigns: for each system sentences, and a matrix
    with a row for each settings and a column for each schedule."""
    lines = [bounds_of_none(), ""] if tables else []
    for system, cells in tables.items():
        ran = set(cells["key.schedule"])
        known = [name for name in SCHEDULES if name in ran]
        schedules = [*known, *sorted(ran.difference(SCHEDULES))]
        rows = cells.set_index(["key.settings", "key.schedule"]).to_dict("index")
        lines += [f"## {NAMES.get(system, system)}", "", sentences(cells), ""]
        lines += [
            f"| settings | {' | '.join(f'`{name}`' for name in schedules)} |",
            f"|---|{'---|' * len(schedules)}",
        ]
        for settings in choices(cells):
            found = (rows.get((settings, schedule)) for schedule in schedules)
            own = ("-" if row is None else _in_words(row) for row in found)
            lines.append(f"| `{settings}` | {' | '.join(own)} |")
        lines.append("")
    return "\n".join(lines)


def all_cells(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row for each cell of all systems, with the limits of its share of lossy runs."""
    every = pd.concat([cells.assign(system=system) for system, cells in tables.items()])
    every = every.rename(columns=lambda name: name.removeprefix("key."))
    limits = [shown(*counts(row)) for row in every.to_dict("records")]
    for name in ("chosen_by_outcome", "shown_low", "shown_high"):
        every[f"lossy_share.{name}"] = [each[name] for each in limits]
    shares = [f"lossy_share.{name}" for name in ("chosen_by_outcome", "shown_low", "shown_high")]
    medians = [f"{name}.median" for name in MEDIANS]
    return every[["system", "settings", "schedule", *COUNTED, *shares, *medians]]


def drawn(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """All cells: a row for the settings of a system, a column for a schedule. Written is how
    many of the conclusive runs lost acknowledged writes, or in brackets of the others; darker is a
    greater share of them lost, in the median run."""
    rows = {
        (system, each): cells[cells["key.settings"] == each].set_index("key.schedule")
        for system, cells in tables.items()
        for each in choices(cells)
    }
    reds = LinearSegmentedColormap.from_list("lost", [LIGHT["paper"], LIGHT["lost"]])
    with mpl.rc_context(STYLE):
        height = 0.26 * len(rows) + 1.3
        figure = Figure(figsize=(9.6, height), layout="constrained", facecolor=LIGHT["paper"])
        panel = figure.subplots()
        plain(panel, LIGHT)
        for place, of_schedule in enumerate(rows.values()):
            for column, schedule in enumerate(SCHEDULES):
                if schedule in of_schedule.index:
                    _tile(panel, column, place, of_schedule.loc[schedule].to_dict(), reds)
        panel.set_xlim(-0.5, len(SCHEDULES) - 0.5)
        panel.set_ylim(len(rows) - 0.5, -0.5)
        panel.set_xticks(range(len(SCHEDULES)), SCHEDULES, rotation=25, ha="left")
        panel.xaxis.tick_top()
        names = [f"{NAMES.get(system, system)}: {each}" for system, each in rows]
        panel.set_yticks(range(len(rows)), names)
        panel.tick_params(length=0)
        for side in ("left", "bottom"):
            panel.spines[side].set_visible(False)
        systems = [system for system, _ in rows]
        for place in range(1, len(rows)):
            if systems[place] != systems[place - 1]:
                panel.axhline(place - 0.5, color=LIGHT["muted"], linewidth=0.8)
    return figure


def _tile(panel: Axes, column: int, place: int, row: Mapping[Any, Any], reds: Colormap) -> None:
    lossy, conclusive = int(row["conclusive_lossy"]), int(row["conclusive"])
    share = row["loss_rate.median"] if lossy and pd.notna(row["loss_rate.median"]) else 0.0
    strength = 0.15 + 0.85 * share if lossy else 0.0
    colour = reds(strength) if conclusive else LIGHT["panel"]
    corner = (column - 0.5, place - 0.5)
    panel.add_patch(Rectangle(corner, 1, 1, fc=colour, ec=LIGHT["rule"], lw=0.6))
    others = f"({int(row['inconclusive_lossy'])}/{int(row['inconclusive'])})"
    text = f"{lossy}/{conclusive}" if conclusive else others
    ink = LIGHT["paper"] if strength > 0.6 else LIGHT["ink"] if lossy else LIGHT["muted"]
    weight = "bold" if lossy else "normal"
    panel.text(column, place, text, ha="center", va="center", color=ink, weight=weight, fontsize=8)


def published(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """What others have published, as a list, each beside what came out here."""
    known = (
        f"- **{NAMES[system]}**: {words}{_here(system, tables[system]) if system in tables else ''}"
        for system, words in PUBLISHED.items()
    )
    return ["## What others have published", "", *known, ""]


def _here(system: str, cells: pd.DataFrame) -> str:
    """The cells that are most like it; without any, what the first settings lose, and how often a
    write that was not acknowledged was there."""
    rows = cells.set_index(["key.settings", "key.schedule"]).to_dict("index")
    if like := [cell for cell in HERE.get(system, ()) if cell in rows]:
        each = (f"`{a}` under `{b}` {_in_words(rows[a, b])}" for a, b in like)
        return f" Here: {'; '.join(each)}."
    first = choices(cells)[0]
    own = cells[cells["key.settings"] == first]
    found = _share(own["unacknowledged_success_rate.median"].max())
    return (
        f" Here: with `{first}` {_loses(cells, first)}; unacknowledged success up to {found} in "
        "the median run."
    )


def beside(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """A table with the default of each system, and what its documentation advises."""
    lines = [
        "## Default beside advised",
        "",
        "Advised is what a system's documentation advises so that acknowledged writes survive; of "
        "Redis and Valkey all that it names, of Galera what it advises for speed. A loss in any "
        "run counts. *Wrong*: under so many further schedules nothing was lost, and another "
        "promise was broken. The rest is of the median conclusive run of a schedule: the most, "
        "and the range of the longest time without an acknowledgement.",
        "",
        "| system | settings | writes lost under | share lost | no acknowledgement for | "
        "unacknowledged success | duplicates |",
        "|---|---|---|---|---|---|---|",
    ]
    for system, cells in tables.items():
        for settings in dict.fromkeys((choices(cells)[0], ADVISED.get(system, choices(cells)[0]))):
            own = cells[cells["key.settings"] == settings]
            if len(own):
                lines.append(f"| {NAMES.get(system, system)} | {_beside(system, settings, own)} |")
    return [*lines, ""]


def _beside(system: str, settings: str, own: pd.DataFrame) -> str:
    advised = ADVISED.get(system, DEFAULT) == settings
    met = own[(own["conclusive"] > 0) | _seen(own)]
    counted_ = own[own["conclusive"] > 0]
    lost, gap = counted_["loss_rate.median"], counted_["longest_gap_s.median"].dropna()
    most = _share(lost.max())
    if lost.max() > 0:
        most += f" (`{counted_.loc[lost.idxmax(), 'key.schedule']}`)"
    twice = counted_["duplicates.median"].max()
    under = f"{int(_seen(own).sum())} of {counted(len(met), 'schedule')}"
    if wrong := int(((own["wrong"] > 0) & ~_seen(own)).sum()):
        under += f", {wrong} *wrong*"
    return " | ".join(
        (
            f"`{settings}`{', advised' if advised else ''}",
            under,
            most,
            f"{gap.min():.2g} to {gap.max():.2g} s" if len(gap) else "-",
            _share(counted_["unacknowledged_success_rate.median"].max()),
            "-" if pd.isna(twice) else f"{twice:,.0f}",
        )
    )


def _share(share: float) -> str:
    return "-" if pd.isna(share) else f"{100 * share:.3g} %"


def choices(cells: pd.DataFrame) -> list[str]:
    """The settings of a table, in its order."""
    return list(dict.fromkeys(cells["key.settings"]))


def sentences(cells: pd.DataFrame) -> str:
    """Two sentences that the numbers support: what the first settings lose, and what those of the
    others lose that differ most from them, of those that met the same schedules. Losses that were
    seen in runs that do not count are in no share, and are said."""
    first, others = _compared(cells)
    made = f"With `{first}` {_loses(cells, first)}."
    is_lossy = _lossy(cells, first)[0] > 0
    if not others:
        return made
    lost = {each: _lossy(cells, each) for each in others}
    most = (min if is_lossy else max)(lost.values())
    alike = [each for each in others if lost[each] == most]
    if not most[0]:
        runs = cells.groupby("key.settings")["conclusive"].sum()
        kept = [f"`{each}` ({counted(int(runs[each]), 'conclusive run')})" for each in alike]
        return f"{made} Of the other settings {' and '.join(kept)} lost nothing."
    of = "the fewest" if is_lossy else "the most"
    names = " and ".join(f"`{each}`" for each in alike)
    return (
        f"{made} Of the other settings {names} lost under {of} schedules: "
        f"{_loses(cells, alike[0])}."
    )


def _compared(cells: pd.DataFrame) -> tuple[str, list[str]]:
    """The first settings, and those to compare them with: if the first lose, only those that met
    at least the same schedules, since what met less may have lost less for that."""
    met = cells[cells["conclusive"] > 0].groupby("key.settings")["key.schedule"].agg(set)
    first, *others = choices(cells)
    if _lossy(cells, first)[0]:
        others = [each for each in others if met.get(each, set()) >= met.get(first, set())]
    return first, others


def answer(tables: Mapping[str, pd.DataFrame]) -> str:
    """Which systems lost nothing by default, which nothing with other settings, and the rest."""
    kept, better, worse = list[str](), list[str](), list[str]()
    for system, cells in tables.items():
        name, (first, others) = NAMES.get(system, system), _compared(cells)
        runs = int(cells[cells["key.settings"] == first]["conclusive"].sum())
        if not _lossy(cells, first)[0]:
            kept.append(f"{name} ({counted(runs, 'conclusive run')})")
        else:
            spared = any(not _lossy(cells, each)[0] for each in others)
            (better if spared else worse).append(name)
    return " ".join(
        f"{said} {', '.join(names)}."
        for said, names in (
            ("With `default`, nothing was lost by", kept),
            ("Lost acknowledged writes with it, and none with other settings:", better),
            ("Lost some with all settings compared:", worse),
        )
        if names
    )


def _seen(own: pd.DataFrame) -> pd.Series[bool]:
    """In which cells a loss was seen, in runs that count or in others."""
    return own["conclusive_lossy"] + own["inconclusive_lossy"] > 0


def _lossy(cells: pd.DataFrame, settings: str) -> tuple[int, float]:
    """Under how many schedules a loss was seen with these settings, and the sum of medians."""
    own = cells[cells["key.settings"] == settings]
    own = own[_seen(own)]
    return len(own), float(own["loss_rate.median"].fillna(0.0).sum())


def _loses(cells: pd.DataFrame, settings: str) -> str:
    own = cells[cells["key.settings"] == settings]
    runs, lossy = int(own["conclusive"].sum()), own[own["conclusive_lossy"] > 0]
    others = own[(own["conclusive_lossy"] == 0) & (own["inconclusive_lossy"] > 0)]
    if not runs and others.empty:
        return "no run is conclusive"
    clean = own[(own["conclusive"] > 0) & ~_seen(own)]
    if lossy.empty and others.empty:
        under = counted(len(clean), "schedule")
        return f"nothing was lost in {counted(runs, 'conclusive run')} under {under}"
    always = lossy["conclusive_lossy"] == lossy["conclusive"]
    parts = [
        f"in {how} ({_each(rows[count])}) under {_listed(rows['key.schedule'])}"
        for how, rows, count in (
            ("every run", lossy[always], "conclusive"),
            ("some runs", lossy[~always], "conclusive"),
            ("runs that do not count", others, "inconclusive_lossy"),
        )
        if len(rows)
    ]
    rest = f", and none under {counted(len(clean), 'other')}" if len(clean) else ""
    wrong = own[own["wrong"] > 0]
    if len(wrong):
        rest += f" (but {_each(wrong['wrong'])} are *wrong* under {_listed(wrong['key.schedule'])})"
    return f"acknowledged writes were lost {', '.join(parts)}{rest}"


def _each(runs: pd.Series[int]) -> str:
    least, most = int(runs.min()), int(runs.max())
    return f"{least} each" if least == most else f"{least} to {most} each"


def _listed(names: pd.Series[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def bounds_of_none() -> str:
    """What `0 of n` leaves open, once for all cells."""
    of = (1, 2, 3, 5, 10, 20)
    high = [bounds(Share(0, n), method=CLOPPER_PEARSON, confidence=CONFIDENCE)[1] for n in of]
    limits = ", ".join(f"{math.ceil(100 * most)} % ({n})" for n, most in zip(of, high, strict=True))
    return f"`0/n` leaves open (95 %) that a share of runs loses: at most (n) {limits}."


def _in_words(row: Mapping[Any, Any]) -> str:
    """Lossy/conclusive runs; where there are lossy ones, the interval and the median share lost."""
    share, others = counts(row)
    others_lost = f"**{others.part}/{others.whole}** others" if others.part else ""
    if not share.whole:
        return f"none{' + ' * bool(others_lost)}{others_lost}"
    of = f"**{share.part}/{share.whole}**" if share.part else f"0/{share.whole}"
    of += f", {row['wrong']} *wrong*" if row["wrong"] else ""
    if chosen_by_outcome(share, others):
        of += f" + {others_lost}"
    elif not share.part:
        return of  # `bounds_of_none` has the interval
    median = row["loss_rate.median"]
    lost = f", {100 * median:.3g} % lost" if share.part and median > 0 else ""
    return f"{of} ({interval(share, others)}){lost}"


def tables() -> dict[str, pd.DataFrame]:
    """The cells of each system, by its published runs."""
    files = {system: RESULTS / f"runs/{system}.csv" for system in NAMES}
    return {name: cells_of(pd.read_csv(file)) for name, file in files.items() if file.exists()}


def written(known: dict[str, pd.DataFrame]) -> str:
    """The page as the published tables have it."""
    runs = pd.read_csv(RUNS, dtype={"version": str}) if RUNS.exists() else None
    own = [] if runs is None else runs_in_words(runs)
    summary = "\n".join([*beside(known), ""]) if known else ""
    text = summary + page(known) + "\n" * bool(known) + "\n".join([*own, *published(known)])
    whole = PAGE.read_text(encoding="utf-8")
    for begin, new in ((ANSWER, f"{answer(known)}\n"), (BEGIN, f"\n{text}\n")):
        before, _, rest = whole.partition(begin)
        whole = f"{before}{begin}{new}{END}{rest.partition(END)[2]}"
    return whole


def as_csv(known: Mapping[str, pd.DataFrame]) -> str:
    """The table beside the page."""
    return all_cells(known).to_csv(index=False, float_format="%.6g")


def write() -> None:
    """Write the page, its table and its picture again."""
    known = tables()
    PAGE.write_text(written(known), encoding="utf-8")
    CELLS.write_text(as_csv(known), encoding="utf-8")
    PICTURE.write_bytes(png(drawn(known)))


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[f.stem for f in CAMPAIGNS.glob("*.toml")])
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "runs/systems")
    parser.add_argument("--publish", type=Path)
    parser.add_argument("--runs", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true")
    given, ended = parser.parse_args(), True
    if given.runs:
        RESULTS.mkdir(parents=True, exist_ok=True)
        latest(given.runs).to_csv(RUNS, index=False)
    if not (given.publish or given.write or given.runs):
        files = [f for f in sorted(CAMPAIGNS.glob("*.toml")) if f.stem in (given.only or f.stem)]
        ended = run(files, given.out, repetitions=given.repetitions, workers=given.workers)
    if not (given.write or given.runs):
        publish(given.publish or given.out)
    write()
    return 0 if ended else 1


if __name__ == "__main__":
    sys.exit(main())

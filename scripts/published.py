"""The published tables follow the rules of today: what they print of each share is computed again.

    python scripts/published.py                      1 where a file differs from what would be
                                                     written
    python scripts/published.py --write [FOLDER ...] write; the runs there that lost writes first
                                                     get their rows in causes.csv

The runs of published campaigns are not kept, but `tables/cells.csv` has the counts that a share and
its bounds need. Computed again are the share's columns there, and the tables of README.md and
docs/evidence/results/README.md. `tables/causes.csv` has why writes of single runs were lost, which
docs/evidence/causes.md adds up, by system and by plan. Tables of the first versions, which lack
these counts, stay as they are.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

import ackloss
from analysis.statistics.intervals import (
    CLOPPER_PEARSON,
    CONFIDENCE,
    Share,
    bounds,
    chosen_by_outcome,
    limits_over_all,
    share_in_words,
)
from harness.protocols import UNEXPLAINED

ROOT: Final = Path(__file__).parents[1]
SETTINGS: Final = ROOT / "docs/evidence/results/2026-11-23-isr-settings/tables/cells.csv"
VERSIONS: Final = ROOT / "docs/evidence/results/2026-11-26-versions/tables/cells.csv"
UPGRADES: Final = ROOT / "docs/evidence/results/2026-11-28-upgrades/tables/cells.csv"
CAUSES: Final = ROOT / "docs/evidence/results/2026-11-28-causes/tables/causes.csv"
BEGIN, END = "<!-- written by scripts/published.py -->\n", "<!-- to here -->\n"
HEADS: Final = {"docs/evidence/results/2026-11-24-delivery": "skipped"}
COUNTS: Final = ("conclusive_lossy", "conclusive", "inconclusive_lossy", "inconclusive")
SYSTEMS: Final = {"kafka": "Kafka", "zookeeper": "ZooKeeper"}
NAMES: Final = {"3.9.2-zookeeper": "3.9.2, ZooKeeper", "3.9.2-kraft": "3.9.2, KRaft"}


def counts(row: Any) -> tuple[Share, Share]:
    """The share of the conclusive runs of a cell, and that of the others."""
    lossy, conclusive, others_lossy, others = (int(row[name]) for name in COUNTS)
    return Share(lossy, conclusive), Share(others_lossy, others)


def shown(share: Share, others: Share) -> dict[str, Any]:
    """The columns of the share that pages print."""
    chosen = chosen_by_outcome(share, others)
    low, high, at = None, None, share.value
    if chosen:
        low, high = limits_over_all(share, others)
        at = (share.part + others.part) / (share.whole + others.whole)
    elif share.whole:
        low, high = bounds(share, method=CLOPPER_PEARSON, confidence=CONFIDENCE)
    limits = {"shown": at, "shown_low": low, "shown_high": high}
    return {"chosen_by_outcome": chosen, **limits}


def with_shares(file: Path) -> str:
    """The text of a cells.csv with what is printed of each share."""
    cells = pd.read_csv(file, dtype=str, keep_default_na=False)
    if "inconclusive_lossy" not in cells:
        return file.read_text(encoding="utf-8")
    head = HEADS.get(file.parents[1].relative_to(ROOT).as_posix(), "lost")
    rows = cells.to_dict("records")
    words = [share_in_words(*counts(row), head=head) for row in rows]
    cells["lossy_share.in_words"] = words
    for name in ("chosen_by_outcome", "shown", "shown_low", "shown_high"):
        column = [_text(shown(*counts(row))[name]) for row in rows]
        place = list(cells).index("lossy_share.in_words") + 1
        cells = cells.drop(columns=f"lossy_share.{name}", errors="ignore")
        cells.insert(min(place, cells.shape[1]), f"lossy_share.{name}", column)
    return _csv(cells)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:.17g}"


def _csv(cells: pd.DataFrame) -> str:
    def row(values: list[str]) -> str:
        return ",".join(
            value if _is_number(value) else f'"{value.replace(chr(34), chr(34) * 2)}"'
            for value in values
        )

    return "".join(f"{row(values)}\n" for values in [list(cells), *cells.to_numpy().tolist()])


def _is_number(text: str) -> bool:
    return (
        text in ("true", "false", "")
        or text.replace("-", "").replace("e", "").replace(".", "").isdigit()
    )


def cell_named(cells: pd.DataFrame, name: str) -> Any:
    """The first row that has these pairs in its name; `None` if no row has them."""
    pairs = set(name.split(", "))
    found = cells[cells["name"].map(lambda name: pairs <= set(name.split(", ")))]
    return found.iloc[0] if len(found) else None


def cell(cells: pd.DataFrame, **keys: str) -> str:
    """One cell of a table: counts and interval, bold where acknowledged writes were lost."""
    found = cell_named(cells, ", ".join(_pairs(keys)))
    if found is None or found["impossible"] == found["impossible"]:
        return "—"
    return in_words(found)


def in_words(row: Any) -> str:
    """Its counts and interval, bold where acknowledged writes were lost."""
    share, others = counts(row)
    if not share.whole:
        return f"none counts; {others.part}/{others.whole} others"
    text = f"{share.part}/{share.whole}"
    if chosen_by_outcome(share, others):
        text += f" + {others.part}/{others.whole} others"
    text += f" ({interval(share, others)})"
    if others.part and not chosen_by_outcome(share, others):
        text += " †"
    return f"**{text}**" if share.part or others.part else text


def interval(share: Share, others: Share) -> str:
    """The limits of a share, in whole per cent and never narrower than they are; one of them where
    all runs, or none, are so."""
    limits = shown(share, others)
    low, high = math.floor(100 * limits["shown_low"]), math.ceil(100 * limits["shown_high"])
    if limits["chosen_by_outcome"] or share.part not in (0, share.whole):
        return f"{low}–{high} %"
    return f"≥ {low} %" if share.part else f"≤ {high} %"


def _pairs(keys: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in keys.items()]


COMBINATIONS: Final = tuple(
    {"unclean": unclean, "min_isr": least, "acks": acks}
    for acks, unclean in (("all", "true"), ("all", "false"), ("1", "false"))
    for least in ("1", "2")
)


def _words(keys: Mapping[str, str]) -> str:
    state = "on" if keys["unclean"] == "true" else "off"
    return f"acks={keys['acks']}, unclean {state}, min {keys['min_isr']}"


def by_settings() -> Iterator[str]:
    """Six combinations of settings under three faults."""
    cells = pd.read_csv(SETTINGS)
    yield "| settings | schedule of 2013 | leader killed | storm |"
    yield "|---|---|---|---|"
    for keys in COMBINATIONS:
        row = [cell(cells, **keys, faults=faults) for faults in ("aphyr", "kill", "storm")]
        yield f"| {_words(keys)} | {' | '.join(row)} |"


def by_version() -> Iterator[str]:
    """The same combinations on each version."""
    cells = pd.read_csv(VERSIONS)
    yield f"| Kafka | {' | '.join(_words(keys) for keys in COMBINATIONS)} |"
    yield f"|{'---|' * (len(COMBINATIONS) + 1)}"
    for version in dict.fromkeys(cells["key.version"]):
        name = NAMES.get(version, version.replace("-elr", " with ELR"))
        row = [cell(cells, version=version, **keys) for keys in COMBINATIONS]
        yield f"| {name} | {' | '.join(row)} |"


def by_upgrade() -> Iterator[str]:
    """Both settings by what is done to the nodes, all pairs of versions together."""
    cells = pd.read_csv(UPGRADES)
    cells = cells[cells["runs"] > 0]
    sums = cells.groupby(["key.way", "key.settings"])[list(COUNTS)].sum()
    settings = list(dict.fromkeys(cells["key.settings"]))
    yield f"| nodes | {' | '.join(settings)} |"
    yield f"|{'---|' * (len(settings) + 1)}"
    for way in dict.fromkeys(cells["key.way"]):
        row = [in_words(sums.loc[(way, each)]) for each in settings]
        yield f"| {way} | {' | '.join(row)} |"


def by_cause() -> Iterator[str]:
    """Why writes were lost, by system; after a plus the same by the deposed leader."""
    rows = pd.read_csv(CAUSES)
    runs, unknown = rows["run"].nunique(), rows[rows["cause"] == UNEXPLAINED]["writes"].sum()
    lost = rows["writes"].sum()
    yield f"**{lost:,} lost writes of {runs} runs and cells, {unknown} unexplained.**"
    yield ""
    yield "| system | runs | lost | causes | unexplained |"
    yield "|---|---|---|---|---|"
    for version, found in sorted(rows.groupby("version"), key=lambda each: _in_order(str(each[0]))):
        counts = found.groupby("cause", sort=False)["writes"].sum().to_dict()
        lost, unknown = sum(counts.values()), counts.pop(UNEXPLAINED, 0)
        words = dict[str, str]()
        for cause, count in counts.items():
            name = str(cause).removesuffix("-deposed")
            words[name] = f"{words.get(name, name)} {'+ ' if name != cause else ''}{count:,}"
        yield (
            f"| {version} | {found['run'].nunique()} | {lost:,} | {'; '.join(words.values())} "
            f"| {unknown} |"
        )


def by_plan() -> Iterator[str]:
    """How many writes were lost by plan and version of Kafka, of the plans that ran on several."""
    rows = pd.read_csv(CAUSES)
    rows = rows[rows["version"].str.startswith("Kafka ")]
    lost = rows.groupby(["plan", "version"])["writes"].sum().unstack().astype("Int64")
    lost = lost[lost.notna().sum(axis=1) > 2].dropna(axis=1, how="all")
    versions = sorted(map(str, lost), key=_in_order)
    yield "Lost writes of Kafka's plans that ran on three versions or more, over all runs:"
    yield ""
    yield f"| plan | {' | '.join(version.removeprefix('Kafka ') for version in versions)} |"
    yield f"|{'---|' * (len(versions) + 1)}"
    for plan, row in lost[versions].iterrows():
        cells = ("" if pd.isna(count) else f"{count:,}" for count in row)
        yield f"| {plan} | {' | '.join(cells)} |"


def add_causes(folders: list[Path]) -> None:
    """Add a row for each cause of each run, or cell, below these folders that lost writes."""
    rows = []
    for file in sorted(file for folder in folders for file in folder.rglob("result.json")):
        run = ackloss.load_run(file.parent)
        causes = {**(run.result.causes or {}), UNEXPLAINED: run.result.unexplained}
        target = run.plan["target"]
        version = (
            f"{SYSTEMS.get(target['system'], target['system'])} {run.metadata.versions['target']}"
        )
        if target.get("metadata") == "zookeeper" and version == "Kafka 3.9.2":
            version += ", ZooKeeper"
        name = file.parent.name
        if file.parents[1].name == "cells":
            name = f"{file.parents[2].name}.{name}"
        rows += [
            {"plan": run.plan["name"], "version": version, "run": name, "cause": cause, "writes": n}
            for cause, n in causes.items()
            if n
        ]
    every = pd.concat([pd.read_csv(CAUSES), pd.DataFrame(rows)])
    every = every.drop_duplicates(["run", "cause"], keep="last")
    every.sort_values(["plan", "version", "run", "cause"]).to_csv(CAUSES, index=False)


def _in_order(version: str) -> tuple[bool, str, list[int], str]:
    """Kafka first, and versions by their numbers."""
    system = version.split()[0]
    return system != "Kafka", system, [int(part) for part in re.findall(r"\d+", version)], version


def written() -> Iterator[tuple[Path, str]]:
    """Every file, as it should be."""
    for file in sorted((ROOT / "docs/evidence/results").glob("*/tables/cells.csv")):
        yield file, with_shares(file)
    for name, lines in (
        ("README.md", by_settings()),
        ("docs/evidence/results/README.md", by_version()),
        ("docs/how-to/upgrades.md", by_upgrade()),
        ("docs/evidence/causes.md", [*by_cause(), "", *by_plan()]),
    ):
        text = (ROOT / name).read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        yield ROOT / name, before + BEGIN + "\n".join(lines).rstrip() + "\n" + END + after


def main(arguments: list[str]) -> int:
    """See above."""
    write, folders = arguments[:1] == ["--write"], [Path(each) for each in arguments[1:]]
    if folders:
        add_causes(folders)
    differing = [
        (file, text) for file, text in written() if file.read_text(encoding="utf-8") != text
    ]
    for file, text in differing:
        print(file.relative_to(ROOT))
        if write:
            file.write_text(text, encoding="utf-8")
    return int(bool(differing) and not write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

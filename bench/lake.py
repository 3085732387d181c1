"""A lake of many runs, asked for the loss rate of each cell by Spark and, as a peer, by DuckDB.

The rows are made from a seed in the shape of real ones: 30 campaigns of 48 cells, of which a few
have most runs; verdicts that are unknown or missing, with null where nothing is known; loss rates
that are 0 in most runs. Spark answers as users ask it, by `ackloss lake query` from its start to
its answer; DuckDB reads the files that Delta names, in a process of its own. Both answers must be
what pyarrow computes from the rows as they were made.

    python -m bench.lake [RUNS]        default: 1,000,000
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from analysis.lake import delta
from analysis.lake.delta import CAMPAIGN, CELLS, LakeCampaign, folder_of, open_lake, open_or_new

RUNS: Final = 1_000_000
CAMPAIGNS: Final = 30
AT_MOST_S: Final = 20.0
SEED: Final = 2013
AXES: Final = {
    "unclean": ("true", "false"),
    "min_isr": ("1", "2", "3"),
    "acks": ("1", "all"),
    "faults": ("aphyr", "kill", "storm", "none"),
}
KEYS: Final = [dict(zip(AXES, labels, strict=True)) for labels in itertools.product(*AXES.values())]
NAMES: Final = [", ".join(f"{axis}={label}" for axis, label in key.items()) for key in KEYS]
SQL: Final = """
    SELECT cell, count(*) AS runs, count_if(conclusive) AS conclusive,
           count_if(conclusive AND class = 'loss') AS lossy,
           sum(CASE WHEN conclusive THEN lost END) AS lost,
           avg(CASE WHEN conclusive THEN loss_rate END) AS loss_rate
    FROM cells GROUP BY cell
"""
BY_DUCKDB: Final = """
import sys, duckdb, orjson
cells = duckdb.read_parquet(sys.argv[2:])
rows = duckdb.sql(sys.argv[1]).to_arrow_table().to_pylist()
sys.stdout.buffer.write(orjson.dumps({"rows": rows}, default=int))
"""
Answer = dict[str, tuple[int | float | None, ...]]
CLASSES: Final = ("none", "loss", "unknown", "vacuous", "harness_failure")
VERDICTS: Final = ("valid", "invalid", "unknown", "unknown", None)


def made(runs: int, rng: np.random.Generator) -> pa.Table:
    """Rows of `cells`."""
    skewed = 1 / np.arange(1, len(KEYS) + 1)
    cell = rng.choice(len(KEYS), runs, p=skewed / skewed.sum())
    chance = rng.permutation(np.linspace(0, 0.9, len(KEYS)) ** 3)[cell]
    kind = np.where(rng.random(runs) < chance, 1, 0)
    kind = np.where(rng.random(runs) < 0.08, rng.integers(2, len(CLASSES), runs), kind)
    conclusive, failed = kind < 2, kind == 4
    acknowledged = np.where(rng.random(runs) < 0.001, 0, rng.integers(1, 5_000, runs))
    lost = np.where(kind == 1, np.ceil(rng.beta(2, 3, runs) * acknowledged), 0).astype(np.int64)
    rate = lost / np.maximum(acknowledged, 1)
    known: dict[str, Any] = {
        "run_id": pa.array([f"20260102-030405-{number:06x}" for number in range(runs)]),
        "cell": _taken(NAMES, pa.string(), cell),
        "setting": _taken([list(key.items()) for key in KEYS], pa.map_(*[pa.string()] * 2), cell),
        "class": _taken(CLASSES, pa.string(), kind),
        "verdict": _taken(VERDICTS, pa.string(), kind),
        "reason": _taken([f"because of {name}" for name in CLASSES], pa.string(), kind),
        "doubts": _taken([[], [], ["starved"], ["vacuous"], None], pa.list_(pa.string()), kind),
        "conclusive": pa.array(conclusive),
        "version": _taken(["2.8.2", "3.9.2", "4.3.1"], pa.string(), rng.integers(0, 3, runs)),
        "attempted": pa.array(acknowledged + 20, mask=failed),
        "acknowledged": pa.array(acknowledged, mask=failed),
        "lost": pa.array(lost, mask=failed),
        "loss_rate": pa.array(rate, mask=failed | (acknowledged == 0)),
        "longest_gap_s": pa.array(rng.lognormal(0, 0.5, runs), mask=failed),
    }
    columns = [known.get(field.name, pa.nulls(runs, field.type)) for field in CELLS.schema]
    return pa.table(columns, schema=CELLS.schema)


def _taken(values: Any, kind: pa.DataType, places: Any) -> pa.Array:
    return pa.array(values, kind).take(pa.array(places))


def write(path: Path, tables: Mapping[str, pa.Table]) -> None:
    """Make the lake of these campaigns, by the writer of real ones."""
    for name, rows in tables.items():
        lake = open_or_new(folder_of(path))
        campaign = LakeCampaign(id=name, name="made", plan_hash="", simulated=False)
        lake.replace(delta.CAMPAIGNS, name, None, iter([campaign.row()]))
        place = rows.schema.get_field_index(CAMPAIGN)
        names = pa.repeat(pa.scalar(name), len(rows))
        lake.replace(CELLS, name, None, iter([rows.set_column(place, CAMPAIGN, names)]))


def truth(tables: Mapping[str, pa.Table]) -> Answer:
    """The answer by pyarrow, from the rows as they were made."""
    rows = pa.concat_tables(tables.values())
    counts = rows["conclusive"]
    lossy = pc.and_(counts, pc.equal(rows["class"], "loss"))
    null = pa.scalar(None)
    table = pa.table(
        {
            "cell": rows["cell"],
            "one": pa.array(np.ones(len(rows), np.int64)),
            "conclusive": counts.cast(pa.int64()),
            "lossy": lossy.cast(pa.int64()),
            "lost": pc.if_else(counts, rows["lost"], null),
            "loss_rate": pc.if_else(counts, rows["loss_rate"], null),
        }
    )
    sums = [(name, "sum") for name in ("one", "conclusive", "lossy", "lost")]
    found = table.group_by("cell").aggregate([*sums, ("loss_rate", "mean")])
    names = ("one_sum", "conclusive_sum", "lossy_sum", "lost_sum", "loss_rate_mean")
    return {row["cell"]: tuple(row[name] for name in names) for row in found.to_pylist()}


def asked(engine: str, lake: Path) -> tuple[Answer, float]:
    """The answer of an engine, and its seconds with its start."""
    words = ["-m", "ackloss", "lake", "query", SQL, "--lake", str(lake), "--json"]
    if engine == "duckdb":
        words = ["-c", BY_DUCKDB, SQL, *open_lake(lake).files(CELLS)]
    begun_s = time.monotonic()
    done = subprocess.run([sys.executable, *words], check=True, stdout=subprocess.PIPE)
    took_s = time.monotonic() - begun_s
    rows = orjson.loads(done.stdout)["rows"]
    return {row.pop("cell"): tuple(row.values()) for row in rows}, took_s


def same(answer: Answer, expected: Answer) -> bool:
    """Whether all counts are equal, and all rates up to the order of their summands."""
    return answer.keys() == expected.keys() and all(
        mine == other or (mine and other and math.isclose(mine, other, rel_tol=1e-9))
        for cell in expected
        for mine, other in zip(answer[cell], expected[cell], strict=True)
    )


def main(arguments: list[str]) -> int:
    """Make, ask, compare; 1 where an answer is wrong or takes too long."""
    runs, rng = int(arguments[0]) if arguments else RUNS, np.random.default_rng(SEED)
    missed = False
    with tempfile.TemporaryDirectory(prefix="ackloss-bench-") as scratch:
        lake = Path(scratch) / "lake"
        names = [f"2026-01-{day:02}" for day in range(1, CAMPAIGNS + 1)]
        tables = {name: made(runs // CAMPAIGNS, rng) for name in names}
        begun_s = time.monotonic()
        write(lake, tables)
        size_mb = sum(path.stat().st_size for path in lake.rglob("*.parquet")) / 2**20
        written_s = time.monotonic() - begun_s
        expected = truth(tables)
        rows = sum(map(len, tables.values()))
        print(
            f"{rows:,} runs in {len(expected)} cells, {size_mb:,.0f} MB, {written_s:.1f} s to write"
        )
        for engine in ("spark", "duckdb"):
            answer, took_s = asked(engine, lake)
            right = same(answer, expected)
            missed |= not right or took_s > AT_MOST_S
            verdict = "" if right else "  THE ANSWER IS NOT THE TRUTH"
            bar = "met" if took_s <= AT_MOST_S else "MISSED"
            print(f"  {engine:7} {took_s:6.1f} s  bar {AT_MOST_S:g} s: {bar}{verdict}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

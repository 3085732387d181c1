"""Checking stored runs: ours beside DuckDB and Python sets, on the same files, all counts compared.

Corpora are made from a seed, with their truth, in a temporary folder that is removed again; half of
the runs lose writes. Ours is the whole command, `ackloss check RUN... --json`, from its start to
its answer, with availability, findings and verdicts; DuckDB is one query for the counts alone, in a
process of its own; sets are what Jepsen's set checker does, over Parquet columns. Memory is the
peak of resident pages, the JVM's included.

    python -m bench.check [--full]         full: 1,000 x 10,000 and 100 x 1,000,000 operations
    python -m bench.check --linear         ours alone: 100, 1,000 and 10,000 x 10,000 operations
    python -m bench.check RUNS OPERATIONS  one corpus of this size
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import orjson
import psutil
import pyarrow.parquet as pq

from bench.made_runs import Counts, make_run

COUNTED: Final = (
    *("attempted", "acknowledged", "failed", "unknown", "survivors", "lost"),
    *("unacknowledged_found", "duplicates", "unexpected"),
)


class Corpus(NamedTuple):
    """How many runs of how many operations, whether their values have gaps and keys, and what is
    asked of us there."""

    name: str
    runs: int
    operations: int
    gapped: bool = True
    keyed: bool = False
    at_most_s: float | None = None
    at_most_ratio: float | None = None
    at_most_mb: float | None = None


FIRST: Final = Corpus("first answer", 1, 2_000, at_most_s=3)
QUICK: Final = (
    FIRST,
    Corpus("many runs", 200, 2_000),
    Corpus("large runs", 4, 250_000),
    Corpus("values in a row", 1, 1_000_000, gapped=False),
    Corpus("keys", 1, 1_000_000, keyed=True),
)
FULL: Final = (
    FIRST,
    Corpus("many runs", 1_000, 10_000, at_most_s=6),
    Corpus("large runs", 100, 1_000_000, at_most_ratio=5, at_most_mb=6_000),
    Corpus("two of five million", 2, 5_000_000, at_most_ratio=5, at_most_mb=6_000),
    Corpus("keys", 2, 5_000_000, keyed=True, at_most_ratio=5, at_most_mb=6_000),
)
LINEAR: Final = tuple(Corpus("a campaign", runs, 10_000) for runs in (100, 1_000, 10_000))
MILLION: Final = 1_000_000
LINEAR_AT_MOST: Final = 1.5
"""Time a run in the largest corpus, beside the one a tenth of its size."""


# --- engines ----------------------------------------------------------------------------------


def by_duckdb(folder: Path) -> dict[str, Counts]:
    """One query over the files of all runs, each of which had one reader: its rows are places."""
    query = f"""
        WITH marks AS (
            SELECT run_id, key, value,
                   CASE type WHEN 'invoke' THEN 1 WHEN 'ok' THEN 2 WHEN 'fail' THEN 4 ELSE 8 END
                       AS mark
            FROM read_parquet('{folder}/*/history/part-*.parquet')
            WHERE process >= 0 AND f = 'append'
            UNION ALL
            SELECT run_id, key, value, 16
            FROM read_parquet('{folder}/*/reads/part-*.parquet')
        ), outcomes AS (
            SELECT run_id, bit_or(mark) AS marks, count(*) FILTER (mark = 16) AS copies
            FROM marks GROUP BY run_id, key, value
        )
        SELECT run_id,
               count(*) FILTER (marks & 15 <> 0),
               count(*) FILTER (marks & 2 <> 0),
               count(*) FILTER (marks & 14 = 4),
               count(*) FILTER (marks & 10 = 8),
               count(*) FILTER (marks & 15 <> 0 AND marks & 16 <> 0),
               count(*) FILTER (marks & 18 = 2),
               count(*) FILTER (marks & 18 = 16 AND marks & 15 <> 0),
               sum(greatest(copies - 1, 0)),
               count(*) FILTER (marks = 16)
        FROM outcomes GROUP BY run_id
    """
    with tempfile.TemporaryDirectory(prefix="ackloss-bench-") as spill:
        duckdb.execute(f"SET temp_directory = '{spill}'")
        rows = duckdb.execute(query).fetchall()
    return {run_id: dict(zip(COUNTED, map(int, counts), strict=True)) for run_id, *counts in rows}


def by_sets(folder: Path) -> dict[str, Counts]:
    """Python's sets, run by run."""
    return {path.name: _sets_of(path) for path in sorted(folder.iterdir())}


def _sets_of(run: Path) -> Counts:
    ended: dict[str, set[int]] = {"invoke": set(), "ok": set(), "fail": set(), "info": set()}
    for part in sorted(run.glob("history/part-*.parquet")):
        table = pq.read_table(part, columns=["type", "value"])
        for kind, value in zip(
            *(table[name].to_pylist() for name in ("type", "value")), strict=True
        ):
            ended[kind].add(value)
    copies: dict[int, set[tuple[int, int]]] = {}
    for part in sorted(run.glob("reads/part-*.parquet")):
        table = pq.read_table(part, columns=["value", "partition", "offset"])
        columns = (table[name].to_pylist() for name in ("value", "partition", "offset"))
        for value, partition, offset in zip(*columns, strict=True):
            copies.setdefault(value, set()).add((partition, offset))
    read, ok = set(copies), ended["ok"]
    attempted = ended["invoke"] | ok | ended["fail"] | ended["info"]
    return {
        "attempted": len(attempted),
        "acknowledged": len(ok),
        "failed": len(ended["fail"]),
        "unknown": len(ended["info"]),
        "survivors": len(read & attempted),
        "lost": len(ok - read),
        "unacknowledged_found": len(read & attempted - ok),
        "duplicates": sum(len(places) - 1 for places in copies.values()),
        "unexpected": len(read - attempted),
    }


ENGINES: Final[Mapping[str, Callable[[Path], dict[str, Counts]]]] = {
    "duckdb": by_duckdb,
    "sets": by_sets,
}


# --- measuring --------------------------------------------------------------------------------


class Measured(NamedTuple):
    """What an engine said, how long it took, and the memory it held."""

    counts: dict[str, Counts]
    took_s: float
    peak_mb: float


def measured(command: list[str], counts_of: Callable[[Any], dict[str, Counts]]) -> Measured:
    """Run a command that prints JSON; its processes' memory is looked at all the while. What
    Python has compiled is kept, as it is where the setting of this machine does not forbid it."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    begun = time.monotonic()
    peak = 0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env=environment)
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(0.05)
        took_s = time.monotonic() - begun
        output.seek(0)
        body = output.read()
    return Measured(counts_of(orjson.loads(body)), took_s, peak / 2**20)


def _resident(pid: int) -> int:
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def _counts_of_ours(document: Any) -> dict[str, Counts]:
    results = document.get("results", [document])
    return {
        result["run_id"]: {name: result["counts"][name] for name in COUNTED} for result in results
    }


def compare(corpus: Corpus) -> bool:
    """Let all engines count a corpus, print them side by side; whether all is well."""
    engines, fair = counted(corpus, ENGINES)
    return bars(corpus, engines) and fair


def grows_linearly() -> bool:
    """Campaigns of ten times as many runs each: whether a run takes as long in all of them."""
    a_run_s, fair = [], True
    for corpus in LINEAR:
        engines, right = counted(corpus, ())
        fair = fair and right
        a_run_s.append(engines["ours"].took_s / corpus.runs)
    ratio = a_run_s[-1] / a_run_s[-2]
    say(f"  a run takes {ratio:.2f} of what it takes in a tenth of the runs")
    _extrapolate([corpus.runs for corpus in LINEAR], a_run_s)
    say(f"  bar {LINEAR_AT_MOST:g}: {'met' if ratio <= LINEAR_AT_MOST else 'MISSED'}")
    return fair and ratio <= LINEAR_AT_MOST


def _extrapolate(runs: Sequence[int], a_run_s: Sequence[float]) -> None:
    """Print what a million runs would take: by the largest campaign, and by a line through all of
    them, whose difference is the error that can be seen here."""
    number = np.array(runs, np.float64)
    slope, start_s = np.polyfit(number, number * np.array(a_run_s), 1, w=1 / number)
    by_line_s, by_last_s = start_s + MILLION * slope, MILLION * a_run_s[-1]
    low, high = sorted((by_line_s, by_last_s))
    say(f"  {MILLION:,} runs, extrapolated: {low / 3600:.2f} to {high / 3600:.2f} hours")


def counted(corpus: Corpus, engines: Iterable[str]) -> tuple[dict[str, Measured], bool]:
    """Make a corpus and let ours and these engines count it; whether all tell the truth."""
    with tempfile.TemporaryDirectory(prefix="ackloss-bench-") as scratch:
        folder = Path(scratch)
        with ProcessPoolExecutor() as pool:
            shape = {"gapped": corpus.gapped, "keyed": corpus.keyed}
            make = partial(make_run, folder, corpus.operations, **shape)
            truth = dict(pool.map(make, range(corpus.runs), chunksize=4))
        runs = sorted(str(path) for path in folder.iterdir())
        say(f"{corpus.name}: {corpus.runs:,} x {corpus.operations:,} operations")
        ours = [sys.executable, "-m", "ackloss", "check", *runs, "--json"]
        results = {"ours": measured(ours, _counts_of_ours)}
        fair = is_right("ours", results["ours"], corpus, truth)
        for name in engines:
            command = [sys.executable, "-m", "bench.check", name, scratch]
            results[name] = measured(command, lambda counts: counts)
            fair = is_right(name, results[name], corpus, truth) and fair
    return results, fair


def is_right(name: str, engine: Measured, corpus: Corpus, truth: dict[str, Counts]) -> bool:
    """Print what an engine took; whether its counts are the truth."""
    right = engine.counts == truth
    rate = corpus.runs * corpus.operations / engine.took_s
    say(
        f"  {name:7} {engine.took_s:8.1f} s  {engine.peak_mb:7,.0f} MB  {rate:12,.0f} operations/s"
        f"  {'' if right else 'COUNTS DIFFER FROM THE TRUTH'}"
    )
    return right


def bars(corpus: Corpus, engines: Mapping[str, Measured]) -> bool:
    """Print the ratios and what is asked; whether it is met."""
    ours = engines["ours"]
    ratio = ours.took_s / engines["duckdb"].took_s
    of_sets = ours.took_s / engines["sets"].took_s
    say(f"  ours takes {ratio:.1f} x DuckDB, {of_sets:.2f} x Python sets")
    asked = (
        (corpus.at_most_s, ours.took_s, "s"),
        (corpus.at_most_ratio, ratio, "x DuckDB"),
        (corpus.at_most_mb, ours.peak_mb, "MB"),
    )
    met = True
    for limit, value, unit in asked:
        if limit is not None:
            met = met and value <= limit
            say(f"  bar {limit:,g} {unit}: {'met' if value <= limit else f'MISSED ({value:,.1f})'}")
    return met


def say(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str]) -> int:
    """The corpora that were asked for; 1 if a count differs or a bar is missed."""
    if arguments and arguments[0] in ENGINES:
        counts = ENGINES[arguments[0]](Path(arguments[1]))
        sys.stdout.buffer.write(orjson.dumps(counts))
        return 0
    if arguments == ["--linear"]:
        return 0 if grows_linearly() else 1
    if len(arguments) == 2:
        corpora: tuple[Corpus, ...] = (Corpus("corpus", int(arguments[0]), int(arguments[1])),)
    else:
        corpora = FULL if arguments == ["--full"] else QUICK
    outcomes = [compare(corpus) for corpus in corpora]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""This checkout against another one, in turns: does a change cost speed?

CPU seconds (user and system) of the same work in both: the interpreter with a client that does
nothing, recorded; recording alone; the final read of a log that a fake broker serves, whose own
time is not counted; a campaign of cells on the memory system, whose load takes its time on the
clock, so that what its cells cost is what decides how many an hour a machine runs; judging one
large run and many small ones from their folders; starting the command line. What the first three
import is not counted: that is start-up, which the last two measure. All find their modules
compiled, from the second round on at the latest. All processes of a command count, also Spark's,
which outlive it: this process adopts them (Linux only). Both checkouts are set up by their
`scripts/setup dev`, since what they need may differ; the other one is a folder with an older
commit, as made by `git worktree add`. Rounds alternate. On a shared machine the same work takes up
to twice the CPU time while a neighbour is busy, and never less than it needs, so the fastest rounds
of both are compared (as `timeit` advises); medians are printed beside. Bar: at most 1.05.

    python -m bench.against OTHER_CHECKOUT [ROUNDS]
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.made_runs import make_run

HERE: Final = Path(__file__).parents[1]
BAR: Final = 1.05
ROUNDS: Final = 7
JUDGED_OPERATIONS: Final = 4_000_000
JUDGED_RUNS: Final = 1_000
RUN_OPERATIONS: Final = 2_000
OPERATIONS: Final = 1_500_000
RECORDS: Final = 1_000_000
READS: Final = 5
CELLS: Final = 8
_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h

# Each prints the CPU seconds that are not its work. Names are taken from `bench.interpreter`, since
# modules have moved between commits.
INTERPRETER: Final = f"""
import tempfile, threading, time
from pathlib import Path
from bench import interpreter as bench
from harness.plan import parse_plan

class Counted(bench.NothingClient):
    left = {OPERATIONS}
    def poll(self, timeout_s, done):
        self.left -= len(self._answered)
        if self.left <= 0:
            stop.set()
        super().poll(timeout_s, done)

stop = threading.Event()
plan = parse_plan({{
    "schema": 1, "name": "b", "topic": {{"partitions": 3}},
    "workload": {{"processes": 5000, "rate_per_s": 0, "duration_s": 600}},
}})
run = getattr(bench, "run_workload", None) or bench.play_workload
print(time.process_time())
with tempfile.TemporaryDirectory() as folder:
    with bench.Recorder(Path(folder), run_id="b") as recorder:
        how = dict(plan=plan, recorder=recorder, clock=bench.RunClock(), stop=stop)
        run(bench.Append(), Counted(), **how)
"""
RECORDING: Final = f"""
import tempfile, time
from pathlib import Path
from bench.interpreter import OK, Append, Recorder, completion

script, ended = Append().script(0, 1, 3, 0), completion(OK, 7)
print(time.process_time())
with tempfile.TemporaryDirectory() as folder:
    with Recorder(Path(folder), run_id="b") as recorder:
        op = next(script)
        for n in range({OPERATIONS}):
            recorder.invoke(n % 5000, op, n * 900, n * 900)
            recorder.complete(n % 5000, op, ended, n * 900, n * 950)
            op = script.send(ended)
            if n % 1000 == 0:
                recorder.hand_over()
"""
FINAL_READ: Final = f"""
import resource, time
from bench.final_read import OURS, by_readers, served, uneven
from harness.plan import parse_plan

values = uneven({RECORDS})
plan = parse_plan({{"schema": 1, "name": "b", "topic": {{"partitions": 1}}}})
with served(values) as address:
    begun = time.process_time()
    for _ in range({READS}):
        read = by_readers(OURS, address, len(values), plan)
    took = time.process_time() - begun
assert (read.values == values).all()
broker = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.process_time() - took + broker.ru_utime + broker.ru_stime)
"""
CAMPAIGN: Final = f"""
import subprocess, tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    file, plan = Path(folder, "campaign.toml"), Path("plans/memory/cells.toml").absolute()
    file.write_text(f'schema = 1\\nname = "b"\\nplan = "{{plan}}"\\nrepetitions = {CELLS // 4}\\n')
    command = [".venv/bin/ackloss", "campaign", "run", str(file), "--workers", "1"]
    done = subprocess.run([*command, "--out", str(Path(folder, "out"))], stdout=2)
    assert done.returncode == 1, "cells that are to lose have not lost"
    assert len([*Path(folder, "out").glob("runs/*/cells/*/result.json")]) == {CELLS}
print(0)
"""


def works(run: Path, runs: list[Path]) -> Mapping[str, list[str]]:
    """The commands, by what they measure."""
    ackloss = [".venv/bin/ackloss"]  # its own script: where the command line lives has moved
    return {
        "interpreter and recorder": ["-c", INTERPRETER],
        "recorder": ["-c", RECORDING],
        f"{READS} final reads of {RECORDS:,} records": ["-c", FINAL_READ],
        f"a campaign of {CELLS} cells": ["-c", CAMPAIGN],
        f"judging {JUDGED_OPERATIONS:,} operations": [*ackloss, "check", str(run), "--json"],
        f"judging {JUDGED_RUNS:,} runs of {RUN_OPERATIONS:,} operations": [
            *[*ackloss, "check", "--json"],
            *map(str, runs),
        ],
        "ackloss --help": [*ackloss, "--help"],
        "ackloss plan validate": [*ackloss, "plan", "validate", "plans/kafka-safe.toml"],
    }


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def await_orphans() -> None:
    """Wait for all children, so that their time is counted as ours."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def cpu_s(checkout: Path, argv: list[str]) -> float:
    """CPU seconds of one command in a checkout, all its descendants included, without those that
    a snippet prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [".venv/bin/python", *argv], cwd=checkout, env=environment, check=False, capture_output=True
    )
    judged = "check" in argv and b'"verdict"' in done.stdout
    if done.returncode and not judged:  # 1 and 3 are answers of `check`, and of nothing else
        raise RuntimeError(f"{argv[:3]} in {checkout}: {done.stderr.decode()}")
    await_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    imported_s = float(done.stdout) if argv[0] == "-c" else 0.0
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - imported_s


def measure(other: Path, rounds: int, work: str, argv: list[str]) -> bool:
    """Take turns, print both and the ratio of the fastest; whether it meets the bar."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        sides = [(HERE, ours), (other, theirs)]
        for checkout, seconds in sides if number % 2 else sides[::-1]:
            seconds.append(cpu_s(checkout, argv))
    ratio = min(ours) / min(theirs)
    print(
        f"{work}: {min(ours):.2f} s, there {min(theirs):.2f} s; ratio {ratio:.3f} "
        f"(medians {statistics.median(ours):.2f} and {statistics.median(theirs):.2f} s)",
        flush=True,
    )
    return bool(ratio <= BAR)


def main() -> int:
    """Print a line for each kind of work; 1 when one misses the bar."""
    if len(sys.argv) < 2:
        print("usage: python -m bench.against OTHER_CHECKOUT [ROUNDS]; nothing to compare with")
        return 0
    adopt_orphans()
    other, rounds = Path(sys.argv[1]).resolve(), int((*sys.argv, str(ROUNDS))[2])
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / make_run(Path(folder), JUDGED_OPERATIONS, 1)[0]
        small = Path(folder) / "small"
        small.mkdir()
        runs = [small / make_run(small, RUN_OPERATIONS, n)[0] for n in range(JUDGED_RUNS)]
        met = [measure(other, rounds, *work) for work in works(large, runs).items()]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

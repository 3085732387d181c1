"""How late operations begin on a full machine, with the load generator first and like others.

A paced load with a client that does nothing, beside twelve processes that compute, each in a
session of its own (Linux shares the processors among sessions first, as it does among containers).
Printed for each side, the rounds in turns: how late operations began, and for how long the loop was
held up in all. Bar: with priority, the median of the rounds' 99th percentiles is at most a tenth.

    python -m bench.priority [ROUNDS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from bench.interpreter import NothingClient
from harness.machine.priority import ORDINARY, REAL_TIME, Policy, ahead_of_others, finding
from harness.plan import parse_plan
from harness.protocols import Status
from harness.protocols.clock import RunClock
from harness.run.interpreter import run_workload
from harness.run.recorder import Recorder
from workloads.append import Append

ROUNDS: Final = 5
NEIGHBOURS: Final = 12
RATE_PER_S: Final = 1000
BAR: Final = 0.1
PLAN: Final = parse_plan(
    {
        "schema": 1,
        "name": "bench-priority",
        "topic": {"partitions": 1},
        "workload": {"processes": 1000, "rate_per_s": RATE_PER_S, "duration_s": 5},
    }
)


@contextmanager
def neighbours() -> Iterator[None]:
    """Processes that compute while the context lasts."""
    argv = [sys.executable, "-c", "while True: sum(range(100_000))"]
    busy = [subprocess.Popen(argv, start_new_session=True) for _ in range(NEIGHBOURS)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def one_round(policy: Policy) -> tuple[float, float]:
    """The 99th percentile of the lateness (milliseconds), and how long the loop was held up (s)."""
    first: AbstractContextManager[object] = nullcontext()
    if policy == REAL_TIME:
        first = ahead_of_others(RATE_PER_S)
    with tempfile.TemporaryDirectory() as folder:
        with Recorder(Path(folder), run_id="bench") as recorder, first:
            report = run_workload(
                Append(),
                NothingClient(),
                plan=PLAN,
                recorder=recorder,
                clock=RunClock(),
                stop=threading.Event(),
            )
        columns = ["type", "intended_ns", "time_ns"]
        rows = pq.read_table(folder, columns=columns).to_pandas()
    begun = rows[rows.type == "invoke"]
    late_ms = np.asarray(begun.time_ns - begun.intended_ns) / 1e6
    return float(np.percentile(late_ms, 99)), report.held_up_s


def main() -> int:
    """Print both sides; 1 when the bar is missed."""
    if finding().status is not Status.OK:
        print(f"not measured: {finding().detail}")
        return 0
    rounds = int((*sys.argv, ROUNDS)[1])
    found: dict[Policy, list[tuple[float, float]]] = {ORDINARY: [], REAL_TIME: []}
    with neighbours():
        for _ in range(rounds):
            for policy, results in found.items():
                results.append(one_round(policy))
    medians = {}
    for policy, results in found.items():
        late_ms, held_up_s = zip(*results, strict=True)
        medians[policy] = statistics.median(late_ms)
        print(
            f"{policy}: 99 of 100 operations began within {medians[policy]:.1f} ms "
            f"({min(late_ms):.1f} to {max(late_ms):.1f}); held up for "
            f"{statistics.median(held_up_s):.2f} of 5 s ({max(held_up_s):.2f} at most)"
        )
    return 0 if medians[REAL_TIME] <= BAR * medians[ORDINARY] else 1


if __name__ == "__main__":
    sys.exit(main())

"""Runs are killed with SIGKILL at random instants; after `ackloss clean` the machine must be as
before. `make e2e` does one round, of the plan with most fault families; `make torture` does 50, of
each plan in turn, and prints a table."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from itertools import cycle
from pathlib import Path

import pytest

from tests.fixtures.machine import clean, snapshot, started

pytestmark = [
    pytest.mark.full,
    pytest.mark.e2e,
    pytest.mark.docker,
    pytest.mark.alone,
    pytest.mark.usefixtures("own_state"),
]

ROUNDS = int(os.environ.get("ACKLOSS_TORTURE_ROUNDS", "1"))
PLANS = {
    "plans/faults/every-family.toml": 50.0,
    "plans/faults/power-loss-all-disks.toml": 35.0,
    "plans/faults/unacknowledged-drop.toml": 30.0,
    "plans/groups/group-crash.toml": 40.0,
}
"""The plans, with the seconds within which they are killed. The others have what the first lacks:
disks of their own, a proxy, consumers. Faults by hand need somebody who causes them."""


@pytest.mark.timeout(0)
def test_a_killed_run_leaves_nothing_after_clean(tmp_path: Path) -> None:
    draw = random.Random(ROUNDS)
    phases = []
    for number, (plan, longest_s) in zip(range(ROUNDS), cycle(PLANS.items()), strict=False):
        out = tmp_path / str(number)
        out.mkdir()
        before, offset_ns = snapshot(out), clock_offset_ns()
        run = started(out, plan, f"seed={number}")
        kill_at_s = draw.uniform(0.5, longest_s)
        try:
            run.communicate(timeout=kill_at_s)
        except subprocess.TimeoutExpired:
            os.kill(run.pid, signal.SIGKILL)
            run.communicate(timeout=30)
        phases.append(phase(out))
        when = f"{Path(plan).stem} killed after {kill_at_s:.1f} s"
        print(f"round {number + 1}: {when}, {phases[-1]}", flush=True)
        done = clean()
        assert snapshot(out) == before, (number, done)
        assert abs(clock_offset_ns() - offset_ns) < 50_000_000, "the host's clock was touched"
        assert not [line for line in clean()["removed"] if out.name in line]
    print(f"{ROUNDS} rounds: {', '.join(sorted(set(phases)))}")


def clock_offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


def phase(out: Path) -> str:
    """How far the run had come, by the files that it left."""
    journals = list(out.glob("*/faults.jsonl"))
    text = journals[0].read_text() if journals else ""
    if list(out.glob("*/result.json")):
        return "already judged"
    if text.count('"type":"on"') > text.count('"type":"healed"'):
        return "a fault in force"
    if '"type":"on"' in text:
        return "between or after faults"
    if list(out.glob("*/history/part-*.parquet")):
        return "before the first fault"
    return "while it started"

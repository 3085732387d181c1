"""A target whose nodes cannot be asked who leads runs all the same: nothing is observed of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness import registry
from harness.plan import parse_plan
from harness.protocols import Target
from harness.run.interrupts import Interrupts
from harness.run.resolving import resolve
from harness.run.runner import RunOptions, run_plan
from targets.memory import Memory

PLAN = {
    "schema": 1,
    "name": "leaderless",
    "cluster": {"kind": "memory"},
    "target": {"system": "leaderless"},
    "workload": {"name": "append", "processes": 5, "rate_per_s": 100, "duration_s": 2},
    "faults": [{"id": "kill", "at_s": 0.5, "nemesis": "kill", "nodes": "one", "for_s": 0.5}],
    "final": {"drain_s": 5, "settle_s": 3000, "read_s": 20},
}


class Leaderless(Memory):
    """The reference system, of which no node can be asked who leads."""

    plugin = "leaderless"
    observe = Target.observe
    observe_cells = Target.observe_cells


def test_it_runs_to_its_end_and_nothing_is_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.plugins("targets"), "leaderless", Leaderless)
    resolved = resolve(parse_plan(PLAN))
    assert not resolved.target.does("observe")
    with Interrupts() as interrupts:
        rundir = run_plan(resolved, RunOptions(run_id="r", folder=tmp_path, interrupts=interrupts))
    metadata = rundir.read_json(rundir.run)
    assert metadata["state"] == "done"
    assert metadata["timings"]["read_s"] < 60, "it did not wait for what nobody can see"
    assert not any("in sync" in warning for warning in metadata["warnings"])
    observed = [pq.read_metadata(part).num_rows for part in rundir.parts(rundir.observations)]
    assert sum(observed) == 0
    written = [pq.read_metadata(part).num_rows for part in rundir.parts(rundir.history)]
    assert sum(written) > 200

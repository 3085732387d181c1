"""The reference system with clients that block, behind the threaded adapter, in virtual time."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pyarrow.parquet as pq
import pytest

from harness import registry
from harness.clusters.memory import MemoryCluster, simulated_of
from harness.plan import parse_plan
from harness.protocols import Client, Cluster, Completion, Invoke, completion
from harness.run.client_pool import ThreadedClient
from harness.run.interrupts import Interrupts
from harness.run.resolving import resolve
from harness.run.runner import RunOptions, run_plan
from targets.memory import Memory
from targets.memory.clients import Command, Outcome
from targets.memory.plan import MemoryPlan
from targets.memory.system import system_of

THREADS = 8
PLAN = {
    "schema": 1,
    "name": "blocking",
    "seed": 5,
    "cluster": {"kind": "memory"},
    "target": {"system": "blocking"},
    "workload": {"name": "append", "processes": 20, "rate_per_s": 100, "duration_s": 4},
    "faults": [
        {"id": "kill", "at_s": 1, "nemesis": "kill", "nodes": "leader", "for_s": 1},
        {"id": "cut", "at_s": 2.5, "nemesis": "partition", "nodes": "leader", "for_s": 1},
    ],
    "final": {"drain_s": 5, "settle_s": 20, "read_s": 20},
}


@dataclass
class Appends:
    """A client that returns when its append has ended, as a blocking library does."""

    cluster: MemoryCluster
    number: int

    def call(self, op: Invoke) -> Completion:
        _, value, partition, key, _ = op
        answered, outcomes = threading.Event(), list[Outcome]()

        def end(_: int, outcome: Outcome) -> None:
            outcomes.append(outcome)
            answered.set()

        with self.cluster.simulation.held():
            command = Command("append", key, value, None, partition)
            system_of(self.cluster).requests.submit(self.number, command, end)
        self.cluster.clock.wait(answered, None)
        if outcomes[0].type == "info":
            raise TimeoutError(outcomes[0].error)
        return completion(outcomes[0].type, outcomes[0].position, outcomes[0].error)

    def close(self) -> None:
        """It has no connection."""


@dataclass(frozen=True)
class BlockingMemory(Memory):
    """The reference system, with blocking clients."""

    plugin: ClassVar[str] = "blocking"

    def client(self, cluster: Cluster, plan: MemoryPlan) -> Client:
        simulated = simulated_of(cluster)
        return ThreadedClient(
            lambda number: Appends(simulated, number), threads=THREADS, clock=simulated.clock
        )


def run(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the plan; its operations, and what was read at the end."""
    with Interrupts() as interrupts:
        options = RunOptions(run_id="r", folder=folder, interrupts=interrupts)
        rundir = run_plan(resolve(parse_plan(PLAN)), options)
    history, reads = (
        pd.concat(pq.read_table(part).to_pandas() for part in rundir.parts(folder))
        for folder in (rundir.history, rundir.reads)
    )
    return history[history.process >= 0].sort_values("index", ignore_index=True), reads


def test_a_run_with_blocking_clients_is_whole_and_repeatable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.plugins("targets"), "blocking", BlockingMemory)
    rows, reads = run(tmp_path / "one")
    ended = rows[rows.type != "invoke"]
    assert sorted(ended.value) == sorted(rows[rows.type == "invoke"].value)
    assert set(ended[ended.type == "info"].error) <= {"TimeoutError"}
    acknowledged = set(ended[ended.type == "ok"].value)
    assert len(acknowledged) > 200
    assert acknowledged <= set(reads.value), "nothing that was acknowledged is lost"
    again, _ = run(tmp_path / "two")
    pd.testing.assert_frame_equal(rows, again)

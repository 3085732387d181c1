"""A keyed workload from its client to the verdict: written, stored, read and matched with its keys.
No shipped workload writes any, so a workload of the test's does."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.judging.one_run import judge_run
from harness.history.manifest import write_manifest
from harness.history.run_folder import RunDir
from harness.models import APPEND
from harness.plan import parse_plan
from harness.protocols import Script, invoke
from harness.protocols.clock import RunClock
from harness.run.final_read import read_everything
from harness.run.load import run_workload
from harness.run.recorder import Recorder
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.target import Kafka
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.fake_kafka import fake_kafka, own_host, record_set
from tests.fixtures.producing import WRITERS

BY_NAME = {library.plugin: library for library in WRITERS}
WRITES = 80


@dataclass(frozen=True)
class Keyed:
    """Each process writes some increasing integers, under a few keys in turn; one is none."""

    plugin = "keyed"
    model = "log"

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """See `workloads.append`."""
        for value in range(process, WRITES, processes):
            key = (None, "a", "κ", "")[value // 2 % 4]
            yield invoke(APPEND, value, value % partitions, key)


@pytest.mark.parametrize("library", BY_NAME)
def test_what_was_written_with_a_key_is_found_by_it(library: str, tmp_path: Path) -> None:
    plan = parse_plan(
        {
            "schema": 1,
            "name": "keyed",
            "target": {"brokers": 1},
            "topic": {"partitions": 2, "replication_factor": 1},
            "workload": {"client": library, "processes": 4, "rate_per_s": 200, "duration_s": 60},
        }
    )
    rundir, clock, stop = RunDir.create(tmp_path, "r"), RunClock(), threading.Event()
    rundir.write_json(rundir.plan, plan.document())
    reported = {"schema": 1, "run_id": "r", "state": "done", "seed": plan.seed}
    rundir.write_json(rundir.run, reported)
    rundir.faults.touch()
    with fake_kafka(host=own_host(), port=BROKER_PORT, partitions=2) as fake:
        node = DryRunNode("b1", frozenset({"broker"}), fake.host)
        cluster: Any = SimpleNamespace(nodes={"b1": node})
        with Recorder(rundir.history, run_id="r") as recorder:
            run_workload(
                Keyed(),
                BY_NAME[library].producing(fake.address, plan),
                plan=plan,
                recorder=recorder,
                clock=clock,
                stop=stop,
            )
            fake.stored[0] += record_set(2, [(b"b", b"%010d" % 0)], first=fake.last(0))
            read_everything(Kafka(), cluster, plan, clock, recorder, rundir, stop)
    write_manifest(rundir, "r")
    counts = judge_run(rundir)["counts"]
    assert counts["acknowledged"] == WRITES
    assert counts["lost"] == 0
    assert counts["survivors"] == counts["acknowledged"]
    assert counts["unexpected"] == 1, "a value under a key that it was not written with"


def test_every_library_that_writes_here_is_played() -> None:
    assert BY_NAME.keys() == {*Kafka.libraries} - {"java"}

"""Final scripts: run once after the load, as new processes, until their time is over."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

from harness.plan import parse_plan
from harness.protocols import INFO, OK, Completion, Invoke, Script, completion, invoke
from harness.run.load import LoadReport, run_final, run_workload
from harness.run.recorder import Recorder
from tests.fixtures.virtual import MS, S, VirtualClient, history, invokes

pytestmark = pytest.mark.slow


class Twice:
    """Ends after two operations of its own; `final` reads until it is answered ok."""

    plugin: ClassVar[str] = "twice"
    model: ClassVar[str] = "log"

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        for number in range(2):
            yield invoke("append", process + number * processes, 0)

    def final(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        while (yield invoke("append", 1_000 + process, 0))[0] != OK:
            pass


def finally_run(
    folder: Path, client: VirtualClient, *, stop: threading.Event | None = None
) -> tuple[LoadReport, LoadReport, pd.DataFrame]:
    """The load, then its final scripts over the same kind of client, three seconds later."""
    plan = parse_plan(
        {
            "schema": 1, "name": "t", "workload": {"processes": 3, "duration_s": 1},
            "final": {"read_s": 2, "drain_s": 1},
        },
        file="t",
    )  # fmt: skip
    workload, stop = Twice(), stop or threading.Event()
    with Recorder(folder, run_id="r") as recorder:
        how: dict[str, Any] = {"plan": plan, "recorder": recorder, "clock": client, "stop": stop}
        load = run_workload(workload, client, **how)
        client.now += 3 * S
        report = run_final(workload, client, load, **how)
    return load, report, history(folder)


def test_final_scripts_run_once_as_new_processes_and_are_counted(tmp_path: Path) -> None:
    load, report, rows = finally_run(tmp_path, VirtualClient())
    assert (load.attempted, load.final_attempted, load.final_from_ns) == (6, 0, None)
    assert (report.attempted, report.final_attempted) == (9, 3)
    last = invokes(rows)[6:]
    assert sorted(last.value) == [1_000, 1_001, 1_002]
    assert set(last.process) == {3, 4, 5}, "the processes of the load ended with its client"
    assert report.final_from_ns is not None
    assert (last.intended_ns >= report.final_from_ns).all()
    assert load.ended_ns < report.final_from_ns
    assert report.ended_ns == load.ended_ns, "the load had ended before"
    assert len(rows) == 2 * report.attempted


def test_a_final_operation_without_an_answer_is_info_and_its_process_is_retired(
    tmp_path: Path,
) -> None:
    tries: list[int] = []

    def at_the_second_try(now_ns: int, op: Invoke) -> tuple[int, Completion]:
        if op[1] == 1_001:
            tries.append(now_ns)
        return now_ns + MS, completion(OK if op[1] != 1_001 or len(tries) > 1 else INFO)

    _, report, rows = finally_run(tmp_path, VirtualClient(at_the_second_try))
    assert report.final_attempted == 4
    assert sorted(invokes(rows)[6:].process) == [3, 4, 5, 7]
    assert report.last_process == 7


def test_final_scripts_end_after_their_time_with_every_operation_completed(
    tmp_path: Path,
) -> None:
    def never(now_ns: int, op: Invoke) -> tuple[int, Completion]:
        return now_ns + (60 * S if op[1] >= 1_000 else MS), completion(OK)

    client = VirtualClient(never)
    _, report, rows = finally_run(tmp_path, client)
    assert report.final_attempted == 3
    assert rows[rows.value >= 1_000].type.tolist().count("info") == 3
    assert client.closed
    assert client.now < 20 * S

"""Many cells under one fault, on simulated nodes: each has its own records, and is judged by
itself."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.judging.one_run import judge_run
from harness.history.documents import read_result, read_run
from harness.history.run_folder import RunDir
from harness.plan import load_plan
from harness.protocols import Client, Cluster
from harness.run.interrupts import Interrupts
from harness.run.resolving import resolve
from harness.run.runner import Status
from targets.memory import Memory
from targets.memory.plan import MemoryPlan
from tests.fixtures.memory_cells import CELLS, resolved_cells, run_of_cells

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    rundir = run_of_cells(tmp_path_factory.mktemp("cells"))
    judge_run(rundir)
    return rundir


def verdicts(rundir: RunDir) -> dict[str, str]:
    return {cell.name: cell.verdict for cell in read_result(rundir).cells}


def test_a_planted_defect_is_found_in_its_cell_and_in_no_other(run: RunDir) -> None:
    result = read_result(run)
    assert verdicts(run) == {
        "safe": "valid",
        "unclean": "invalid",
        "early": "invalid",
        "two": "valid",
    }
    assert result.verdict == "invalid"
    assert result.reason == "2 of 4 cells are invalid: unclean, early; 2 of 4 cells are valid"
    assert [cell.counts.lost > 0 for cell in result.cells] == [False, True, True, False]
    assert result.counts.lost == sum(cell.counts.lost for cell in result.cells)
    assert {cell.name: cell.overrides for cell in result.cells} == {
        "safe": {},
        "unclean": {"target.defects": ["unclean-election"]},
        "early": {"target.defects": ["acknowledge-before-replication"]},
        "two": {"target.min_insync": 2},
    }


def test_each_cell_runs_again_alone_from_its_stored_plan(run: RunDir, tmp_path: Path) -> None:
    for cell in cells(run)[:2]:
        again = run_of_cells(tmp_path / cell.path.name, plan=resolve(load_plan(cell.plan)))
        assert read_run(again).settings == read_run(cell).settings
        judge_run(again)
        assert read_result(again).verdict == read_result(cell).verdict


def test_each_cell_writes_its_share_to_partitions_of_its_own(run: RunDir) -> None:
    for cell in run.cells():
        result = read_result(cell)
        assert result.counts.attempted == pytest.approx(600, abs=2)
        assert result.run_id == f"run.{cell.path.name}"
        assert read_run(cell).load.starved is False
        read = pq.read_table(cell.reads)
        assert set(read["partition"].to_pylist()) == {0}
        observed = pq.read_table(cell.observations)
        assert set(observed["partition"].drop_null().to_pylist()) == {0}


def test_all_cells_meet_the_same_faults_at_the_same_instants(run: RunDir) -> None:
    windows = [
        [(fault.id, fault.from_s, fault.to_s, fault.proven) for fault in read_result(cell).faults]
        for cell in run.cells()
    ]
    assert len(windows) == 4
    assert all(each == windows[0] for each in windows)
    assert [proven for _, _, _, proven in windows[0]] == [True] * 3
    begun = [sum(fault.ops_begun or 0 for fault in read_result(c).faults) for c in cells(run)]
    assert sum(fault.ops_begun or 0 for fault in read_result(run).faults) == sum(begun)


def cells(run: RunDir) -> list[RunDir]:
    return run.cells()


def test_the_folder_of_a_cell_is_a_run_that_is_judged_by_itself(
    run: RunDir, tmp_path: Path
) -> None:
    for name in ("safe", "unclean"):
        moved = RunDir(Path(shutil.copytree(run.cell(name).path, tmp_path / name)))
        before = read_result(moved)
        moved.result.unlink()
        document = judge_run(moved)
        assert document["gaps"] == []
        assert (document["verdict"], document["counts"]["lost"]) == (
            before.verdict,
            before.counts.lost,
        )
        assert moved.cell_names() == ()


def test_the_run_has_no_history_of_its_own(run: RunDir) -> None:
    assert run.cell_names() == CELLS
    assert not run.parts(run.history)
    assert run.read_json(run.run)["state"] == "done"
    named = {each["path"] for each in run.read_json(run.manifest)["files"]}
    assert {f"cells/{name}/manifest.json" for name in CELLS} <= named


def test_the_same_seed_gives_the_same_run(run: RunDir, tmp_path: Path) -> None:
    again = run_of_cells(tmp_path)
    judge_run(again)
    assert read_result(again).cells == read_result(run).cells


@pytest.mark.parametrize(
    ("workload", "defect"),
    [("set", "acknowledge-before-replication"), ("register", "stale-reads")],
)
def test_cells_of_every_model_are_judged_by_themselves(
    workload: str, defect: str, tmp_path: Path
) -> None:
    changes = {
        "workload.name": workload,
        "target.commit": "quorum",
        "workload.processes": 20,
        "workload.rate_per_s": 200,
        "cells.1.target": {"defects": [defect]},
        "cells.2.target": {"defects": []},
    }
    rundir = run_of_cells(tmp_path, changes)
    judge_run(rundir)
    found = verdicts(rundir)
    assert found.pop("unclean") == "invalid"
    assert set(found.values()) == {"valid"}
    assert read_result(rundir).model == workload


def test_an_interrupted_run_keeps_the_records_of_all_cells(tmp_path: Path) -> None:
    def soon(status: Status, interrupts: Interrupts) -> None:
        clock = status.clock
        assert clock is not None

        def stop() -> None:
            clock.wait(threading.Event(), 2)
            interrupts.stop.set()

        clock.spawn("stop", stop)

    rundir = run_of_cells(tmp_path, when_running=soon)
    assert rundir.read_json(rundir.run)["state"] == "interrupted"
    assert judge_run(rundir)["verdict"] == "unknown"
    for cell in rundir.cells():
        assert read_run(cell).state == "interrupted"
        result = read_result(cell)
        assert result.doubts == ("interrupted",)
        assert result.counts.attempted == pytest.approx(200, abs=10)
        met = [fault.id for fault in result.faults if fault.proven]
        assert met == ["cut-leader"], "its journal is there"
    assert len(rundir.cells()) == 4


@dataclass(frozen=True)
class OneFails(Memory):
    """The clients of plans whose name ends so take nothing, and raise an error of the harness."""

    of: str = ": early"

    def client(self, cluster: Cluster, plan: MemoryPlan) -> Client:
        client = super().client(cluster, plan)
        if plan.name.endswith(self.of):
            client.poll = _refuse  # type: ignore[method-assign]
        return client


def _refuse(*_: Any) -> None:
    from harness.errors import HarnessFailure

    raise HarnessFailure("this client is broken")


def test_a_cell_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    plan = replace(resolved_cells({"cells.1.target.defects": []}), target=OneFails())
    rundir = run_of_cells(tmp_path, plan=plan)
    assert rundir.read_json(rundir.run)["state"] == "done"
    document = judge_run(rundir)
    assert verdicts(rundir) == {
        "safe": "valid",
        "unclean": "valid",
        "early": "unknown",
        "two": "valid",
    }
    assert document["verdict"] == "unknown"
    assert document["cells"][2]["reason"] == "the run failed: this client is broken"
    assert not document["eligible"]


def test_a_run_all_of_whose_cells_fail_has_failed(tmp_path: Path) -> None:
    rundir = run_of_cells(tmp_path, plan=replace(resolved_cells(), target=OneFails(of="")))
    metadata = rundir.read_json(rundir.run)
    assert (metadata["state"], metadata["error"]) == ("failed", "this client is broken")
    assert judge_run(rundir)["verdict"] == "unknown"

"""A run whose evidence can no longer be read keeps no earlier verdict."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from checkers.judging.many_runs import check_runs
from checkers.judging.one_run import judge_run
from harness.errors import AcklossError, HistoryError, TooNewError
from harness.history.documents import read_result
from harness.history.remote_run import remote_runs
from harness.history.run_folder import RunDir
from harness.storage import Folder
from tests.fixtures.command_line import ackloss
from tests.fixtures.hand_made import Made, R, W
from tests.fixtures.memory_cells import CELLS, run_of_cells

pytestmark = pytest.mark.slow

RUN = {"promises": {"replicas": 3}, "simulated": True}
PART = "history/part-00000.parquet"


def judged(parent: Path) -> RunDir:
    """A run with a verdict and findings."""
    made = Made(writes=[W(1), W(2)], reads=[R(1), R(1)], run=RUN)
    rundir = made.build(parent, "run")
    judge_run(rundir)
    shutil.copy(rundir.path / PART, rundir.findings_of("loss"))
    assert read_result(rundir).verdict == "invalid"
    return rundir


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 9)


DAMAGE: dict[str, Callable[[RunDir], None]] = {
    "history": lambda run: cut(run.path / PART),
    "reads": lambda run: cut(run.reads / "part-00000.parquet"),
    "ends": lambda run: cut(run.ends),
    "plan": lambda run: cut(run.plan),
    "metadata": lambda run: cut(run.run),
    "manifest": lambda run: run.manifest.write_bytes(b"{"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_evidence_that_cannot_be_read_is_refused_and_its_earlier_verdict_goes(
    damage: str, tmp_path: Path
) -> None:
    rundir = judged(tmp_path)
    DAMAGE[damage](rundir)
    done = ackloss("check", rundir.path)
    assert done.exit_code == 4, done.output
    result = read_result(rundir)
    assert (result.verdict, result.doubts, result.complete) == ("unknown", ("incomplete",), False)
    assert result.simulated
    assert str(rundir.path) in str(result.reason)
    assert not list(rundir.findings.iterdir())


def test_so_it_is_at_a_url(tmp_path: Path) -> None:
    rundir = judged(tmp_path)
    cut(rundir.path / PART)
    errors: list[AcklossError] = []
    assert check_runs(remote_runs(Folder.at(f"file://{tmp_path}"))[0], errors=errors) == []
    assert [error.file for error in errors] == [str(rundir.path / PART)]
    result = read_result(rundir)
    assert result.verdict == "unknown"
    assert str(rundir.path / PART) in str(result.reason)


def test_a_folder_without_an_earlier_verdict_gets_none(tmp_path: Path) -> None:
    rundir = judged(tmp_path)
    rundir.result.unlink()
    cut(rundir.path / PART)
    with pytest.raises(HistoryError, match="cut off"):
        judge_run(rundir)
    assert not rundir.result.exists()


NEWER: dict[str, Callable[[RunDir], None]] = {
    "document": lambda run: run.write_json(run.plan, {**run.read_json(run.plan), "schema": 2}),
    "model": lambda run: run.write_json(
        run.run, {**run.read_json(run.run), "promises": {"replicas": 3, "model": "ledger"}}
    ),
    "rows": lambda run: pq.write_table(
        pq.read_table(run.ends).replace_schema_metadata({b"ackloss.schema": b"2"}), run.ends
    ),
}


@pytest.mark.parametrize("written", NEWER)
def test_what_a_newer_ackloss_wrote_keeps_its_verdict(written: str, tmp_path: Path) -> None:
    rundir = judged(tmp_path)
    NEWER[written](rundir)
    before = rundir.result.read_bytes()
    with pytest.raises(TooNewError):
        judge_run(rundir)
    assert rundir.result.read_bytes() == before
    assert list(rundir.findings.iterdir())


def test_a_pruned_run_keeps_its_verdict(tmp_path: Path) -> None:
    rundir = judged(tmp_path)
    before = rundir.result.read_bytes()
    shutil.rmtree(rundir.history)
    with pytest.raises(HistoryError, match="holds no history"):
        judge_run(rundir)
    assert rundir.result.read_bytes() == before
    assert list(rundir.findings.iterdir())


def test_a_pruned_run_with_cells_keeps_its_verdict(tmp_path: Path) -> None:
    rundir = run_of_cells(tmp_path)
    judge_run(rundir)
    results = [rundir.result, *(rundir.cell(name).result for name in CELLS)]
    before = [path.read_bytes() for path in results]
    for name in CELLS:
        shutil.rmtree(rundir.cell(name).history)
    with pytest.raises(HistoryError, match="holds no history in any cell"):
        judge_run(rundir)
    assert [path.read_bytes() for path in results] == before

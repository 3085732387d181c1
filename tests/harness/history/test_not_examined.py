"""What lost writes have without a cause: unexplained where servers left logs, else not examined."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from checkers.judging.one_run import judge_run
from harness.history.run_folder import RunDir
from reports.why import why
from targets.memory import Memory
from tests.fixtures.command_line import ackloss

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lossy")
    done = ackloss("run", "memory/acknowledge-before-replication", "--out", folder, "--json")
    return folder / json.loads(done.stdout)["run_id"]


def silenced(run: Path) -> None:
    """Its servers have logs, and these say nothing."""
    for log in RunDir(run).logs():
        log.write_text("")


def unlogged(run: Path) -> None:
    """As of a cluster that ackloss did not start."""
    shutil.rmtree(run / "nodes")


def untouched(_run: Path) -> None:
    """As it was run."""


@pytest.mark.parametrize(
    ("change", "which", "said"),
    [
        (untouched, "causes", ""),
        (silenced, "unexplained", "Nothing in the run's folder says why"),
        (unlogged, "not_examined", "Not examined: no evidence of the servers was collected"),
    ],
)
def test_what_those_without_a_cause_are(
    change: Callable[[Path], None], which: str, said: str, lossy: Path, tmp_path: Path
) -> None:
    rundir = RunDir(Path(shutil.copytree(lossy, tmp_path / lossy.name)))
    change(rundir.path)
    result = judge_run(rundir)
    counted = {name: result[name] for name in ("unexplained", "not_examined")}
    counted["causes"] = sum(result["causes"].values())
    lost = result["counts"]["lost"]
    assert lost > 0
    assert counted == {**dict.fromkeys(counted, 0), which: lost}
    shown = why(rundir)
    assert shown is not None
    assert (shown.unexplained, shown.not_examined) == (
        counted["unexplained"],
        counted["not_examined"],
    )
    # The cause of these is a defect, which needs a look as well.
    assert any(chain.bad for chain in shown.chains) is (which != "not_examined")
    explained = ackloss("explain", rundir.path).stdout
    assert said in explained
    assert ("the folder differs from what the run wrote" in explained) is (change is not untouched)
    page = ackloss("report", rundir.path)
    assert page.exit_code == 0
    html = rundir.report.read_text()
    assert ("✕" in html.partition('id="why"')[2].partition("<ol")[0]) is (which == "unexplained")
    assert f"{lost:,}</strong> not examined: the evidence" in html or which != "not_examined"


def test_an_explanation_that_fails_stays_unexplained(
    lossy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explain(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(Memory, "explain", explain)
    rundir = RunDir(Path(shutil.copytree(lossy, tmp_path / lossy.name)))
    unlogged(rundir.path)
    result = judge_run(rundir)
    assert result["unexplained"] == result["counts"]["lost"] > 0
    assert result["not_examined"] == 0

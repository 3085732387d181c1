"""Which runs a URL names, and what of them is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HistoryError
from harness.history.remote_run import RemoteRun, remote_runs
from harness.storage import Folder

RUN = ("run.json", "plan.json", "manifest.json", "history/part-00000.parquet", "nodes/n/x.log")


def build(folder: Path, *places: str, names: tuple[str, ...] = RUN) -> Folder:
    for place in places:
        for name in names:
            path = folder / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"12345")
    return Folder.at(f"file://{folder}")


def found(folder: Folder, *shared: str) -> list[str]:
    runs = remote_runs(folder, lambda: shared)[0]
    return [run.folder.url.removeprefix(f"{folder.url}/") for run in runs]


def test_a_run_is_itself(tmp_path: Path) -> None:
    folder = build(tmp_path, "run")
    assert found(folder.below("run")) == [f"file://{tmp_path}/run"]


def test_a_folder_of_runs_is_all_of_them_in_order(tmp_path: Path) -> None:
    folder = build(tmp_path, "b", "a", "a/cells/x", "other/deeper")
    assert found(folder) == ["a", "b"]


def test_a_campaign_is_its_runs_with_history_and_each_cell_of_a_shared_one(tmp_path: Path) -> None:
    folder = build(tmp_path, "runs/a", "runs/s/cells/x", "runs/s/cells/y")
    build(tmp_path, "runs/s", names=("run.json", "result.json"))
    build(tmp_path, "runs/pruned", names=("run.json", "result.json", "manifest.json"))
    build(tmp_path, "runs/c/cells/x", "runs/c/cells/y")
    build(tmp_path, "runs/c", names=("run.json", "result.json"))
    (tmp_path / "campaign.toml").touch()
    assert found(folder, "s") == ["runs/a", "runs/c", "runs/s/cells/x", "runs/s/cells/y"]
    assert remote_runs(folder, lambda: ["s"])[1] == 1


@pytest.mark.parametrize(
    ("state", "is_judged"), [("done", True), ("failed", False), ("running", False)]
)
def test_a_run_of_which_only_documents_arrived_is_not_left_out(
    tmp_path: Path, state: str, is_judged: bool
) -> None:
    """Its manifest is copied last. (A run that failed has no history, and no manifest either.)"""
    folder = build(tmp_path, "runs/a")
    build(tmp_path, "runs/b", names=("run.json", "plan.json", "reads/part-00000.parquet"))
    (tmp_path / "runs/b/run.json").write_text(f'{{"schema": 1, "state": "{state}"}}')
    (tmp_path / "campaign.toml").touch()
    runs, without_history = remote_runs(folder)
    assert [run.folder.url.rpartition("/")[2] for run in runs] == ["a", "b"][: 1 + is_judged]
    assert without_history == (not is_judged)


def test_a_place_without_runs_is_refused(tmp_path: Path) -> None:
    folder = build(tmp_path, "a", names=("x",))
    with pytest.raises(HistoryError, match="there is no run with a history here"):
        remote_runs(folder)


def test_its_size_is_that_of_its_operations_and_records(tmp_path: Path) -> None:
    more = (*RUN, "reads/part-00000.parquet", "findings/loss.parquet", "report.html")
    run = remote_runs(build(tmp_path, "a", names=more))[0][0]
    assert (run.size_bytes, run.findings) == (10, ("findings/loss.parquet",))


def test_its_evidence_is_fetched_and_nothing_that_leads_elsewhere(tmp_path: Path) -> None:
    more = (*RUN, "cells/x/run.json", "cells/x/reads/part-00000.parquet", "report.html", ".hidden")
    folder = build(tmp_path / "there", "a", names=more)

    class Leading(Folder):
        def files(self) -> dict[str, int]:
            return {**super().files(), "history/../../../escaped": 1, "/etc/passwd": 1}

    rundir = RemoteRun(Leading(folder.below("a").url)).fetch(tmp_path / "here")
    assert rundir.path == tmp_path / "here" / "a"
    here = {path.relative_to(rundir.path).as_posix() for path in rundir.path.rglob("*.*")}
    assert here == set(more) - {"report.html", ".hidden"}


def test_a_cell_keeps_its_place_in_its_run(tmp_path: Path) -> None:
    folder = build(tmp_path / "there", "runs/s/cells/x")
    rundir = RemoteRun(folder.below("runs/s/cells/x")).fetch(tmp_path / "here", documents=True)
    assert rundir.run_id == "s.x"
    assert sorted(p.name for p in rundir.path.iterdir()) == ["plan.json", "run.json"]

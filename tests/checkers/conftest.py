"""What the loss checker says of many hand-made runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from checkers.judging.one_run import judge_run
from harness.history.run_folder import RunDir
from tests.fixtures.hand_made import Made


class Judged(NamedTuple):
    """What the checker said of a run, and the findings that it filed."""

    document: dict[str, Any]
    findings: list[dict[str, Any]]

    def counted(self) -> dict[str, int]:
        """The counts that are not 0."""
        return {name: n for name, n in self.document["counts"].items() if n}


Judge = Callable[[dict[str, Made]], dict[str, Judged]]


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Builds runs by name and judges all of them."""

    def judged(runs: dict[str, Made]) -> dict[str, Judged]:
        parent = tmp_path_factory.mktemp("runs")
        rundirs = [made.build(parent, name) for name, made in runs.items()]
        return {rundir.run_id: Judged(judge_run(rundir), _findings(rundir)) for rundir in rundirs}

    return judged


def _findings(rundir: RunDir) -> list[dict[str, Any]]:
    if not rundir.loss.exists():
        return []
    rows: list[dict[str, Any]] = pq.read_table(rundir.loss).to_pylist()
    return rows

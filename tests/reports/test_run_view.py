"""The view of a run: the options of its faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.documents import StoredRun
from harness.history.run_folder import RunDir
from reports.run_view import RunView


def test_nodes_are_shown_only_for_faults_that_act_on_nodes(tmp_path: Path) -> None:
    steps = [
        {"id": "die", "at_s": 4, "nemesis": "client", "nodes": "leader", "clients": "all"},
        {"id": "cut", "at_s": 6, "nemesis": "partition", "nodes": "leader"},
    ]
    plan = {"faults": steps}
    view = RunView(RunDir(tmp_path), plan, StoredRun(), None, None)  # type: ignore[arg-type]
    assert view.options("die") == {"at_s": "4", "clients": "all"}
    assert view.options("cut") == {"at_s": "6", "nodes": "leader"}


@pytest.mark.parametrize(
    ("system", "versions", "where"),
    [
        ("redis", {"target": None, "servers": "7.0.15"}, "redis 7.0.15, 3 servers"),
        ("valkey", {"target": "0.1.0", "servers": "8.1.8"}, "valkey 8.1.8, 3 servers"),
        (
            "postgresql",
            {"target": "4.1.5", "servers": "PostgreSQL 15.14, Patroni 4.1.5"},
            "PostgreSQL 15.14, Patroni 4.1.5, 3 servers",
        ),
        ("redis", {"target": None}, "redis, 3 servers"),  # of an earlier version
    ],
)
def test_the_versions_are_those_of_the_servers_that_ran(
    system: str, versions: dict[str, str | None], where: str, tmp_path: Path
) -> None:
    plan = {"target": {"system": system, "nodes": 3}}
    ran = StoredRun(versions=versions)
    view = RunView(RunDir(tmp_path), plan, ran, None, None)  # type: ignore[arg-type]
    assert view.where == where

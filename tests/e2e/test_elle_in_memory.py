"""Transactions on lists and registers of the reference system, from a plan to a page: its defects
are found, and nothing without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_memory import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

SHORT = ("workload.duration_s=8", "workload.rate_per_s=60", "faults.1.at_s=5", "faults.1.for_s=2")
REGISTERS = ("workload.name=rw-register", "checks=['rw-register']")


def test_a_leader_that_acknowledges_early_is_not_snapshot_isolated(tmp_path: Path) -> None:
    early = "target.defects=['acknowledge-before-replication']"
    found = run(tmp_path, "list-append", *SHORT, early)
    assert found.result["verdict"] == "invalid"
    assert found.result["counter_examples"]
    details = found.result["checks"][0]["details"]
    assert "not snapshot isolation" in details["ruled_out"]
    assert details["ruled_out"] in found.page.words
    assert details["examples"][0]["words"] in found.page.words


@pytest.mark.full
@pytest.mark.parametrize("changes", [(), REGISTERS])
def test_without_defects_nothing_is_found(tmp_path: Path, changes: tuple[str, ...]) -> None:
    sound = run(tmp_path, "list-append", *changes)
    assert (sound.done.exit_code, sound.result["verdict"]) == (0, "valid")
    assert sound.result["counts"]["reads"] > 500
    assert all(fault["proven"] for fault in sound.result["faults"])


@pytest.mark.full
@pytest.mark.parametrize("defect", ["stale-reads", "lost-write-on-failover"])
@pytest.mark.parametrize("changes", [(), REGISTERS])
def test_defects_are_found(tmp_path: Path, changes: tuple[str, ...], defect: str) -> None:
    broken = run(tmp_path, "list-append", *changes, f"target.defects=['{defect}']")
    assert broken.result["verdict"] == "invalid"

"""What was acknowledged of a cluster's metadata is kept, with ZooKeeper and with KRaft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ackloss

PLAN = Path(__file__).parents[2] / "plans" / "claims" / "c6-kill-controller.toml"
EVENTUAL = [{"name": "register", "consistency": "eventual"}]
KINDS: dict[str, dict[str, Any]] = {
    "combined": {"target.combined": True},
    "one": {"target.controllers": 1},
    "five": {"target.controllers": 5},
    "zookeeper-3.9": {
        "target.version": "3.9.2",
        "target.metadata": "zookeeper",
        "checks": EVENTUAL,
    },
    "zookeeper-2.8": {"target.version": "2.8.2", "checks": EVENTUAL},
}

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.full]


@pytest.mark.parametrize("kind", KINDS)
def test_a_controllers_death_loses_nothing(kind: str, tmp_path: Path) -> None:
    result = ackloss.run(PLAN, set=KINDS[kind], out=tmp_path).result
    assert result.verdict == "valid", result.reason
    assert result.checks[0].counts["lost"] == 0
    nodes = {row["node"]: row for row in result.checks[0].details["nodes"]}
    assert all(nodes[name]["final_reads"] for name in ("b1", "b2", "b3"))


def test_topics_are_the_elements_of_a_set(tmp_path: Path) -> None:
    changes = {"workload.name": "set", "checks": ["set", "replicas"], "workload.rate_per_s": 10}
    result = ackloss.run(PLAN, set=changes, out=tmp_path).result
    assert result.verdict == "valid", result.reason
    assert (result.checks[0].counts["acknowledged"] or 0) > 20
    assert result.checks[0].counts["lost"] == 0

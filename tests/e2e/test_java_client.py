"""The Java client on real brokers: a loss is found where there is one, and only there, even when a
node of the client is killed during the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from targets.kafka.versions import DEFAULT_VERSION
from tests.fixtures.machine import ROOT, result_of

PLAN = "plans/java-unclean.toml"
SAFE = [
    "topic.settings.'unclean.leader.election.enable'=false",
    "topic.settings.'min.insync.replicas'=2",
    "workload.duration_s=14",
]

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def run(out: Path, plan: Path | str, *changes: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result, and run.json."""
    result = result_of(plan, out, *changes)
    (folder,) = out.iterdir()
    assert "ackloss-1.1" in (folder / "nodes" / "k1" / "server.log").read_text()
    return result, json.loads((folder / "run.json").read_text())


@pytest.mark.full
def test_its_own_defaults_do_not_keep_acknowledged_writes(tmp_path: Path) -> None:
    result, metadata = run(tmp_path, PLAN)
    assert result["verdict"] == "invalid", result["reason"]
    assert result["counts"]["lost"] > 100
    assert result["complete"]
    assert all(fault["proven"] for fault in result["faults"]), result["faults"]
    assert metadata["versions"]["client"] == f"kafka-clients {DEFAULT_VERSION} (Java)"
    producer = metadata["settings"]["effective"]["producer"]
    assert (
        producer.items()
        >= {
            "acks": "all",
            "enable.idempotence": "true",
            "delivery.timeout.ms": "120000",
            "metadata.max.age.ms": "300000",
        }.items()
    )


@pytest.mark.full
def test_safe_settings_lose_nothing_and_a_killed_client_restarts(tmp_path: Path) -> None:
    plan = tmp_path / "java-safe.toml"
    kill = (
        '\n[[faults]]\nid = "killed"\nafter_s = 0.5\nfor_s = 2\n'
        'nemesis = "kill"\nnodes = "node:k1"\n'
    )
    plan.write_text((ROOT / PLAN).read_text() + kill)
    result, metadata = run(tmp_path / "runs", plan, *SAFE)
    assert result["verdict"] == "valid", result["reason"]
    assert result["counts"]["lost"] == 0
    assert result["counts"]["acknowledged"] > 300
    assert all(fault["proven"] for fault in result["faults"]), result["faults"]
    assert [fault["id"] for fault in result["faults"]] == ["cut", "isolate", "killed"]
    (folder,) = (tmp_path / "runs").iterdir()
    assert "ackloss-1.2" in (folder / "nodes" / "k1" / "server.log").read_text()
    assert {node["name"] for node in metadata["nodes"]} >= {"b1", "c1", "k1", "k2", "k3"}

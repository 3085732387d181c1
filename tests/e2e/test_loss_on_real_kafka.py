"""On real brokers a loss is found where there is one, and only there.

`make test` runs the short plan both ways, `make e2e` also those that `make run` compares. They show
how Kafka behaves, so a failure here is a bug of ackloss or a finding about Kafka.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.history.metrics import PERIOD_S
from targets.kafka import images
from targets.kafka.plan import KafkaTargetPlan
from targets.kafka.versions import DEFAULT_VERSION
from tests.fixtures.budget import full_of
from tests.fixtures.claims import asked
from tests.fixtures.command_line import ackloss
from tests.fixtures.machine import ROOT, ran

SHORT = ("workload.duration_s=19", "faults.1.within_s=8", "faults.2.within_s=7")
"""With time for replicas that leave the ISR late, on a busy machine after 5 s, and for an election
that comes late: where faults or the load end before it, nothing is lost."""
SAFE = (
    "topic.settings.'unclean.leader.election.enable'=false",
    "topic.settings.'min.insync.replicas'=2",
    "expect=valid",
    "faults.2.within_s=1.5",  # no replica takes over
)

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def docker(*args: str) -> str:
    done = subprocess.run(["docker", *args], capture_output=True, text=True, check=True)
    return done.stdout


def leftovers(run_id: str) -> str:
    """The objects of a run that Docker still has."""
    kinds = (("ps", "-aq"), ("network", "ls", "-q"), ("volume", "ls", "-q"))
    return "".join(docker(*kind, "--filter", f"label=ackloss.run={run_id}") for kind in kinds)


@pytest.mark.parametrize(
    ("plan", "changes"), [("short-unclean", SHORT), *full_of(("kafka-unclean", ()))]
)
def test_unclean_election_loses_acknowledged_writes(
    plan: str, changes: Sequence[str], tmp_path: Path
) -> None:
    exit_code, result = ran(f"plans/{plan}.toml", tmp_path, *changes)
    assert "error" not in result, result
    counts = result["counts"]
    assert (exit_code, result["verdict"]) == (1, "invalid"), result["reason"]
    assert counts["lost"] > 100
    assert counts["acknowledged"] + counts["unacknowledged_found"] == (
        counts["survivors"] + counts["lost"] + counts["not_yet_visible"]
    )
    assert result["complete"]
    assert [fault["id"] for fault in result["faults"]] == ["cut", "isolate"]
    assert all(fault["proven"] for fault in result["faults"]), result["faults"]

    removed = result["removed"]
    assert removed["writes"] == (removed["lost"] + removed["found"] + removed["unacknowledged"]), (
        removed
    )
    assert removed["lost"] + removed["lost_unseen"] == counts["lost"]
    assert removed["lost_unseen"] < counts["lost"] / 10, "of what came and went between two looks"
    assert (removed["left_over"], removed["not_copied"]) == (0, [])

    alarms = {each["rule"]: each for each in result["alarms"]}
    assert {each["why_not"] for each in alarms.values()} == {None}
    (folder,) = tmp_path.iterdir()
    begun_s = result["faults"][0]["begun_s"]
    assert alarms["UncleanLeaderElections rise"]["held_s"] > begun_s
    # Where the machine stands still a follower leaves before the fault, and is seen to.
    answers = pq.read_table(folder / "observations", columns=["time_ns", "isr"]).to_pylist()
    seen_s = min(each["time_ns"] / 1e9 for each in answers if each["isr"] and len(each["isr"]) < 3)
    assert alarms["in-sync replicas < 3"]["held_s"] > min(begun_s, seen_s - PERIOD_S)
    assert alarms["OfflinePartitionsCount > 0"]["held_s"] is None

    assert {reads.name for reads in folder.iterdir()} >= {"run.json", "report.html", "faults.jsonl"}
    again = ackloss("check", folder, "--json")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["counts"] == counts
    assert leftovers(folder.name) == ""
    assert asked("A1", folder).state
    assert asked("A2", folder).state


@pytest.mark.parametrize(
    ("name", "changes"), [("short-unclean", (*SHORT, *SAFE)), *full_of(("kafka-safe", ()))]
)
def test_safe_settings_lose_nothing_under_the_same_faults(
    name: str, changes: Sequence[str], tmp_path: Path
) -> None:
    """With an image that the user names, laid out like Kafka's official one and without our tools.
    Not every machine reaches a registry, so it is a local image under another name. Small batches,
    one at a time, keep an idempotent librdkafka from taking a core meanwhile; one that is not
    swaps records then (docs/evidence/findings.md)."""
    image = "ackloss-e2e/kafka:local"
    docker("tag", images.resolve(KafkaTargetPlan(version=DEFAULT_VERSION)).id, image)
    plan, once = tmp_path / "image.toml", '"enable.idempotence" = true'
    plan.write_text(
        (ROOT / "plans" / f"{name}.toml")
        .read_text()
        .replace(f'version = "{DEFAULT_VERSION}"', f'image = "{image}"')
        .replace(once, f'{once}, "max.in.flight" = 1, "batch.num.messages" = 4')
    )
    try:
        exit_code, result = ran(plan, tmp_path / "runs", *changes)
    finally:
        docker("rmi", image)
    assert (exit_code, result["verdict"]) == (0, "valid"), result["reason"]
    assert result["counts"]["lost"] == 0
    assert (result["removed"]["lost"], result["removed"]["left_over"]) == (0, 0)
    held = [each["rule"] for each in result["alarms"] if each["held_s"] is not None]
    assert held, result["no_alarms"]
    assert not [rule for rule in held if "Unclean" in rule]
    assert result["counts"]["acknowledged"] > 100
    assert all(fault["proven"] for fault in result["faults"]), result["faults"]
    (folder,) = (tmp_path / "runs").iterdir()
    metadata = json.loads((folder / "run.json").read_text())
    assert metadata["image"]["reference"] == image
    assert metadata["versions"]["target"] == DEFAULT_VERSION
    assert leftovers(folder.name) == ""
    assert asked("A1", folder).state is False

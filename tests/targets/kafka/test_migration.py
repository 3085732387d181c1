"""A migration from ZooKeeper to KRaft: what nodes start with at each stage, what is refused, and
when a stage is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.errors import PlanError
from harness.faults.records import StageRecord
from harness.plan import parse_plan
from harness.protocols import Act, Completed, ImageRef, Ingredients, NodeSpec
from nemeses.planned_work import Migrate
from targets.kafka import levers, migration
from targets.kafka.migration import STAGES, Metadata, is_connected
from targets.kafka.plan import KafkaPlan
from tests.fixtures.chosen_acts import acts
from tests.fixtures.dry_run import DryRunNode

MIGRATES = "zookeeper.metadata.migration.enable=true"
BY_BROKER = Metadata(
    owner="b2", copied=-1, by_owner=False, active=None, connected=("b1",), there=frozenset()
)
COPIES = replace(BY_BROKER, owner="c1", copied=249, by_owner=True, active="c1")
ALONE = replace(COPIES, connected=())


def plan(*steps: tuple[str, str], **target: Any) -> KafkaPlan:
    faults = [
        {"id": f"s{n}", "nemesis": "migrate", "to": to, "nodes": nodes}
        for n, (to, nodes) in enumerate(steps)
    ]
    own = {"version": "3.9.2", "metadata": "zookeeper", **target}
    document = {"schema": 1, "name": "m", "target": own, "faults": faults}
    made = parse_plan(document)
    assert isinstance(made, KafkaPlan)
    return made


def nodes(stage: str | None) -> dict[str, NodeSpec]:
    made = Ingredients(image=ImageRef(reference="r", id="i", version="3.9.2"))
    names = ("b1", "b2", "b3", "z1", "c1", "c2", "c3")
    addresses = {name: f"198.18.0.{n}" for n, name in enumerate(names, start=11)}
    at = plan(("kraft", "role:broker"))
    specs = migration.specs(at.at_stage(stage) if stage else at, made, addresses)
    return {spec.name: spec for spec in specs}


def config(stage: str, node: str) -> list[str]:
    return nodes(stage)[node].files["server.properties"].decode().splitlines()


def resting(stage: str | None) -> set[str]:
    return {name for name, spec in nodes(stage).items() if "sleep" in spec.argv[2]}


def test_brokers_use_zookeeper_then_are_told_of_controllers_then_use_these() -> None:
    plain, dual, kraft = (config(s, "b1") for s in ("zookeeper", "dual-write", "kraft"))
    voters = "controller.quorum.voters=101@198.18.0.15:9093,102@198.18.0.16:9093"
    for lines in (plain, dual):
        assert "zookeeper.connect=198.18.0.14:2181" in lines
        assert "broker.id=1" in lines
    assert not any(line.startswith("controller.quorum") for line in plain)
    assert MIGRATES in dual
    assert "process.roles=broker" in kraft
    assert "node.id=1" in kraft
    assert not any(line.startswith("zookeeper") for line in kraft)
    for lines in (dual, kraft):
        assert any(line.startswith(voters) for line in lines)


def test_controllers_know_zookeeper_until_the_end() -> None:
    assert {MIGRATES, "zookeeper.connect=198.18.0.14:2181"} < {*config("provisioned", "c1")}
    assert not any(line.startswith("zookeeper") for line in config("final", "c1"))


def test_controllers_rest_until_they_are_provisioned_and_zookeeper_after_the_end() -> None:
    assert resting(None) == {"c1", "c2", "c3"}
    assert resting("deprovisioned") == {"c1", "c2", "c3", "z1"}
    assert resting("provisioned") == resting("kraft") == resting("zookeeper") == set()


@pytest.mark.parametrize(
    ("now", "reached"),
    [
        (BY_BROKER, {"zookeeper", "deprovisioned"}),
        (replace(BY_BROKER, active="c1"), {"zookeeper", "deprovisioned", "provisioned"}),
        (COPIES, {"deprovisioned", "provisioned", "dual-write", "kraft"}),
        (replace(COPIES, copied=-1), {"deprovisioned", "provisioned"}),
        (replace(COPIES, by_owner=False), {"deprovisioned", "provisioned"}),
        (ALONE, {"deprovisioned", "provisioned", "dual-write", "kraft", "final"}),
        (replace(COPIES, there=frozenset({"/migration"})), set()),
        (replace(COPIES, there=frozenset({"/controller"})), set()),
        (replace(BY_BROKER, there=frozenset({"/controller"})), {"zookeeper", "deprovisioned"}),
    ],
)
def test_a_stage_is_reached_by_who_has_the_metadata(now: Metadata, reached: set[str]) -> None:
    assert {stage for stage in STAGES if now.is_of(stage)} == reached


class Kernel(DryRunNode):
    """A node whose kernel has one connection."""

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        del argv, timeout_s
        row = f"   0: 0E0012C6:A3F2 {self.address} 00000000:00000000 02:000AFC8E"
        return Completed(0, f"  sl  local_address rem_address   st tx_queue rx_queue tr\n{row}")


@pytest.mark.parametrize(
    ("to", "found"),
    [("0F0012C6:0885 01", True), ("0F0012C6:0885 06", False), ("0F0012C6:2384 01", False)],
)
def test_a_connection_to_zookeeper_is_one_that_the_kernel_has(to: str, *, found: bool) -> None:
    assert is_connected(Kernel("c1", frozenset(), to)) is found


def test_nodes_come_to_a_stage_one_by_one_and_the_cluster_at_last() -> None:
    made = acts("migrate", "node:b1 + node:b2", to="zookeeper", remove=["/migration"])
    nemesis = Migrate(to="zookeeper")
    assert [[act.record.node for act in turn] for turn in nemesis.in_turn(made)] == [
        ["b1"],
        ["b2"],
        ["b1,b2"],
    ]
    assert [len(turn) for turn in replace(nemesis, at_once=True).in_turn(made)] == [2, 1]
    stage = StageRecord(node="b1,b2", to="zookeeper", remove=("/migration",))
    assert made[-1] == Act("stage", stage)


@pytest.mark.parametrize(
    ("step", "target", "key"),
    [
        (("half", "role:broker"), {}, "faults.s0.to"),
        (("kraft", "role:controller"), {}, "faults.s0.nodes"),
        (("final", "all"), {}, "faults.s0.nodes"),
        (("kraft", "role:broker"), {"metadata": "kraft"}, "target.metadata"),
        (("kraft", "role:broker"), {"metadata": None}, "target.metadata"),
        (("kraft", "role:broker"), {"version": "4.3.1", "metadata": None}, "target.version"),
        (("kraft", "role:broker"), {"version": "2.8.2"}, "target.version"),
        (("kraft", "role:broker"), {"combined": True}, "target.combined"),
    ],
)
def test_what_cannot_migrate_is_refused(
    step: tuple[str, str], target: dict[str, Any], key: str
) -> None:
    with pytest.raises(PlanError) as error:
        levers.programs(plan(step, **target))
    assert error.value.key == key

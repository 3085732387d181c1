"""What Kafka adds to the levers of a cluster."""

from __future__ import annotations

from harness.levers.disk import DiskLever
from harness.plan import parse_plan
from harness.run.resolving import resolve
from harness.run.runner import levers_of
from targets.kafka.levers import KafkaStorage, LeadershipLever
from targets.kafka.target import Kafka
from tests.fixtures.dry_run import DryRunCluster, DryRunNode

PLAN = {"schema": 1, "name": "one", "target": {"version": "4.3.1"}}


def test_the_lever_of_disks_learns_how_kafka_stores_and_one_that_moves_leaders_is_added() -> None:
    nodes = {"b1": DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")}
    cluster = DryRunCluster(nodes)
    levers = levers_of(resolve(parse_plan(PLAN)), cluster)
    assert levers["disk"] == DiskLever(nodes, KafkaStorage())
    assert isinstance(levers["leadership"], LeadershipLever)
    assert set(levers) == {*cluster.levers, *Kafka.own_levers}


def test_a_cluster_without_a_lever_of_disks_gets_none() -> None:
    class Bare(DryRunCluster):
        levers = {}  # type: ignore[assignment]  # noqa: RUF012

    plan = resolve(parse_plan(PLAN))
    assert set(levers_of(plan, Bare({}))) == Kafka.own_levers

"""Moves the leaders of the plan's topic by the znodes with which Kafka's own tools ask for it.

The controller takes a request from its znode and removes that when it is done:
`/admin/reassign_partitions`, `/admin/preferred_replica_election`. A refusal is only in its log, so
the outcome of a request shows in who leads afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Node, PartitionView
from harness.run.observer import merge
from targets.kafka.configuration import node_ids
from targets.kafka.plan import KafkaPlan
from targets.kafka.zookeeper import admin
from targets.zookeeper import asking

_WITHIN_S = 20.0
_ASK_S = 2.0
_POLL_S = 0.1
_NOT_MOVED = "PREFERRED_LEADER_NOT_AVAILABLE"


@dataclass(frozen=True)
class ZooKeeperLeadership:
    """See `targets.kafka.levers.leaders.Leadership`."""

    nodes: Mapping[str, Node]
    plan: KafkaPlan

    def placements(self) -> Mapping[int, PartitionView]:
        """What the ZooKeeper servers have."""
        deadline = time.monotonic() + _WITHIN_S
        while time.monotonic() < deadline:
            views = [admin.observe(node, self.plan, timeout_s=_ASK_S) for node in self._servers]
            if partitions := merge(0, [(0, view) for view in views if view]).partitions:
                return partitions
            time.sleep(_POLL_S)
        raise HarnessFailure(f"no ZooKeeper server has reported the topic for {_WITHIN_S:g} s")

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        """A reassignment to the same replicas in another order."""
        ids, topic = node_ids(self.plan), self.plan.topic.name
        self._ask(
            "/admin/reassign_partitions",
            [
                {"topic": topic, "partition": n, "replicas": [ids[name] for name in names]}
                for n, names in wanted.items()
            ],
        )
        there = self.placements()
        for n, names in wanted.items():
            if there[n].replicas != tuple(names):
                raise HarnessFailure(f"partition {n}: the reassignment was refused")

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        """A preferred replica election, of these partitions alone."""
        topic = self.plan.topic.name
        self._ask(
            "/admin/preferred_replica_election",
            [{"topic": topic, "partition": n} for n in partitions],
        )
        there = self.placements()
        return {n: _NOT_MOVED for n in partitions if there[n].leader != there[n].replicas[0]}

    @property
    def _servers(self) -> list[Node]:
        return [node for node in self.nodes.values() if "zookeeper" in node.roles]

    def _ask(self, path: str, partitions: list[dict[str, Any]]) -> None:
        """Write the request and wait until the controller has removed it."""
        request = {path: {"version": 1, "partitions": partitions}}
        deadline, why = time.monotonic() + _WITHIN_S, "the controller did not process it"
        requested = False
        while time.monotonic() < deadline:
            try:
                if not requested:
                    admin.by_first_server(self.nodes, admin.write(request))
                    requested = True
                elif not self._is_there(path):
                    return
            except NoAnswer as error:
                why = str(error)
            time.sleep(_POLL_S)
        raise HarnessFailure(f"leaders could not be moved within {_WITHIN_S:g} s: {why}")

    def _is_there(self, path: str) -> bool:
        found: list[bool] = []

        def look(address: str) -> None:
            found.append(asking.get(address, path, timeout_s=_ASK_S) is not None)

        admin.by_first_server(self.nodes, look)
        return found[-1]

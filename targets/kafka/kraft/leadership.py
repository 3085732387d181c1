"""Moves the leaders of the plan's topic: reassignments and elections, as an operator requests them.

In KRaft any broker forwards these requests to the active controller, so the brokers get the request
one after the other until one answers; while there is no active controller, or a broker is down, the
next broker gets it, for a limited time. All requests may be sent twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ElectionType,
    ElectLeadersRequest,
)

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Node, PartitionView
from harness.run.observer import merge
from targets.kafka.asking import ask
from targets.kafka.configuration import BROKER_PORT, node_ids
from targets.kafka.kraft import admin
from targets.kafka.plan import KafkaPlan

_WITHIN_S = 20.0
_ASK_S = 2.0
_LOOK_S = 1.0
_POLL_S = 0.1
_TIMED_OUT, _NOT_CONTROLLER, _ELECTION_NOT_NEEDED = 7, 41, 84
_LATER = (_TIMED_OUT, _NOT_CONTROLLER)


@dataclass(frozen=True)
class KraftLeadership:
    """See `targets.kafka.levers.leaders.Leadership`."""

    nodes: Mapping[str, Node]
    plan: KafkaPlan

    def placements(self) -> Mapping[int, PartitionView]:
        """What the brokers believe, each queried for itself."""
        deadline = time.monotonic() + _WITHIN_S
        while time.monotonic() < deadline:
            with ThreadPoolExecutor(max_workers=len(self._brokers)) as pool:
                views = pool.map(
                    lambda node: admin.observe(node, self.plan, timeout_s=_LOOK_S), self._brokers
                )
                answers = [(0, view) for view in views if view is not None]
            if partitions := merge(0, answers).partitions:
                return partitions
            time.sleep(_POLL_S)
        raise HarnessFailure(f"no broker has reported the topic for {_WITHIN_S:g} s")

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        """A reassignment to the same replicas in another order: done once it is answered."""
        ids, kind = node_ids(self.plan), AlterPartitionReassignmentsRequest.ReassignableTopic
        partitions = [
            kind.ReassignablePartition(partition_index=n, replicas=[ids[name] for name in names])
            for n, names in wanted.items()
        ]
        topic = kind(name=self.plan.topic.name, partitions=partitions)
        request = AlterPartitionReassignmentsRequest[0](
            timeout_ms=int(_ASK_S * 1000), topics=[topic]
        )
        for part in self._asked(request).responses[0].partitions:
            if part.error_code:
                raise HarnessFailure(
                    f"partition {part.partition_index}: the reassignment was refused: "
                    f"{_name(part.error_code)}: {part.error_message}"
                )

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        """A preferred leader election, of these partitions alone."""
        topic = ElectLeadersRequest.TopicPartitions(
            topic=self.plan.topic.name, partitions=list(partitions)
        )
        request = ElectLeadersRequest[2](
            election_type=ElectionType.PREFERRED,
            topic_partitions=[topic],
            timeout_ms=int(_ASK_S * 1000),
        )
        return {
            part.partition_id: _name(part.error_code)
            for result in self._asked(request).replica_election_results
            for part in result.partition_result
            if part.error_code not in (0, _ELECTION_NOT_NEEDED)
        }

    @property
    def _brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if "broker" in node.roles]

    def _asked(self, request: Any) -> Any:
        """The answer of the first broker that has one. Raises HarnessFailure."""
        deadline, why = time.monotonic() + _WITHIN_S, ""
        while time.monotonic() < deadline:
            for node in self._brokers:
                try:
                    answer = ask(node.address, BROKER_PORT, request, timeout_s=_ASK_S + 1)
                except NoAnswer as error:
                    why = str(error)
                    continue
                if answer.error_code == 0:
                    return answer
                why = f"{node.name}: {_name(answer.error_code)}"
                if answer.error_code not in _LATER:
                    raise HarnessFailure(f"leaders cannot be moved: {why}")
            time.sleep(_POLL_S)
        raise HarnessFailure(f"leaders could not be moved within {_WITHIN_S:g} s: {why}")


def _name(error_code: int) -> str:
    """The broker's own name of an error: PREFERRED_LEADER_NOT_AVAILABLE."""
    return str(for_code(error_code).message)

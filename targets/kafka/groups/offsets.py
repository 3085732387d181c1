"""What each broker reports about a group's committed offsets, queried raw; and who coordinates the
group.

librdkafka's admin call is not used: it ends the process when a broker answers NOT_COORDINATOR
(librdkafka issue 5040). A broker that was cut off may go on answering, beside the one that took
over: both answers are kept.
"""

from __future__ import annotations

import time
from typing import Any, Final

from kafka.errors import for_code
from kafka.protocol.consumer import OffsetFetchRequest

from harness.faults.own_traffic import NoAnswer
from harness.protocols import FAIL, Cluster, Node, PartitionView, with_role
from harness.protocols.groups import KINDS, Delivery
from targets.kafka.asking import ask
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.groups.settings import group_id
from targets.kafka.plan import KafkaPlan

OFFSETS_TOPIC: Final = "__consumer_offsets"
_VERSION: Final = 1
"""Of OffsetFetch: spoken from 0.8.2 to 4.x."""
_ASK_S: Final = 3.0
_AGAIN_S: Final = 0.5
_NONE: Final = -1


def committed(cluster: Cluster, plan: KafkaPlan, timeout_s: float) -> list[Delivery]:
    """What each broker says, once one at least has an answer."""
    deadline = time.monotonic() + timeout_s
    while True:
        rows = [row for node in with_role(cluster, "broker") for row in _asked(node, plan)]
        if any(row.type != FAIL for row in rows) or time.monotonic() >= deadline:
            return rows
        time.sleep(_AGAIN_S)


def _asked(node: Node, plan: KafkaPlan) -> list[Delivery]:
    kind = OffsetFetchRequest[_VERSION]
    partitions = list(range(plan.topic.partitions))
    topic = kind.OffsetFetchRequestTopic(name=plan.topic.name, partition_indexes=partitions)
    request = kind(group_id=group_id(plan), topics=[topic])
    begun_ns = time.monotonic_ns()
    try:
        answer = ask(node.address, BROKER_PORT, request, timeout_s=_ASK_S)
    except NoAnswer as error:
        now_ns = time.monotonic_ns()
        return [Delivery(KINDS.final, begun_ns, now_ns, FAIL, node=node.name, error=str(error))]
    now_ns = time.monotonic_ns()
    return [
        _row(node.name, part, begun_ns, now_ns)
        for each in answer.topics
        for part in each.partitions
    ]


def _row(node: str, part: Any, begun_ns: int, now_ns: int) -> Delivery:
    row = Delivery(KINDS.final, begun_ns, now_ns, node=node, partition=int(part.partition_index))
    if part.error_code:
        return row._replace(type=FAIL, error=str(for_code(part.error_code).message))
    offset = int(part.committed_offset)
    return row._replace(offset=None if offset == _NONE else offset)


def offsets_plan(plan: KafkaPlan) -> KafkaPlan:
    """A plan whose topic is the one in which groups keep what they have committed."""
    return plan.with_topic(name=OFFSETS_TOPIC)


def coordination(plan: KafkaPlan, partitions: tuple[PartitionView, ...]) -> PartitionView | None:
    """The partition of that topic in which the plan's group is kept; `None` while there is none."""
    if not partitions:
        return None
    number = _java_hash(group_id(plan)) % len(partitions)
    return next((each for each in partitions if each.partition == number), None)


def _java_hash(text: str) -> int:
    """The magnitude of Java's hash of a text, as Kafka takes it (`Utils.abs`): 31 bits."""
    number = 0
    for character in text:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    signed = number - (1 << 32) if number & (1 << 31) else number
    return 0 if signed == -(1 << 31) else abs(signed)

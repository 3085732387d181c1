"""The nodes m1, m2 ... of Java consumers: in a run with cells m1-CELL ... of each cell's group.

Consumer N of each group has the role `consumer-N`, so a fault can meet it in all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.errors import PlanError
from harness.images.steps import Say
from harness.plan import number_of
from harness.plan.steps import Family, FaultStep
from harness.protocols import CLIENT_ROLE, ImageRef, Ingredients, NodeSpec
from harness.protocols.groups import GroupSettings, consumer_name
from harness.run.cells import group_of
from targets.kafka.clients.java.lines import JAVA
from targets.kafka.clients.java.nodes import jvm
from targets.kafka.groups.java.member import MEMBER_PORT
from targets.kafka.jars import compiled
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import ReleaseLine

JAR: Final = "member.jar"

_SOURCE: Final = Path(__file__).with_name("Member.java")
_KEY: Final = "workload.consumer_client"
_OLDEST: Final = "2.5.0"
_MOST: Final = 9


def check_java(plan: KafkaPlan, group: GroupSettings) -> None:
    """Refuse versions without what its consumers report, and more nodes than there can be. Raises
    PlanError."""
    version = plan.target.version
    if version and number_of(version) < number_of(_OLDEST):
        raise PlanError(
            f"the Java consumer needs Kafka {_OLDEST} or later, not {version}",
            key=_KEY,
            hint='consumer_client = "librdkafka"',
        )
    if (count := len(numbers(plan, group))) > _MOST:
        raise PlanError(
            f"{count} Java consumers are too many: each has its own node",
            key="workload.options.members_count",
            hint=f"at most {_MOST}, with those that join",
        )


def numbers(plan: KafkaPlan, group: GroupSettings) -> list[int]:
    """Those of the consumers that a run may have: from its start, and those that join."""
    count = group.members_count
    steps: list[FaultStep | Family] = [*plan.faults, *(plan.mix.families if plan.mix else ())]
    joining = set[int]()
    for step in steps:
        if step.nemesis == "consumer" and step.options.get("action") == "join":
            given = step.options.get("consumers")
            joining |= set(given) if isinstance(given, list) else {count + 1}
    return sorted({*range(1, count + 1), *joining})


def name(plan: KafkaPlan, number: int) -> str:
    """What the node of a consumer is called."""
    return f"m{number}" if plan.cell is None else f"m{number}-{plan.cell}"


def names(plan: KafkaPlan) -> list[str]:
    """The names of the nodes of a plan's own group; none of another library's consumers."""
    if plan.workload.consumer_client != JAVA or (group := group_of(plan)) is None:
        return []
    return [name(plan, number) for number in numbers(plan, group)]


def jar(image: ImageRef, say: Say) -> bytes:
    """The compiled program. Raises PlanError for an image whose Java cannot compile it."""
    return compiled(image, JAR, [_SOURCE], say, needed_by=_KEY)


def specs(plan: KafkaPlan, release: ReleaseLine, ingredients: Ingredients) -> list[NodeSpec]:
    """The nodes of a plan's own group: one JVM each, which waits for us."""
    group = group_of(plan)
    if group is None or not names(plan):
        return []
    return [
        jvm(
            name(plan, number),
            frozenset({CLIENT_ROLE, consumer_name(number)}),
            ("Member", JAR, MEMBER_PORT),
            release,
            ingredients,
        )
        for number in numbers(plan, group)
    ]

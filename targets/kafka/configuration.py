"""What nodes are called, the files they start with, where replicas are placed, and which settings a
plan may not touch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.errors import Mistakes, PlanError
from harness.protocols import NODE_DATA, STORED, Ingredients, NodeSpec
from targets.kafka.definitions import Level, why_not, why_refused
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, ZOOKEEPER, metadata_of, release_line

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
DATA = f"{NODE_DATA}/{STORED}"
LOGS = "log"
OFFSETS_TOPIC = "__consumer_offsets"
AGENT: Final = "metrics.jar"
METRICS: Final = "metrics.tsv"
"""What the agent in a broker's JVM writes, in the folder of its log."""


def check_settings(settings: Mapping[str, Any], *, where: str, level: Level = "broker") -> None:
    """Raise PlanError for the settings that a plan may not touch, and for values that Kafka's own
    definition of a setting does not have."""
    mistakes = Mistakes()
    for key, value in settings.items():
        with mistakes.noted():
            if reason := why_refused(key, level):
                raise PlanError(
                    f"this setting is refused: {reason}", key=f'{where}."{key}"', hint="remove it"
                )
            if reason := why_not(key, value):
                raise PlanError(reason, key=f'{where}."{key}"')
    mistakes.refuse()


def node_ids(plan: KafkaPlan) -> dict[str, int]:
    """The id of each node by name: brokers b1 ... are 1 ..., controllers c1 ... are 101 ...,
    ZooKeeper servers z1 ... are 201 ... ."""
    ids = {f"b{n}": n for n in range(1, plan.target.brokers + 1)}
    if metadata_of(plan) == ZOOKEEPER:
        ids |= {f"z{n}": 200 + n for n in range(1, plan.target.zookeepers + 1)}
        if not plan.migrates:
            return ids
    if not plan.target.combined:
        ids |= {f"c{n}": 100 + n for n in range(1, plan.target.controllers + 1)}
    return ids


def rack_of(name: str, plan: KafkaPlan) -> str | None:
    """The rack of a node: its number's turn among the plan's racks; null if there are none."""
    racks = plan.target.racks
    return racks[(int(name[1:]) - 1) % len(racks)] if racks else None


def node_spec(
    name: str,
    roles: frozenset[str],
    plan: KafkaPlan,
    made: Ingredients,
    main: str,
    files: Mapping[str, bytes],
    *,
    ports: Sequence[int],
    flags: Sequence[str] = (),
) -> NodeSpec:
    """A node with its process, whose main class is `main` and whose configuration is the first of
    its files; its rack is one of its roles."""
    release = release_line(made.image.version or plan.target.version or DEFAULT_VERSION)
    rack = rack_of(name, plan)
    if AGENT in made.files and main == release.broker_class:
        files = {**files, AGENT: made.files[AGENT]}
        agent = f"-javaagent:{NODE_DATA}/{AGENT}={NODE_DATA}/{LOGS}/{METRICS}"
        flags = (*flags, agent)
    return NodeSpec(
        name=name,
        roles=roles | {f"rack:{rack}"} if rack else roles,
        argv=release.process(
            main,
            config=f"{NODE_DATA}/{next(iter(files))}",
            log_config=f"{NODE_DATA}/{release.log_file}",
            log_folder=f"{NODE_DATA}/{LOGS}",
            heap_mb=plan.target.memory_mb // 2,
            archive=next(iter(made.mounts.values()), None),
            flags=flags,
        ),
        files={**files, release.log_file: release.log_config.encode(), f"{LOGS}/server.log": b""},
        mounts=made.mounts,
        memory_mb=plan.target.memory_mb,
        ports=ports,
    )


def assignment(plan: KafkaPlan) -> dict[int, list[int]]:
    """By partition the ids of its brokers, the first of which leads: with `topic.leaders` `one`
    the first leader leads every partition, else one broker after the other does, from it on."""
    brokers, replicas = plan.target.brokers, plan.topic.replication_factor
    turns, begin = range(plan.topic.partitions), (plan.topic.first_leader or 1) - 1
    firsts = [begin if plan.topic.leaders == "one" else begin + turn for turn in turns]
    return {
        turn: [(first + place) % brokers + 1 for place in range(replicas)]
        for turn, first in zip(turns, firsts, strict=True)
    }


_AS_KAFKA_MAKES_IT: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": 100 * 1024 * 1024,
    "compression.type": "producer",
}


def of_commits(plan: KafkaPlan, partitions: int) -> KafkaPlan:
    """The plan with the topic of the groups' commits for its own, as Kafka makes it when the first
    group comes, but led by the broker that is to coordinate."""
    replicas = min(3, plan.target.brokers)
    settings = plan.target.settings
    return plan.with_topic(
        name=OFFSETS_TOPIC,
        partitions=int(settings.get("offsets.topic.num.partitions", partitions)),
        replication_factor=int(settings.get("offsets.topic.replication.factor", replicas)),
        leaders="one",
        first_leader=plan.target.coordinator,
        settings=_AS_KAFKA_MAKES_IT,
    )

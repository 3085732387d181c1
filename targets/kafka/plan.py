"""What a plan states about Kafka: its sections, and which of their values exclude each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal

from pydantic import Field, PrivateAttr, model_validator

from harness.plan import Plan, Section, Settings, Slug, TargetPlan, WorkloadPlan
from targets.kafka.definitions import DEFAULTS, OF_METADATA, canonical, model_of

_JAVA_DELIVERY: Final = "120000"
"""Kafka's own: of its Java client nothing is shortened."""

REQUEST_MS: Final = "3000"
"""How long a change of metadata may wait for its answer, by default."""

_STARTER: Final = """\
brokers = 3
controllers = 3
racks = ["a", "b", "c"]       # zones: a fault can name rack:a

[topic]
partitions = 3
replication_factor = 3

[topic.settings]              # all: `ackloss list settings`
"min.insync.replicas" = {least}     # replicas that must have a write with acks = "all"
"unclean.leader.election.enable" = {unclean}   # whether a replica that lacks writes may lead

[workload.producer]           # by librdkafka's names or Java's
acks = "{acks}"                # "all", "1" (the leader alone) or "0"
"enable.idempotence" = {idempotent}
"linger.ms" = 5               # how long a batch may wait to fill
"compression.type" = "none"
"message.timeout.ms" = 30000  # how long a write may take with all its retries

[workload]
name = "append"
"""
STARTERS: Final[Mapping[str, str]] = {
    "safe": _STARTER.format(unclean="false", least=2, acks="all", idempotent="true"),
    "available": _STARTER.format(unclean="true", least=1, acks="all", idempotent="true"),
    "fast": _STARTER.format(unclean="false", least=1, acks="1", idempotent="false"),
}
"""Settings that keep acknowledged writes; that put availability first; that wait for nobody."""


class KafkaTargetPlan(TargetPlan):
    """Kafka, and how its cluster is made."""

    # fmt: off
    newest: ClassVar[Sequence[str]] = (
        "0.8.0", "0.8.1.1", "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3",
        "1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2",
        "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1",
        "3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0",
    )
    # fmt: on
    growing_since: ClassVar[str] = "3.9"

    system: Slug = Field("kafka", description="The system under test, a plug-in in targets/.")
    metadata: Literal["kraft", "zookeeper"] | None = Field(
        None,
        description="What keeps the cluster's metadata; by default KRaft's controllers from 3.3 "
        "on, ZooKeeper before.",
    )
    brokers: int = Field(3, ge=1, le=9, description="How many brokers.")
    controllers: Literal[1, 3, 5] = Field(3, description="How many controllers (KRaft).")
    zookeepers: Literal[1, 3, 5] = Field(1, description="How many ZooKeeper servers.")
    racks: list[Slug] = Field(
        default_factory=list,
        max_length=9,
        description="Racks (zones) over which brokers and controllers are spread in turn.",
    )
    combined: bool = Field(
        False,
        description="true: the first brokers are also the controllers, without separate nodes.",
    )
    founders: int | None = Field(
        None, ge=1, le=3, description="So many controllers know only each other, the others all."
    )
    coordinator: int | None = Field(
        None,
        ge=1,
        le=9,
        description="The broker that coordinates groups of consumers at first (KRaft); by default "
        "Kafka chooses.",
    )
    features: dict[Slug, int] = Field(
        default_factory=dict, description="Feature levels to format the cluster with."
    )
    ballast_partitions: int = Field(
        0,
        ge=0,
        le=200_000,
        description="Further partitions, of as many replicas, that no client writes to: what a "
        "failover costs with so many (2.1 and later).",
    )
    settings: Settings = Field(
        default_factory=dict, description="Settings of every broker and controller."
    )

    @model_validator(mode="after")
    def _controllers_fit(self) -> KafkaTargetPlan:
        if self.combined and self.controllers > self.brokers:
            raise ValueError(
                f"asks for {self.controllers} combined controllers with {self.brokers} brokers"
            )
        if self.founders is not None and self.founders >= self.controllers:
            raise ValueError(f"founders: {self.founders} are all {self.controllers} controllers")
        return self


class TopicPlan(Section):
    """The topic that the workload writes to."""

    name: Slug = Field("ackloss", description="The topic's name.")
    partitions: int = Field(1, ge=1, le=64, description="How many partitions.")
    replication_factor: int = Field(3, ge=1, le=9, description="Replicas of each partition.")
    leaders: Literal["spread", "one"] | None = Field(
        None,
        description="Initial leaders: the brokers in turn (the default), or one broker for all "
        "partitions (the default with cells, so that all are led alike).",
    )
    first_leader: int | None = Field(
        None, ge=1, le=9, description="The broker that leads the first partition at first."
    )
    settings: Settings = Field(default_factory=dict, description="Settings of the topic.")


class KafkaWorkloadPlan(WorkloadPlan):
    """The workload and the clients that run it."""

    bootstrap: Literal["all", "own"] = Field(
        "all", description="Bootstrap servers: every broker, or one for each client."
    )
    producer: Settings = Field(
        default_factory=dict,
        description="Settings of the clients: `ackloss list settings producer`.",
    )
    consumer: Settings = Field(
        default_factory=dict,
        description="Settings of the group's consumers: `ackloss list settings consumer`.",
    )
    consumer_client: Literal["librdkafka", "kafka-python", "java"] = Field(
        "librdkafka", description="The client library of the group's consumers."
    )


class KafkaPlan(Plan):
    """Top-level keys of a plan for Kafka."""

    target: KafkaTargetPlan = Field(default_factory=lambda: KafkaTargetPlan())
    topic: TopicPlan = Field(default_factory=lambda: TopicPlan())
    workload: KafkaWorkloadPlan = Field(default_factory=lambda: KafkaWorkloadPlan())
    _cell: str | None = PrivateAttr(None)
    _stage: str | None = PrivateAttr(None)

    @property
    def cell(self) -> str | None:
        """The cell of a run whose plan this is; `None` for the plan of a complete run."""
        return self._cell

    @property
    def migrates(self) -> bool:
        """Whether a step takes it from ZooKeeper to KRaft."""
        return any(True for _ in self.faults_of("migrate"))

    @property
    def stage(self) -> str | None:
        """Of a plan's migration, the stage of its nodes (`targets.kafka.migration`); `None` as the
        cluster begins."""
        return self._stage

    def at_stage(self, stage: str) -> KafkaPlan:
        made = self.model_copy()
        made._stage = stage
        return made

    def with_topic(self, **changes: object) -> KafkaPlan:
        """With these keys of its topic changed; they are not validated again."""
        return self.model_copy(update={"topic": self.topic.model_copy(update=changes)})

    def of_cell(self, name: str, topic: TopicPlan) -> KafkaPlan:
        made = self.model_copy(update={"topic": topic})
        made._cell = name
        return made

    @property
    def blocked_s(self) -> float | None:
        """The delivery time-out, in any library's words; of changes of metadata, how long an answer
        may take."""
        given = {canonical(key): value for key, value in self.workload.producer.items()}
        if model_of(self.workload.name) in OF_METADATA:
            return int(given.get("request.timeout.ms", REQUEST_MS)) / 1000
        own = _JAVA_DELIVERY if self.workload.client == "java" else DEFAULTS["message.timeout.ms"]
        timeout = str(given.get("message.timeout.ms", own))
        endless = not timeout.isdigit() or timeout == "0"
        return self.workload.duration_s if endless else int(timeout) / 1000

    @property
    def partitions(self) -> int:
        return self.topic.partitions

    @property
    def replicas(self) -> int:
        return self.topic.replication_factor

    @model_validator(mode="after")
    def _replicas_fit(self) -> KafkaPlan:
        factor, brokers = self.topic.replication_factor, self.target.brokers
        for key, broker in (
            ("target.coordinator", self.target.coordinator),
            ("topic.first_leader", self.topic.first_leader),
        ):
            if broker is not None and broker > brokers:
                raise ValueError(f"{key}: there is no broker {broker}, target.brokers is {brokers}")
        if factor > brokers:
            raise ValueError(
                f"topic.replication_factor: {factor} replicas need {factor} brokers, "
                f"target.brokers is {brokers}"
            )
        for owner, settings in (("topic", self.topic.settings), ("target", self.target.settings)):
            wanted = settings.get("min.insync.replicas")
            if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > factor:
                raise ValueError(
                    f'{owner}.settings."min.insync.replicas": {wanted} in-sync replicas are more '
                    f"than topic.replication_factor, {factor}: every write would be refused"
                )
        return self

"""Which version of Kafka honours which setting: a table that can be checked against Kafka's
documentation, and what a plan requests in vain.

The table does not cover all of Kafka, only what would mislead a reader of results, and only what
Kafka's own definitions do not say (`targets.kafka.definitions`: which version has which name). A
plan that requests what its version does not honour, or does not even know, is refused before it is
run, with the reason and its source; `--force` runs it anyway, and the run shows this. A setting
that only states what a version without it does anyway is allowed, and not sent. For everything else
the cluster's own answers are compared with what was requested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from harness.plan import Scalar, number_of
from harness.protocols import Unsupported
from harness.wrong_values import dotted
from targets.kafka.configuration import text
from targets.kafka.definitions import JAVA, canonical, why_unknown
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import KRAFT, ZOOKEEPER, metadata_of

Place = Literal["broker", "topic", "feature", "producer", "consumer", "target"]
Kind = Literal["absent", "ignored", "refused"]

KINDS: Final[Mapping[Kind, str]] = {
    "absent": "does not have it",
    "ignored": "accepts it and does not honour it",
    "refused": "rejects this value",
}


@dataclass(frozen=True)
class Values:
    """The values that a limit is about, in words and as a test."""

    words: str
    meant: Callable[[Scalar], bool]


def _number(value: Scalar) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except ValueError:
        return None


def _more_than(least: int) -> Values:
    return Values(f"above {least}", lambda value: (_number(value) or 0) > least)


def _less_than(most: int) -> Values:
    return Values(f"below {most}", lambda value: (n := _number(value)) is not None and n < most)


def _exactly(word: str) -> Values:
    return Values(word, lambda value: str(value).strip().lower() == word)


ANY: Final = Values("any", lambda _: True)
ON, OFF = _exactly("true"), _exactly("false")


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Versions `since` to before `before`, in one mode or in both, and what they do not honour.

    A key may end in `*`. Of an absent setting, values that are not `values` state what the version
    does anyway: allowed, and not sent. `reason` is one sentence, `source` where it is documented.
    What no `--force` could run, because there is no such cluster, is not `forcible`.
    """

    keys: tuple[str, ...]
    places: tuple[Place, ...]
    kind: Kind
    reason: str
    source: str
    values: Values = ANY
    since: str | None = None
    before: str | None = None
    metadata: str | None = None
    forcible: bool = True

    def concerns(self, version: tuple[int, ...], metadata: str) -> bool:
        """Whether it is about this version in this mode."""
        return (
            (self.since is None or version >= number_of(self.since))
            and (self.before is None or version < number_of(self.before))
            and self.metadata in (None, metadata)
        )

    def names(self, place: Place, key: str) -> bool:
        """Whether it is about this key."""
        return place in self.places and any(
            key == name or (name.endswith("*") and key.startswith(name[:-1])) for name in self.keys
        )


_UNCLEAN: Final = ("unclean.leader.election.enable",)
_LEAST: Final = ("min.insync.replicas",)
_OF_KRAFT: Final = ("broker.session.timeout.ms", "broker.heartbeat.interval.ms")
_OF_ZOOKEEPER: Final = ("zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms")

LIMITS: Final[tuple[Limit, ...]] = (
    # --- what decides whether acknowledged writes are lost
    Limit(
        keys=_UNCLEAN, places=("topic", "broker"), kind="absent", values=OFF, before="0.8.2",
        reason="unclean leader election is always on, any live replica may become leader",
        source="KAFKA-1028",
    ),
    Limit(
        keys=_UNCLEAN, places=("topic", "broker"), kind="ignored", values=ON, since="3.3",
        before="3.9", metadata=KRAFT,
        reason="the controller never elects a replica outside the ISR by itself",
        source="KAFKA-12670",
    ),
    Limit(
        keys=_LEAST, places=("topic", "broker"), kind="absent", values=_more_than(1),
        before="0.8.2",
        reason="in-sync replicas are not counted, one is enough for acks=all",
        source="KAFKA-1555",
    ),
    Limit(
        keys=_LEAST, places=("broker",), kind="ignored", values=_more_than(1), since="0.8.2",
        before="0.9",
        reason="the broker setting never reaches the logs, only a topic setting does; the release "
        "notes of 0.8.2.2 call it fixed, but 0.8.2.2 lost writes as if it were not set",
        source="KAFKA-2114",
    ),
    Limit(
        keys=("replica.lag.max.messages",), places=("broker",), kind="absent", since="0.9",
        reason="being in sync depends on time only, not on messages",
        source="KIP-16",
    ),
    Limit(
        keys=("auto.leader.rebalance.enable",), places=("broker",), kind="absent", values=ON,
        before="0.8.1",
        reason="leaders stay where they are until an operator moves them",
        source="KAFKA-930",
    ),
    Limit(
        keys=("enable.idempotence",), places=("producer",), kind="absent", values=ON,
        before="0.11",
        reason="brokers do not know producer ids, so they cannot drop duplicates",
        source="KIP-98",
    ),
    Limit(
        keys=("acks",), places=("producer",), kind="refused", values=_more_than(1), since="0.9",
        reason="acks are 0, 1 or all; a number of replicas is refused",
        source="KAFKA-1697",
    ),
    Limit(
        keys=("compression.type",), places=("producer",), kind="absent", values=_exactly("lz4"),
        before="0.8.2",
        reason="brokers do not know this compression",
        source="KAFKA-1456",
    ),
    Limit(
        keys=("compression.type",), places=("producer",), kind="absent", values=_exactly("zstd"),
        before="2.1",
        reason="brokers do not know this compression",
        source="KIP-110",
    ),
    # --- features
    Limit(
        keys=("*",), places=("feature",), kind="absent", values=_more_than(0), metadata=ZOOKEEPER,
        reason="feature levels are stored by KRaft's controllers",
        source="KIP-584, KIP-778",
    ),
    Limit(
        keys=("eligible.leader.replicas.version",), places=("feature",), kind="absent",
        values=_more_than(0), before="4.0", metadata=KRAFT,
        reason="eligible leader replicas were first released with 4.0",
        source="KIP-966",
    ),
    Limit(
        keys=("kraft.version",), places=("feature",), kind="absent", values=_more_than(0),
        before="3.9", metadata=KRAFT,
        reason="the controllers' quorum cannot be changed while it runs",
        source="KIP-853",
    ),
    Limit(
        keys=("transaction.version",), places=("feature",), kind="absent", values=_more_than(0),
        before="4.0", metadata=KRAFT,
        reason="transaction levels begin with 4.0",
        source="KIP-890",
    ),
    # --- who keeps the metadata
    Limit(
        keys=("metadata",), places=("target",), kind="absent", values=_exactly(KRAFT),
        before="3.3", forcible=False,
        reason="KRaft is early access from 2.8 to 3.2 and did not exist before",
        source="KIP-833",
    ),
    Limit(
        keys=("metadata",), places=("target",), kind="absent", values=_exactly(ZOOKEEPER),
        since="4.0", forcible=False,
        reason="ZooKeeper mode ended with 3.9",
        source="KIP-500, upgrade notes of 4.0",
    ),
    Limit(
        keys=("combined",), places=("target",), kind="absent", values=ON, metadata=ZOOKEEPER,
        reason="there are no separate controllers, one of the brokers is the controller",
        source="KIP-500",
    ),
    Limit(
        keys=(*_OF_KRAFT, "controller.quorum.*"), places=("broker",), kind="absent", before="2.8",
        metadata=ZOOKEEPER,
        reason="ZooKeeper keeps the brokers' sessions (zookeeper.session.timeout.ms)",
        source="KIP-595, KIP-631",
    ),
    Limit(
        keys=(*_OF_KRAFT, "controller.quorum.*"), places=("broker",), kind="ignored", since="2.8",
        metadata=ZOOKEEPER,
        reason="ZooKeeper keeps the brokers' sessions (zookeeper.session.timeout.ms)",
        source="KIP-595, KIP-631",
    ),
    Limit(
        keys=_OF_ZOOKEEPER, places=("broker",), kind="ignored", since="3.3", before="4.0",
        metadata=KRAFT,
        reason="the controllers keep the brokers' sessions (broker.session.timeout.ms)",
        source="KIP-631",
    ),
    Limit(
        keys=_OF_ZOOKEEPER, places=("broker",), kind="absent", since="4.0", metadata=KRAFT,
        reason="the controllers keep the brokers' sessions (broker.session.timeout.ms)",
        source="KIP-631, upgrade notes of 4.0",
    ),
    Limit(
        keys=("unclean.leader.election.interval.ms",), places=("broker",), kind="ignored",
        since="3.9", metadata=ZOOKEEPER,
        reason="only KRaft's controllers check for unclean elections periodically",
        source="KAFKA-12670",
    ),
    Limit(
        keys=("inter.broker.protocol.version",), places=("broker",), kind="ignored", since="3.3",
        before="4.0", metadata=KRAFT,
        reason="the feature metadata.version takes its place",
        source="KIP-778",
    ),
    # --- what is in the log
    Limit(
        keys=("segment.bytes",), places=("topic",), kind="refused", values=_less_than(2**20),
        since="4.0",
        reason="segments have at least 1 MiB; segment.ms makes small ones",
        source="KIP-1030",
    ),
    Limit(
        keys=("log.segment.bytes",), places=("broker",), kind="refused", values=_less_than(2**20),
        since="4.0",
        reason="segments have at least 1 MiB; log.roll.ms makes small ones",
        source="KIP-1030",
    ),
    Limit(
        keys=("message.timestamp.difference.max.ms", "log.message.timestamp.difference.max.ms"),
        places=("topic", "broker"), kind="absent", since="4.0",
        reason="there are two bounds instead, message.timestamp.before.max.ms and .after.max.ms",
        source="KIP-937",
    ),
    Limit(
        keys=(
            "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
            "log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms",
        ),
        places=("topic", "broker"), kind="absent", since="0.10", before="3.6",
        reason="there is one bound for both (message.timestamp.difference.max.ms)",
        source="KIP-937",
    ),
)  # fmt: skip
"""In the order in which `docs/reference/kafka-versions.md` shows them."""


_KEYS: Final[Mapping[Place, tuple[str, ...]]] = {
    "broker": ("target", "settings"),
    "topic": ("topic", "settings"),
    "feature": ("target", "features"),
    "producer": ("workload", "producer"),
    "consumer": ("workload", "consumer"),
    "target": ("target",),
}
"""Where in a plan each is requested."""

_MODES: Final = {KRAFT: " in KRaft mode", ZOOKEEPER: " in ZooKeeper mode", None: ""}


@dataclass(frozen=True)
class _Asked:
    """One thing that a plan requests."""

    place: Place
    key: str
    value: Scalar

    @property
    def where(self) -> str:
        return dotted((*_KEYS[self.place], self.key))


def unsupported(plan: KafkaPlan) -> list[Unsupported]:
    """All that the plan requests and its version does not honour."""
    sentences = []
    for limit, requested in _met(plan):
        if limit.values.meant(requested.value):
            kafka = f"Kafka {version_of(plan) or ''}{_MODES[limit.metadata]}".rstrip()
            sentences.append(
                Unsupported(
                    key=requested.where,
                    what=f"the plan requests {text(requested.value)}, but {kafka} "
                    f"{KINDS[limit.kind]}: {limit.reason}",
                    source=limit.source,
                    forcible=limit.forcible,
                )
            )
    return sentences


def sent(plan: KafkaPlan) -> KafkaPlan:
    """The plan without keys that its version does not have but whose effect it has anyway: what
    nodes and topic get. What is requested in vain stays: a user who forces a plan wants to see the
    effect."""
    return _without(
        plan,
        {
            (requested.place, requested.key)
            for limit, requested in _met(plan)
            if limit.kind == "absent" and not limit.values.meant(requested.value)
        },
    )


def comparable(plan: KafkaPlan) -> KafkaPlan:
    """The plan with only what the cluster must report to be in force."""
    return _without(
        plan,
        {
            (requested.place, requested.key)
            for limit, requested in _met(plan)
            if limit.kind == "absent" or limit.values.meant(requested.value)
        },
    )


def unheeded(plan: KafkaPlan, settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the cluster reports about the settings that were requested in vain: `settings` as
    `Target.effective` has them."""
    sentences = []
    for limit, requested in _met(plan):
        if requested.place in ("broker", "topic") and limit.values.meant(requested.value):
            value = settings.get(requested.place, {}).get(requested.key)
            report = (
                "does not report it" if value is None else f"reports {value}, which proves nothing"
            )
            sentences.append(
                f"{requested.where}: requested from a version that {KINDS[limit.kind]}; it {report}"
            )
    return sentences


def version_of(plan: KafkaPlan) -> str | None:
    """The version of a plan, an image's by its tag; null where it reports none."""
    if plan.target.version is not None or plan.target.image is None:
        return plan.target.version
    tag = re.search(r":(\d+(?:\.\d+){1,3})(?:@|$)", plan.target.image)
    return tag.group(1) if tag else None


def _met(plan: KafkaPlan) -> Iterator[tuple[Limit, _Asked]]:
    """What the plan requests, with the limits of its version that name it, whatever the value."""
    version, metadata = version_of(plan), metadata_of(plan)
    number = number_of(version) if version else None
    limits = [each for each in LIMITS if number and each.concerns(number, metadata)]
    for requested in _requested(plan):
        key = canonical(requested.key) if requested.place == "producer" else requested.key
        named = [limit for limit in limits if limit.names(requested.place, key)]
        for limit in named or _unknown(plan, requested, version):
            yield limit, requested


def _unknown(plan: KafkaPlan, requested: _Asked, version: str | None) -> Iterator[Limit]:
    """A name that Kafka's own definitions of the version do not have: of brokers, topics and Java's
    clients. What librdkafka and kafka-python know, they say themselves."""
    place, key, load = requested.place, requested.key, plan.workload
    if place == "producer" and load.client == JAVA:
        key = canonical(key, JAVA)
    elif place == "consumer" and load.consumer_client == JAVA:
        key = canonical(key, JAVA, "consumer")
    elif place not in ("broker", "topic"):
        return
    if unknown := why_unknown(key, place, version):
        hint = f"; {unknown.hint}" if unknown.hint else ""
        yield Limit(
            keys=(requested.key,),
            places=(place,),
            kind="absent",
            reason=f"it {unknown.what}{hint}",
            source="Kafka's own definitions",
            forcible=place in ("broker", "topic"),
        )


def _requested(plan: KafkaPlan) -> Iterator[_Asked]:
    given: Mapping[Place, Mapping[str, Scalar]] = {
        "target": {"metadata": plan.target.metadata or "", "combined": plan.target.combined},
        "feature": plan.target.features,
        "broker": plan.target.settings,
        "topic": plan.topic.settings,
        "producer": plan.workload.producer,
        "consumer": plan.workload.consumer,
    }
    for place, pairs in given.items():
        for key, value in pairs.items():
            yield _Asked(place, key, value)


def _without(plan: KafkaPlan, left_out: set[tuple[Place, str]]) -> KafkaPlan:
    def kept(place: Place, pairs: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in pairs.items() if (place, key) not in left_out}

    target, topic = plan.target, plan.topic
    target = target.model_copy(
        update={
            "settings": kept("broker", target.settings),
            "features": kept("feature", target.features),
        }
    )
    topic = topic.model_copy(update={"settings": kept("topic", topic.settings)})
    return plan.model_copy(update={"target": target, "topic": topic})

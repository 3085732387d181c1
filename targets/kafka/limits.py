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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from math import nan
from typing import Any, Final, Literal, NamedTuple

from harness.plan import Scalar, number_of
from harness.protocols import Unsupported
from harness.servers import setting_text
from harness.wrong_values import dotted
from targets.kafka.definitions import JAVA, PLACES, canonical, why_unknown
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import KRAFT, ZOOKEEPER, metadata_of, version_of

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


def _number(value: Scalar) -> float:
    try:
        return nan if isinstance(value, bool) else float(value)
    except ValueError:
        return nan


def _more_than(least: int) -> Values:
    return Values(f"above {least}", lambda value: _number(value) > least)


def _less_than(most: int) -> Values:
    return Values(f"below {most}", lambda value: _number(value) < most)


def _exactly(word: str) -> Values:
    return Values(word, lambda value: str(value).strip().lower() == word)


ANY: Final = Values("any", lambda _: True)
ON, OFF = _exactly("true"), _exactly("false")


@dataclass(frozen=True)
class Limit:
    """Versions `since` to before `before`, in one mode or in both, and what they do not honour.

    `keys` and `places` (of `Place`) have spaces between them; a key may end in `*`. Of an absent
    setting, values that are not `values` state what the version does anyway: allowed, and not sent.
    `reason` is one sentence, `source` where it is documented. What no `--force` could run, because
    there is no such cluster, is not `forcible`.
    """

    keys: str
    places: str
    kind: Kind
    source: str
    reason: str
    _: KW_ONLY
    values: Values = ANY
    since: str | None = None
    before: str | None = None
    metadata: str | None = None
    forcible: bool = True

    def concerns(self, version: tuple[int, ...], metadata: str) -> bool:
        """Whether it is about this version in this mode."""
        within = number_of(self.since or "0") <= version < number_of(self.before or "99")
        return within and self.metadata in (None, metadata)

    def names(self, place: Place, key: str) -> bool:
        """Whether it is about this key."""
        return place in self.places.split() and any(
            fnmatchcase(key, name) for name in self.keys.split()
        )


_UNCLEAN: Final = "unclean.leader.election.enable"
_LEAST: Final = "min.insync.replicas"
_OF_KRAFT: Final = "broker.session.timeout.ms broker.heartbeat.interval.ms controller.quorum.*"
_OF_ZOOKEEPER: Final = "zookeeper.session.timeout.ms zookeeper.connection.timeout.ms"

# fmt: off
LIMITS: Final[tuple[Limit, ...]] = (
    Limit(_UNCLEAN, "topic broker", "absent", "KAFKA-1028",
          "unclean leader election is always on, any live replica may become leader", values=OFF,
          before="0.8.2"),
    Limit(_UNCLEAN, "topic broker", "ignored", "KAFKA-12670",
          "the controller never elects a replica outside the ISR by itself", values=ON,
          since="3.3", before="3.9", metadata=KRAFT),
    Limit(_LEAST, "topic broker", "absent", "KAFKA-1555",
          "in-sync replicas are not counted, one is enough for acks=all", values=_more_than(1),
          before="0.8.2"),
    Limit(_LEAST, "broker", "ignored", "KAFKA-2114",
          "the broker setting never reaches the logs, only a topic setting does; the release "
          "notes of 0.8.2.2 call it fixed, but 0.8.2.2 lost writes as if it were not set",
          values=_more_than(1), since="0.8.2", before="0.9"),
    Limit("replica.lag.max.messages", "broker", "absent", "KIP-16",
          "being in sync depends on time only, not on messages", since="0.9"),
    Limit("auto.leader.rebalance.enable", "broker", "absent", "KAFKA-930",
          "leaders stay where they are until an operator moves them", values=ON, before="0.8.1"),
    Limit("enable.idempotence", "producer", "absent", "KIP-98",
          "brokers do not know producer ids, so they cannot drop duplicates", values=ON,
          before="0.11"),
    Limit("acks", "producer", "refused", "KAFKA-1697",
          "acks are 0, 1 or all; a number of replicas is refused", values=_more_than(1),
          since="0.9"),
    Limit("compression.type", "producer", "absent", "KAFKA-1456",
          "brokers do not know this compression", values=_exactly("lz4"), before="0.8.2"),
    Limit("compression.type", "producer", "absent", "KIP-110",
          "brokers do not know this compression", values=_exactly("zstd"), before="2.1"),
    Limit("*", "feature", "absent", "KIP-584, KIP-778",
          "feature levels are stored by KRaft's controllers", values=_more_than(0),
          metadata=ZOOKEEPER),
    Limit("eligible.leader.replicas.version", "feature", "absent", "KIP-966",
          "eligible leader replicas were first released with 4.0", values=_more_than(0),
          before="4.0", metadata=KRAFT),
    Limit("kraft.version", "feature", "absent", "KIP-853",
          "the controllers' quorum cannot be changed while it runs", values=_more_than(0),
          before="3.9", metadata=KRAFT),
    Limit("transaction.version", "feature", "absent", "KIP-890",
          "transaction levels begin with 4.0", values=_more_than(0), before="4.0", metadata=KRAFT),
    Limit("metadata", "target", "absent", "KIP-833",
          "KRaft is early access from 2.8 to 3.2 and did not exist before",
          values=_exactly("kraft"), before="3.3", forcible=False),
    Limit("metadata", "target", "absent", "KIP-500, upgrade notes of 4.0",
          "ZooKeeper mode ended with 3.9", values=_exactly("zookeeper"), since="4.0",
          forcible=False),
    Limit("combined", "target", "absent", "KIP-500",
          "there are no separate controllers, one of the brokers is the controller", values=ON,
          metadata=ZOOKEEPER),
    Limit("founders", "target", "absent", "KIP-500", "there are no controllers that vote",
          values=_more_than(0), metadata=ZOOKEEPER),
    Limit(_OF_KRAFT, "broker", "absent", "KIP-595, KIP-631",
          "ZooKeeper keeps the brokers' sessions (zookeeper.session.timeout.ms)", before="2.8",
          metadata=ZOOKEEPER),
    Limit(_OF_KRAFT, "broker", "ignored", "KIP-595, KIP-631",
          "ZooKeeper keeps the brokers' sessions (zookeeper.session.timeout.ms)", since="2.8",
          metadata=ZOOKEEPER),
    Limit(_OF_ZOOKEEPER, "broker", "ignored", "KIP-631",
          "the controllers keep the brokers' sessions (broker.session.timeout.ms)", since="3.3",
          before="4.0", metadata=KRAFT),
    Limit(_OF_ZOOKEEPER, "broker", "absent", "KIP-631, upgrade notes of 4.0",
          "the controllers keep the brokers' sessions (broker.session.timeout.ms)", since="4.0",
          metadata=KRAFT),
    Limit("unclean.leader.election.interval.ms", "broker", "ignored", "KAFKA-12670",
          "only KRaft's controllers check for unclean elections periodically", since="3.9",
          metadata=ZOOKEEPER),
    Limit("inter.broker.protocol.version", "broker", "ignored", "KIP-778",
          "the feature metadata.version takes its place", since="3.3", before="4.0",
          metadata=KRAFT),
    Limit("segment.bytes", "topic", "refused", "KIP-1030",
          "segments have at least 1 MiB; segment.ms makes small ones", values=_less_than(2**20),
          since="4.0"),
    Limit("log.segment.bytes", "broker", "refused", "KIP-1030",
          "segments have at least 1 MiB; log.roll.ms makes small ones", values=_less_than(2**20),
          since="4.0"),
    Limit("message.timestamp.difference.max.ms log.message.timestamp.difference.max.ms",
          "topic broker", "absent", "KIP-937",
          "there are two bounds instead, message.timestamp.before.max.ms and .after.max.ms",
          since="4.0"),
    Limit(
          "message.timestamp.before.max.ms message.timestamp.after.max.ms "
          "log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms",
          "topic broker", "absent", "KIP-937",
          "there is one bound for both (message.timestamp.difference.max.ms)", since="0.10",
          before="3.6"),
)
# fmt: on
"""In the order in which `docs/reference/kafka-versions.md` shows them: what decides whether
acknowledged writes are lost, features, who keeps the metadata, what is in the log."""

_PLACES: Final[Mapping[str, str]] = {
    **{str(level): place for level, place in PLACES.items()},
    "feature": "target.features",
    "target": "target",
}
"""Where in a plan each is requested."""

_MODES: Final = {KRAFT: " in KRaft mode", ZOOKEEPER: " in ZooKeeper mode", None: ""}


class _Asked(NamedTuple):
    """One thing that a plan requests, and a limit of its version that names it; `vain`: it is about
    this value."""

    place: Place
    key: str
    value: Scalar
    limit: Limit
    vain: bool

    @property
    def where(self) -> str:
        return dotted((*_PLACES[self.place].split("."), self.key))


def unsupported(plan: KafkaPlan) -> list[Unsupported]:
    """All that the plan requests and its version does not honour."""
    return [
        Unsupported(
            key=asked.where,
            what=f"the plan requests {setting_text(asked.value)}, but "
            + f"Kafka {version_of(plan) or ''}{_MODES[asked.limit.metadata]}".rstrip()
            + f" {KINDS[asked.limit.kind]}: {asked.limit.reason}",
            source=asked.limit.source,
            forcible=asked.limit.forcible,
        )
        for asked in _asked(plan)
        if asked.vain
    ]


def sent(plan: KafkaPlan) -> KafkaPlan:
    """The plan without keys that its version does not have but whose effect it has anyway: what
    nodes and topic get. What is requested in vain stays: a user who forces a plan wants to see the
    effect."""
    return _without(plan, lambda asked: asked.limit.kind == "absent" and not asked.vain)


def comparable(plan: KafkaPlan) -> KafkaPlan:
    """The plan with only what the cluster must report to be in force."""
    return _without(plan, lambda asked: asked.limit.kind == "absent" or asked.vain)


def unheeded(plan: KafkaPlan, settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the cluster reports about the settings that were requested in vain: `settings` as
    `Target.effective` has them."""
    sentences = []
    for asked in _asked(plan):
        if asked.place in ("broker", "topic") and asked.vain:
            value = settings.get(asked.place, {}).get(asked.key)
            report = (
                f"reports {value}, which proves nothing"
                if value is not None
                else "does not report it"
            )
            kind = KINDS[asked.limit.kind]
            sentences.append(f"{asked.where}: requested from a version that {kind}; it {report}")
    return sentences


def limits_of(plan: KafkaPlan) -> list[Limit]:
    """Those of the plan's version; none where it is not known."""
    if (version := version_of(plan)) is None:
        return []
    return [each for each in LIMITS if each.concerns(number_of(version), metadata_of(plan))]


def _asked(plan: KafkaPlan) -> Iterator[_Asked]:
    """What the plan requests, with the limits of its version that name it, whatever the value."""
    version, target, limits = version_of(plan), plan.target, limits_of(plan)
    given: Mapping[Place, Mapping[str, Scalar]] = {
        "target": {key: getattr(target, key) or 0 for key in ("metadata", "combined", "founders")},
        "feature": target.features,
        "broker": target.settings,
        "topic": plan.topic.settings,
        "producer": plan.workload.producer,
        "consumer": plan.workload.consumer,
    }
    for place, pairs in given.items():
        for key, value in pairs.items():
            name = canonical(key) if place == "producer" else key
            named = [limit for limit in limits if limit.names(place, name)]
            for limit in named or _unknown(plan, place, key, version):
                yield _Asked(place, key, value, limit, limit.values.meant(value))


def _unknown(plan: KafkaPlan, place: Place, key: str, version: str | None) -> Iterator[Limit]:
    """A name that Kafka's own definitions of the version do not have: of brokers, topics and Java's
    clients. What librdkafka and kafka-python know, they say themselves."""
    name, load = key, plan.workload
    if place == "producer" and load.client == JAVA:
        name = canonical(key, JAVA)
    elif place == "consumer" and load.consumer_client == JAVA:
        name = canonical(key, JAVA, "consumer")
    elif place not in ("broker", "topic"):
        return
    if unknown := why_unknown(name, place, version):
        ours, source = place in ("broker", "topic"), "Kafka's own definitions"
        yield Limit(key, place, "absent", source, unknown, forcible=ours)


def _without(plan: KafkaPlan, out: Callable[[_Asked], bool]) -> KafkaPlan:
    left_out = {(asked.place, asked.key) for asked in _asked(plan) if out(asked)}

    def kept(place: Place, pairs: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in pairs.items() if (place, key) not in left_out}

    target, topic = plan.target, plan.topic
    own = {
        "settings": kept("broker", target.settings),
        "features": kept("feature", target.features),
    }
    of_topic = {"settings": kept("topic", topic.settings)}
    return plan.model_copy(
        update={"target": target.model_copy(update=own), "topic": topic.model_copy(update=of_topic)}
    )

"""What a plan requests of a version of Kafka that does not honour it (`targets.kafka.limits`), or
does not even know its name (`targets.kafka.definitions`).

Such a plan is refused before it is run, with the reason and its source; `--force` runs it anyway,
and the run shows this. A setting that only states what a version without it does anyway is allowed,
and not sent. For everything else the cluster's own answers are compared with what was requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.plan import Scalar, number_of
from harness.protocols import Unsupported
from harness.wrong_values import dotted
from targets.kafka.clients.java.lines import JAVA
from targets.kafka.definitions import canonical, why_unknown
from targets.kafka.limits import KINDS, LIMITS, Limit, Place
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import KRAFT, ZOOKEEPER, metadata_of

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
            value = (
                str(requested.value).lower()
                if isinstance(requested.value, bool)
                else requested.value
            )
            kafka = f"Kafka {version_of(plan) or ''}{_MODES[limit.metadata]}".rstrip()
            sentences.append(
                Unsupported(
                    key=requested.where,
                    what=f"the plan requests {value}, but {kafka} {KINDS[limit.kind]}: "
                    f"{limit.reason}",
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

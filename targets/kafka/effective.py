"""What is in force in a cluster, compared with what its plan requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Cluster
from harness.run.cells import group_of, transactions_of
from targets.kafka import definitions, settings, support
from targets.kafka.clients import library_of
from targets.kafka.definitions import Level
from targets.kafka.groups.settings import consumer_settings
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.timeouts import shortened
from targets.kafka.transactions.client import reported_settings
from targets.kafka.transactions.settings import producer_settings

OURS: Final = "set by ackloss"


def effective(cluster: Cluster, plan: KafkaPlan) -> dict[str, Any]:
    """Settings of brokers, topic and clients, and finalized features. Raises TimeoutError where
    they are not reported, PlanError where a feature has another level than requested."""
    try:
        found = settings.effective(cluster, support.comparable(plan))
        features = mode_of(plan).features(cluster)
    except NoAnswer as error:
        raise TimeoutError(f"its settings were not reported: {error}") from error
    warnings = support.unheeded(plan, found) + settings.unreported(cluster, plan)
    found["producer"] = (
        library_of(plan).reported_settings(plan, cluster)
        if transactions_of(plan) is None
        else reported_settings(cluster, plan)
    )
    if (group := group_of(plan)) is not None:
        found["consumer"] = consumer_settings(plan, group)
    for feature, level in support.comparable(plan).target.features.items():
        if features.get(feature, 0) != level:
            raise PlanError(
                f"the cluster has level {features.get(feature, 0)}, but {level} was requested",
                key=f'target.features."{feature}"',
            )
    return {
        "settings": found,
        "features": features,
        "warnings": warnings,
        "origins": origins(plan, found),
        "shortened": shortened_in(plan, found),
    }


def origins(plan: KafkaPlan, found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Who decided the settings that the plan does not request and that are not Kafka's defaults:
    ackloss, or another setting that is requested."""
    ours, known = mode_of(plan).defaults(plan), definitions.definitions()
    library = library_of(plan)
    started = producer_settings(plan) if transactions_of(plan) else library.settings(plan)
    of_topic = {
        name[0]: f"as the brokers have {key}"
        for key, value in {**ours, **plan.target.settings}.items()
        if (name := definitions.of_topic(key, str(value)))
    }
    aliases = {
        definitions.canonical(key, library.naming): f"as {key}" for key in plan.workload.producer
    }
    return {
        "broker": {
            key: OURS
            for key, value in found["broker"].items()
            if key in ours
            or (
                definitions.why_refused(key)
                and key in known
                and value not in ("", None, known[key].defaults["broker"])
            )
        },
        "topic": {key: of_topic[key] for key in found["topic"] if key in of_topic},
        "producer": {**dict.fromkeys(started, OURS), **aliases},
        "consumer": dict.fromkeys(found.get("consumer", {}), OURS),
    }


def shortened_in(
    plan: KafkaPlan, found: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Time-outs in force that are shorter than Kafka's own, with Kafka's."""
    levels: tuple[Level, ...] = ("broker", "producer", "consumer")
    return {level: shortened(plan, level, found.get(level, {})) for level in levels}

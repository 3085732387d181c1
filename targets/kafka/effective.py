"""What is in force in a cluster, compared with what its plan requests."""

from __future__ import annotations

from typing import Any

from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Cluster
from harness.run.workload import group_of, transactions_of
from targets.kafka import settings, support
from targets.kafka.clients import library_of
from targets.kafka.groups.settings import consumer_settings
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.client import reported_settings


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
    return {"settings": found, "features": features, "warnings": warnings}

"""What Kafka's settings promise for the writes of a run, from its stored plan and effective
settings; and what a producer's `acks` means.

The only place that defines what `acks`, `enable.idempotence`, `min.insync.replicas` and the
settings of retention and compaction mean for a verdict. It reads documents and imports no client
library, which may read more than is meant: librdkafka takes 0.0, 00 and 0abc for 0, with which no
broker acknowledges writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness import registry
from harness.models import LOG, REGISTER, SET
from harness.protocols import Promises

OF_METADATA: Final = frozenset({REGISTER.name, SET.name})
"""The models whose operations are changes of metadata."""

_DELETES: Final = ("retention.", "log.retention.", "log.cleaner.", "min.compaction.lag.")
_POLICIES: Final = ("cleanup.policy", "log.cleanup.policy")
_LEAST: Final = "min.insync.replicas"
_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"


def promises(plan: Mapping[str, Any], producer: Mapping[str, Any]) -> Promises:
    """What a plan (plan.json) promises with these settings of its producers.

    Raises KeyError, TypeError or ValueError for a document that is not a plan.
    """
    once = str(producer.get("enable.idempotence", False)).lower() == "true"
    clients = int(plan["workload"].get("clients") or 1)
    return Promises(
        model=model_of(plan["workload"].get("name")),
        # Earlier versions took "00" and "0abc", which are 0 on the wire: no broker acknowledges.
        acknowledges=(acks_of(producer.get("acks", ALL)) or NOBODY) != NOBODY,
        once=once,
        deletes=_deletes(plan),
        partitions=int(plan["topic"]["partitions"]),
        replicas=max(int(plan["topic"]["replication_factor"]), min_insync_replicas(plan)),
        clients=clients,
        producers=clients,
        # A request that is sent again is overtaken by those in flight behind it; an idempotent
        # producer numbers its batches, and the broker refuses one that is out of sequence.
        ordered=once or str(producer.get(_IN_FLIGHT)) == "1",
    )


def model_of(workload: object) -> str:
    """The model of a workload's operations; that of runs of earlier versions is a log."""
    plugin = registry.plugins("workloads").get(str(workload))
    return str(plugin.model) if plugin is not None else LOG.name


def min_insync_replicas(plan: Mapping[str, Any]) -> int:
    """How many in-sync replicas a write with acks=all needs: the topic's setting, else the
    broker's, else Kafka's default."""
    topic, target = plan["topic"]["settings"], plan["target"]["settings"]
    return int(topic.get(_LEAST, target.get(_LEAST, 1)))


def _deletes(plan: Mapping[str, Any]) -> bool:
    """Whether the plan puts retention, compaction or clocks under test."""
    settings = {**plan["target"]["settings"], **plan["topic"]["settings"]}
    return (
        any(key.startswith(_DELETES) and str(value) != "-1" for key, value in settings.items())
        or any("compact" in str(settings.get(policy, "")) for policy in _POLICIES)
        or any("clock" in str(step.get("nemesis")) for step in plan["faults"])
    )


NOBODY: Final = "0"
LEADER: Final = "1"
ALL: Final = "all"
SPELLINGS: Final = "0, 1, -1 or all"

_MEANS: Final = {"0": NOBODY, "1": LEADER, "-1": ALL, "all": ALL}


def acks_of(value: object) -> str | None:
    """`NOBODY`, `LEADER` or `ALL`; null for what is not one of `SPELLINGS`, as a whole number or as
    text."""
    whole = isinstance(value, int | str)  # True and False are, and none of the spellings
    return _MEANS.get(str(value).strip().lower()) if whole else None

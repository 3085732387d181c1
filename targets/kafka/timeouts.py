"""Time-outs that a plan or ackloss has shorter than Kafka: which they are, what Kafka's own are,
and how long what a fault leads to takes with them.

A run takes a minute because they are short; times without acknowledgements are shorter with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from harness.plan import number_of
from harness.plan.model import USED, OwnKey
from harness.run.cells import group_of
from harness.wrong_values import dotted
from targets.kafka import definitions
from targets.kafka.clients import library_of
from targets.kafka.definitions import Level
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.support import version_of

_TIMEOUT: Final = re.compile(
    r".*(timeout|lag\.time\.max|heartbeat\.interval|backoff(\.max)?|wait\.max|max\.wait"
    r"|rebalance\.delay|metadata\.max\.age|metadata\.refresh\.interval)\.ms"
)
_BEFORE: Final = {"replica.lag.time.max.ms": "10000", "zookeeper.session.timeout.ms": "6000"}
_LONGER_SINCE: Final = (2, 5)
"""KIP-537 made both longer."""
_LAGS: Final = 1.5
"""The ISR is checked every half of the time that a replica may lag."""


def shortened(plan: KafkaPlan, level: Level, values: Mapping[str, Any]) -> dict[str, str]:
    """Those of these values that are shorter time-outs than Kafka's, with Kafka's."""
    return dict(_shortened(plan, level, values))


def _shortened(
    plan: KafkaPlan, level: Level, values: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    version = version_of(plan)
    for key, value in values.items():
        of_clients = definitions.meant(key, level) if level != "broker" else None
        known = definitions.definitions().get(of_clients.java if of_clients else key)
        if not _TIMEOUT.fullmatch(key) or known is None or level not in known.levels:
            continue
        default = known.defaults[level]
        if version is not None and number_of(version)[:2] < _LONGER_SINCE:
            default = _BEFORE.get(key, default)
        if default.isdigit() and str(value).isdigit() and int(value) < int(default):
            yield key, default


def real_timeouts(plan: KafkaPlan) -> list[OwnKey]:
    """See `harness.protocols.tools.TakesSettingsFiles`."""
    at: dict[Level, Mapping[str, Any]] = {
        "broker": {**mode_of(plan).defaults(plan), **plan.target.settings},
        "producer": library_of(plan).settings(plan),
    }
    keys = [
        OwnKey(
            key=key,
            state=USED,
            value=int(default),
            places=[dotted((*definitions.PLACES[level].split("."), key))],
            why="Kafka's own",
        )
        for level, values in at.items()
        for key, default in _shortened(plan, level, values)
    ]
    if group := group_of(plan):
        session = {"session.timeout.ms": round(group.session_s * 1000)}
        keys += [
            OwnKey(
                key=key,
                state=USED,
                value=int(default) / 1000,
                places=["workload.options.session_s"],
                why="Kafka's own, as an option of the workload",
            )
            for key, default in _shortened(plan, "consumer", session)
        ]
    return keys


def reacts_within_s(plan: KafkaPlan) -> float:
    """Until a leader has removed a follower from the ISR, and until a dead one is replaced."""
    values = {**mode_of(plan).defaults(plan), **plan.target.settings}
    lag_ms = float(values["replica.lag.time.max.ms"])
    sessions = ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")
    return (_LAGS * lag_ms + max(float(values.get(key, 0)) for key in sessions)) / 1000

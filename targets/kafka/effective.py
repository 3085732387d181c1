"""What is in force in a cluster, compared with what its plan requests.

From 0.11 on brokers report their settings (DescribeConfigs, KIP-133). Before, they are in the log
with which a broker starts: 0.9 and 0.10 print every value, 0.8 those that its file overrides; a
topic's settings are in the line about the creation of a replica's log, from 0.8.1 on.

A run takes a minute because time-outs are shorter than Kafka's; times without acknowledgements are
shorter with them. So it is said which they are, and what Kafka's own are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.plan import Scalar, number_of
from harness.plan.model import USED, OwnKey
from harness.protocols import Cluster, Node
from harness.run.cells import group_of, transactions_of
from harness.servers import setting_text
from harness.wrong_values import dotted
from targets.kafka import definitions, limits
from targets.kafka.brokers import BROKER, TOPIC, Ask, Values, ask_of, configs, features
from targets.kafka.clients import library_of
from targets.kafka.configuration import LOGS, node_ids
from targets.kafka.definitions import Level
from targets.kafka.groups.settings import consumer_settings
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.client import reported_settings
from targets.kafka.transactions.settings import producer_settings
from targets.kafka.versions import (
    KRAFT,
    controllers_report,
    metadata_of,
    reports_settings,
    version_of,
)

_OVERRIDDEN = re.compile(r"Property (\S+) is overridden to (.*?)(?: \(kafka\.utils\.\S+\))?$")
_PRINTED = re.compile(r"^\t([a-z][a-z0-9.]+) = (.*)$")
_OF_TOPIC = r"Created log for partition \[?{topic}[,-]\d+\]? in \S+ with properties \{{(.*?)\}}"


def reported(ask: Ask, nodes: Mapping[str, Node], plan: KafkaPlan) -> dict[str, Any]:
    """What the cluster reports, as `Target.effective` has it: of settings `broker` is what all
    brokers agree on, `differs`, by setting and node, what they do not. `warnings`: what cannot be
    compared.

    Raises PlanError when a setting that the plan requests is unknown to a node or differs,
    TimeoutError when settings are not reported.
    """
    try:
        return _reported(ask, nodes, plan)
    except NoAnswer as error:
        raise TimeoutError(f"its settings were not reported: {error}") from error


def _reported(ask: Ask, nodes: Mapping[str, Node], plan: KafkaPlan) -> dict[str, Any]:
    by_broker, topic, warnings = dict[str, Values](), None, list[str]()
    telling = {"broker", "controller"} if controllers_report(plan) else {"broker"}
    silent = [n.name for n in nodes.values() if "controller" in n.roles and not n.roles & telling]
    if silent and plan.target.settings:
        who = ", ".join(silent)
        warnings.append(f"target.settings: {who}: not compared, before 3.7 controllers report none")
    in_logs = not reports_settings(plan)
    for node in nodes.values():
        if not node.roles & telling:
            continue
        own: Values | None
        own, of_topic = _from_log(node, plan) if in_logs else _described(ask, node, plan)
        if own is None:
            warnings.append(f"target.settings: not compared: {node.name} does not let us read them")
        else:
            compare(plan.target.settings, own, where="target.settings", node=node.name)
            if "broker" in node.roles:
                by_broker[node.name] = own
        if of_topic is not None:
            topic = (topic or {}) | of_topic
    if topic is None:
        warnings.append("topic.settings: not compared: the cluster does not let us read them")
    else:
        compare(plan.topic.settings, topic, where="topic.settings", node="the topic")
    common, differs = agreed(by_broker)
    found = {"broker": common, "differs": differs, "topic": dict(sorted((topic or {}).items()))}
    first = next(node.name for node in nodes.values() if "broker" in node.roles)
    levels = features(ask, first) if metadata_of(plan) == KRAFT else {}
    return {"settings": found, "features": levels, "warnings": warnings}


def _described(ask: Ask, node: Node, plan: KafkaPlan) -> tuple[Values | None, Values | None]:
    number = node_ids(plan).get(node.name, node.name[1:])
    own = configs(ask, node.name, BROKER, str(number))
    if "broker" not in node.roles:
        return own, None
    return own, configs(ask, node.name, TOPIC, plan.topic.name)


def _from_log(node: Node, plan: KafkaPlan) -> tuple[Values, Values]:
    """A broker's settings, and those of the topic's replicas on it, from its start log."""
    lines = [
        line
        for _, content in sorted(node.get(LOGS).items(), reverse=True)
        for line in content.decode(errors="replace").splitlines()
    ]
    found = (_OVERRIDDEN.search(line) or _PRINTED.match(line) for line in lines)
    own: Values = {each.group(1): each.group(2) for each in found if each}
    return own, dict(_topics(lines, plan.topic.name))


def _topics(lines: list[str], topic: str) -> Iterator[tuple[str, str]]:
    pattern = re.compile(_OF_TOPIC.format(topic=re.escape(topic)))
    for line in lines:
        if found := pattern.search(line):
            for pair in found.group(1).split(", "):
                key, _, value = pair.partition(" -> ")
                yield key, value


def compare(requested: Mapping[str, Any], reported: Values, *, where: str, node: str) -> None:
    """Raise PlanError for the first setting that is requested and not in force."""
    for key, value in requested.items():
        if key not in reported:
            raise PlanError(f"{node} does not know this setting", key=f'{where}."{key}"')
        if normal(reported[key]) != normal(setting_text(value)):
            raise PlanError(
                f"{node} has {reported[key]!r}, but {setting_text(value)!r} was requested",
                key=f'{where}."{key}"',
            )


def normal(value: str | None) -> str | float | tuple[str, ...] | None:
    """Equal values of one type as equal things: 3000 and 3000.0, "a, b" and "a,b"."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    return tuple(part.strip() for part in value.split(",")) if "," in value else value.strip()


def agreed(by_node: Mapping[str, Values]) -> tuple[Values, dict[str, Values]]:
    """What all nodes agree on, and by key and node what they do not."""
    common, differs = {}, {}
    for key in sorted({key for values in by_node.values() for key in values}):
        of_key = {name: values.get(key) for name, values in by_node.items()}
        if len(set(of_key.values())) == 1:
            common[key] = next(iter(of_key.values()))
        else:
            differs[key] = of_key
    return common, differs


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
    found, version = dict[str, str](), version_of(plan)
    for key, value in values.items():
        of_clients = definitions.meant(key, level) if level != "broker" else None
        known = definitions.definitions().get(of_clients.java if of_clients else key)
        if not _TIMEOUT.fullmatch(key) or known is None or level not in known.levels:
            continue
        default = known.defaults[level]
        if version is not None and number_of(version)[:2] < _LONGER_SINCE:
            default = _BEFORE.get(key, default)
        if default.isdigit() and str(value).isdigit() and int(value) < int(default):
            found[key] = default
    return found


def real_timeouts(plan: KafkaPlan) -> list[OwnKey]:
    """See `Target.real_timeouts`."""
    at: dict[Level, Mapping[str, Any]] = {
        "broker": {**mode_of(plan).defaults(plan), **plan.target.settings},
        "producer": library_of(plan).settings(plan),
    }
    found: list[tuple[str, Scalar, str, str]] = [
        (key, int(default), dotted((*definitions.PLACES[level].split("."), key)), "Kafka's own")
        for level, values in at.items()
        for key, default in shortened(plan, level, values).items()
    ]
    if group := group_of(plan):
        session = {"session.timeout.ms": round(group.session_s * 1000)}
        place, why = "workload.options.session_s", "Kafka's own, as an option of the workload"
        found += [
            (key, int(default) / 1000, place, why)
            for key, default in shortened(plan, "consumer", session).items()
        ]
    return [
        OwnKey(key=key, state=USED, value=value, places=[place], why=why)
        for key, value, place, why in found
    ]


def reacts_within_s(plan: KafkaPlan) -> float:
    """Until a leader has removed a follower from the ISR, and until a dead one is replaced."""
    values = {**mode_of(plan).defaults(plan), **plan.target.settings}
    lag_ms = float(values["replica.lag.time.max.ms"])
    sessions = ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")
    return (_LAGS * lag_ms + max(float(values.get(key, 0)) for key in sessions)) / 1000


OURS: Final = "set by ackloss"


def effective(cluster: Cluster, plan: KafkaPlan) -> dict[str, Any]:
    """Settings of brokers, topic and clients, and finalized features. Raises TimeoutError where
    they are not reported, PlanError where a feature has another level than requested."""
    comparable = limits.comparable(plan)
    in_force = reported(ask_of(cluster.nodes, plan), cluster.nodes, comparable)
    found, levels = in_force["settings"], in_force["features"]
    found["producer"] = (
        library_of(plan).reported_settings(plan, cluster)
        if transactions_of(plan) is None
        else reported_settings(cluster, plan)
    )
    if (group := group_of(plan)) is not None:
        found["consumer"] = consumer_settings(plan, group)
    for feature, level in comparable.target.features.items():
        if levels.get(feature, 0) != level:
            raise PlanError(
                f"the cluster has level {levels.get(feature, 0)}, but {level} was requested",
                key=f'target.features."{feature}"',
            )
    shortest: tuple[Level, ...] = ("broker", "producer", "consumer")
    return {
        **in_force,
        "warnings": limits.unheeded(plan, found) + in_force["warnings"],
        "origins": origins(plan, found),
        "shortened": {level: shortened(plan, level, found.get(level, {})) for level in shortest},
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

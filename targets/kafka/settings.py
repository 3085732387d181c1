"""Settings as the cluster itself has them, compared with what the plan requests.

From 0.11 on brokers report them (DescribeConfigs, KIP-133). Before, they are in the log with which
a broker starts: 0.9 and 0.10 print every value, 0.8 those that its file overrides; a topic's
settings are in the line about the creation of a replica's log, from 0.8.1 on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.errors import PlanError
from harness.protocols import Cluster, Node
from targets.kafka import brokers
from targets.kafka.configuration import LOGS, node_ids, text
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import release_line_of

Values = dict[str, str | None]

_UNKNOWN_TYPE = 0
_OVERRIDDEN = re.compile(r"Property (\S+) is overridden to (.*?)(?: \(kafka\.utils\.\S+\))?$")
_PRINTED = re.compile(r"^\t([a-z][a-z0-9.]+) = (.*)$")
_OF_TOPIC = r"Created log for partition \[?{topic}[,-]\d+\]? in \S+ with properties \{{(.*?)\}}"


def effective(cluster: Cluster, plan: KafkaPlan) -> dict[str, Any]:
    """Every setting of the nodes and the topic that the cluster reports: `{"broker", "differs",
    "topic"}`, where `broker` holds what all brokers agree on and `differs`, by setting and node,
    what they do not.

    Raises PlanError when one that the plan requests is unknown to a node or differs.
    """
    by_broker, topic = {}, Values()
    requests = release_line_of(plan).requests
    read = _from_log if requests.describe_configs is None else _described
    requested = {"broker", "controller"} if requests.controllers_tell else {"broker"}
    for node in cluster.nodes.values():
        if not node.roles & requested:
            continue
        of_node, of_topic = read(node, plan)
        compare(plan.target.settings, of_node, where="target.settings", node=node.name)
        if "broker" in node.roles:
            by_broker[node.name], topic = of_node, topic | of_topic
    compare(plan.topic.settings, topic, where="topic.settings", node="the topic")
    common, differs = agreed(by_broker)
    return {"broker": common, "differs": differs, "topic": dict(sorted(topic.items()))}


def unreported(cluster: Cluster, plan: KafkaPlan) -> list[str]:
    """A sentence where settings cannot be compared, because controllers do not report theirs."""
    silent = [
        node.name
        for node in cluster.nodes.values()
        if "controller" in node.roles and "broker" not in node.roles
    ]
    if not silent or release_line_of(plan).requests.controllers_tell or not plan.target.settings:
        return []
    return [
        f"target.settings: {', '.join(silent)}: not compared, before 3.7 controllers report none"
    ]


def _described(node: Node, plan: KafkaPlan) -> tuple[Values, Values]:
    """A node's settings and, from a broker, the topic's."""
    own = known(brokers.configs(node, plan, brokers.BROKER, str(node_ids(plan)[node.name])))
    if "broker" not in node.roles:
        return own, {}
    return own, known(brokers.configs(node, plan, brokers.TOPIC, plan.topic.name))


def known(configs: Mapping[str, Any]) -> Values:
    """Values by name, without the keys that a broker only echoes: those have no value, and no type
    where it reports types."""
    return {
        name: config.value
        for name, config in sorted(configs.items())
        if not (config.value is None and getattr(config, "config_type", 0) == _UNKNOWN_TYPE)
    }


def _from_log(node: Node, plan: KafkaPlan) -> tuple[Values, Values]:
    """A broker's settings, and those of the topic's replicas on it, from its start log."""
    lines = [
        line
        for _, content in sorted(node.get(LOGS).items(), reverse=True)
        for line in content.decode(errors="replace").splitlines()
    ]
    return dict(_own(lines)), dict(_topics(lines, plan.topic.name))


def _own(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if found := _OVERRIDDEN.search(line) or _PRINTED.match(line):
            yield found.group(1), found.group(2)


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
        if normal(reported[key]) != normal(text(value)):
            raise PlanError(
                f"{node} has {reported[key]!r}, but {text(value)!r} was requested",
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

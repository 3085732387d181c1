"""Writes reference documentation from the code. docs/reference/plan.md: the schema of plans;
kafka-versions.md: what ackloss sets, and limits of versions; docs/how-to/campaigns.md: the keys of
a campaign file. With --check it only reports whether they are current."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Mapping
from inspect import cleandoc
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harness import registry
from harness.campaigns.plan import CampaignPlan
from harness.faults.leaders import quorum_vocabulary
from harness.models import MODELS
from harness.protocols.faults import Vocabulary
from harness.run.preview import plan_schema
from harness.servers import ServerSystem, ServerTargetPlan, ServerWorkloadPlan
from targets.kafka import definitions
from targets.kafka import kraft as kraft_layout
from targets.kafka import zookeeper as zookeeper_layout
from targets.kafka.limits import ANY, LIMITS, Limit
from targets.memory.plan import ABSENT

Schema = Mapping[str, Any]
"""A JSON Schema: an object of keys that pydantic chooses."""

DOCS = Path(__file__).parents[1] / "docs"
PLAN, VERSIONS = (DOCS / "reference" / name for name in ("plan.md", "kafka-versions.md"))
CAMPAIGNS = DOCS / "how-to" / "campaigns.md"

HEAD = """\
# Plans

Every key of a plan, which is one TOML file, with its type and default. This page is generated
(`make docs`); `ackloss plan schema` prints Kafka's as JSON Schema. `ackloss plan validate FILE`
checks a plan, `ackloss run --dry-run FILE` shows what it would do. `--set KEY=VALUE` changes a key
for one run: `--set target.version=3.9.2`, `--set topic.settings.min.insync.replicas=2` (below a
table of settings, the rest is one key), `--set faults.kill.at_s=3` (the step whose `id` is
`kill`). Settings of topics, brokers and clients: [settings.md](settings.md), `ackloss list
settings`. A range without a type is of integers.
"""

SCHEDULES = """\
## Named schedules

`schedule = "NAME"` in place of steps: `ackloss list schedules` shows them, `ackloss run --dry-run`
prints their steps.
"""

TABLES = {
    "": ("", "Keys at the top"),
    "cluster": ("ClusterPlan", "[cluster]"),
    "target": ("KafkaTargetPlan", "[target] of Kafka"),
    "topic": ("TopicPlan", "[topic] of Kafka"),
    "workload": ("KafkaWorkloadPlan", "[workload] of Kafka"),
    "faults": ("FaultStep", "[[faults]]"),
    "mix": ("Mix", "[mix]"),
    "families": ("Family", "[[mix.families]]"),
    "final": ("FinalPlan", "[final]"),
    "checks": ("Check", "[[checks]]"),
    "reference": ("Reference", "[[reference]]"),
    "figures": ("Figures", "[reference.figures]"),
    "cells": ("Cell", "[[cells]]"),
}
ZOOKEEPER_TABLES = {
    "target": ("ZooKeeperTargetPlan", "[target] of ZooKeeper"),
    "ensemble": ("EnsemblePlan", "[ensemble] of ZooKeeper"),
    "workload": ("ZooKeeperWorkloadPlan", "[workload] of ZooKeeper"),
}
SERVER_TABLES: Mapping[str, type[BaseModel]] = {
    "target": ServerTargetPlan,
    "workload": ServerWorkloadPlan,
}
SERVERS = {
    "etcd": "etcd",
    "galera": "MariaDB Galera",
    "nats": "NATS",
    "postgresql": "PostgreSQL",
    "rabbitmq": "RabbitMQ",
    "redis": "Redis and Valkey",
}
"""Systems of servers with the base's sections, by their names in plans, and in words."""
GENERAL = "The workload and the clients that run it."
MEMORY_TABLES = {
    "target": ("MemoryTargetPlan", "[target] of memory"),
    "workload": ("WorkloadPlan", "[workload] of memory"),
}
CAMPAIGN_TABLES = {
    "CampaignPlan": "Keys at the top",
    "Axis": "[axes.NAME]",
    "Choice": "[axes.NAME.choices.LABEL]",
    "Budget": "[budget]",
    "Policy": "[policy]",
}
KEYS_BEGIN, KEYS_END = "<!-- keys: written by `make docs` -->", "<!-- end of keys -->"
OURS_BEGIN, OURS_END = "<!-- ours: written by `make docs` -->", "<!-- end of ours -->"
LIMITS_BEGIN, LIMITS_END = "<!-- limits: written by `make docs` -->", "<!-- end of limits -->"


def plan_page() -> str:
    """The whole page of plans."""
    schema, of_zookeeper, of_memory = plan_schema(), plan_schema("zookeeper"), plan_schema("memory")
    parts = [HEAD]
    parts += [_section(schema, *each) for each in TABLES.values()]
    known = {key: schema["$defs"][name]["properties"] for key, (name, _) in TABLES.items() if name}
    for key, plan in SERVER_TABLES.items():
        of_servers = plan.model_json_schema()
        title = f"[{key}] of systems of servers"
        parts.append(_section(of_servers, "", title, known=known[key]))
        known[key] = {**known[key], **of_servers["properties"]}
    for key, each in ZOOKEEPER_TABLES.items():
        parts.append(_section(of_zookeeper, *each, known=known.get(key)))
    general = {plan.__name__ for plan in SERVER_TABLES.values()}
    for system, name in SERVERS.items():
        of_system = plan_schema(system)
        for key in ("target", "stream", "queue", "workload"):
            if (field := of_system["properties"].get(key)) is not None:
                definition, title = field["$ref"].rpartition("/")[2], f"[{key}] of {name}"
                if definition not in general:
                    parts.append(_section(of_system, definition, title, base=known.get(key)))
    for key, each in MEMORY_TABLES.items():
        parts.append(_section(of_memory, *each, without=ABSENT, known=known.get(key)))
    parts += [_workloads(), _checkers(), _nemeses()]
    parts.append(SCHEDULES)
    parts.append(_module_words("Selectors: which nodes", "harness.faults.selectors"))
    parts.append(
        _module_words("Selectors and conditions of Kafka", "targets.kafka.log", "Kafka's words")
    )
    parts.append(
        _module_words("Selectors and conditions of memory", "targets.memory.system", "The words")
    )
    parts.append(_words_of_servers())
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _section(
    schema: Schema,
    definition: str,
    title: str,
    *,
    without: Container[str] = (),
    known: Schema | None = None,
    base: Schema | None = None,
) -> str:
    """The keys of one section of plans, without those that its target refuses, those that are the
    same in an earlier section (`known`: these are named; `base`: this section has all of them), and
    the name of the system."""
    part = schema["$defs"][definition] if definition else schema
    words, keys = part.get("description", "").strip(), part["properties"]
    earlier = known or base or {}
    if earlier:
        words = words.removeprefix(GENERAL).strip()
    if refused := [f"`{key}`" for key in keys if key in without]:
        words += f" Refused, because only real nodes have them: {', '.join(refused)}."
    same = [key for key in keys if earlier.get(key) == keys[key] and key not in without]
    if known and same:
        words += f" As above: {', '.join(f'`{key}`' for key in same)}."
    hidden = {*same, *(("system",) if earlier else ())}
    shown = {key: field for key, field in keys.items() if key not in without and key not in hidden}
    listed = _keys({"properties": shown})
    return "\n\n".join(filter(None, (f"## {title}", words.strip(), listed)))


def _keys(schema: Schema, meanings: Mapping[str, str] | None = None) -> str:
    """A list of keys: type, default and meaning of each. A type that the default shows is left out,
    and values that the meaning names."""
    lines = []
    for key, field in schema["properties"].items():
        meaning = (meanings or {}).get(key) or field.get("description") or f"see [{key}]"
        stated = [_type(field)]
        if field.get("default") is not None and field["default"] != "":
            obvious = stated[0] in ("string", "boolean", "list", "number", "integer")
            explained = "enum" in field and all(f"{each}:" in meaning for each in field["enum"])
            stated = [] if obvious or explained else [stated[0].removeprefix("integer, ")]
            stated.append(f"`{_toml(field['default'])}`")
        lines.append(f"- `{key}` ({'; '.join(stated)}): {meaning}")
    return "\n".join(lines)


def _type(field: Schema) -> str:
    if "anyOf" in field:
        kinds = [_type(option) for option in field["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in field:
        return f"`{_toml(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{_toml(value)}`" for value in field["enum"])
    if "$ref" in field:
        return "table"
    stated = str(field.get("type", "any"))
    kind = {"object": "table", "array": "list"}.get(stated, stated)
    if "minimum" in field and "maximum" in field:
        return f"{kind}, {field['minimum']}–{field['maximum']}"
    low = [f"≥ {field['minimum']}"] if "minimum" in field else []
    low += [f"> {field['exclusiveMinimum']}"] if "exclusiveMinimum" in field else []
    high = [f"≤ {field['maximum']}"] if "maximum" in field else []
    high += [f"< {field['exclusiveMaximum']}"] if "exclusiveMaximum" in field else []
    return ", ".join([kind, *low, *high])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value) if not isinstance(value, str) else f'"{value}"'


def _workloads() -> str:
    """The workloads, and which systems run them."""
    parts = [
        "## Workloads and their options\n\nA workload is named by `workload.name`; its options are "
        "keys of `[workload.options]`. One that ends in `_share` is from 0 to 1."
    ]
    targets, seen = registry.plugins("targets"), dict[str, str]()
    for name, plugin in registry.plugins("workloads").items():
        systems = [f"`{each}`" for each, target in targets.items() if plugin.model in target.models]
        check = MODELS[plugin.model].check
        facts = f"Systems: {', '.join(systems)}. Checker by default: `{check}`."
        parts.append(_plugin(f"Workload {name}", plugin, facts, seen))
    return "\n\n".join(parts)


def _checkers() -> str:
    """The checkers, and which workloads they judge."""
    parts = [
        "## Checkers and their options\n\nOptions are keys of the check, as in `checks = "
        '[{ name = "set", linearizable = true }]`; of `ackloss check --history`, they are given '
        "with `--option`."
    ]
    workloads, seen = registry.plugins("workloads"), dict[str, str]()
    for name, plugin in registry.plugins("checkers").items():
        judged = [f"`{each}`" for each, load in workloads.items() if load.model in plugin.models]
        named = "all" if len(judged) == len(workloads) else ", ".join(judged)
        parts.append(_plugin(f"Checker {name}", plugin, f"Workloads: {named}.", seen))
    return "\n\n".join(parts)


def _nemeses() -> str:
    parts = ["## Nemeses and their options\n\nOptions are keys of the step."]
    parts += [_plugin(name, plugin, "", {}) for name, plugin in registry.plugins("nemeses").items()]
    return "\n\n".join(parts)


def _plugin(title: str, plugin: type[Any], facts: str, seen: dict[str, str]) -> str:
    """A plug-in with the table of its options, if it has any; of long ones that an earlier plug-in
    of `seen` has too, only the names."""
    schema = registry.adapter(plugin).json_schema()
    words, meanings = _described(plugin.__doc__ or "", schema.get("properties", {}))
    table = _keys(schema, meanings) if schema.get("properties") else ""
    if table in seen:
        named = ", ".join(f"`{key}`" for key in schema["properties"])
        facts, table = f"{facts} Options as of {seen[table]}: {named}.", ""
    elif table:
        seen[table] = f"`{plugin.plugin}`"
    return "\n\n".join(filter(None, (f"### {title}", words, facts, table)))


def _described(docstring: str, options: Schema) -> tuple[str, dict[str, str]]:
    """A docstring without its list of options, and the meanings of the options in that list."""
    words: list[str] = []
    meanings: dict[str, str] = {}
    option = ""
    for line in cleandoc(docstring).splitlines():
        name, gap, meaning = line.partition("  ")
        if gap and name in options:
            option, meanings[name] = name, meaning.strip()
        elif option and line.startswith(" "):
            meanings[option] += f" {line.strip()}"
        else:
            option = ""
            words.append(line)
    return "\n".join(words).strip(), meanings


def _module_words(title: str, module: str, first: str = "") -> str:
    """The docstring of a module, from the paragraph on that begins with these words."""
    words = (__import__(module, fromlist=["__doc__"]).__doc__ or "").strip()
    return f"## {title}\n\n{words[words.index(first) :]}"


def _words_of_servers() -> str:
    """What systems of servers have in common: the words of their base, with their meanings, and
    the roles of each system's servers. Raises AssertionError for one with other words."""
    roles: dict[str, list[str]] = {}
    for name, plugin in registry.plugins("targets").items():
        if issubclass(plugin, ServerSystem):
            target = registry.target_named(name)
            assert words_of(target.vocabulary()) == words_of(quorum_vocabulary("")), name
            own = sorted({target.role("n1"), target.role("o1"), *target.voters})
            roles.setdefault(" and ".join(f"`role:{each}`" for each in own), []).append(name)
    words = cleandoc(quorum_vocabulary.__doc__ or "").partition("Selectors of its servers:")[2]
    having = "; ".join(f"{', '.join(names)} ({own})" for own, names in roles.items())
    title = "## Selectors and conditions of systems of servers"
    return f"{title}\n\n{having}:{words}"


def words_of(vocabulary: Vocabulary) -> list[str]:
    """The selectors and conditions that a system has, as its documentation writes them."""
    numbered = [f"{name}(N)" for name in vocabulary.numbered]
    return [*vocabulary.words, *numbered, *(each.form for each in vocabulary.conditions)]


def campaigns_page() -> str:
    """The page of campaigns with its tables of keys rewritten."""
    schema = CampaignPlan.model_json_schema(by_alias=True)
    tables = []
    for definition, title in CAMPAIGN_TABLES.items():
        part = schema if definition == "CampaignPlan" else schema["$defs"][definition]
        words = part.get("description", "").strip()
        tables.append(f"### {title}\n\n{words}\n\n{_keys(part)}")
    return _with_part(CAMPAIGNS, KEYS_BEGIN, tables, KEYS_END)


def _with_part(page: Path, begin: str, parts: list[str], end: str) -> str:
    """A page with the part between two marks replaced."""
    return _replaced(page.read_text(encoding="utf-8"), begin, parts, end)


def _replaced(text: str, begin: str, parts: list[str], end: str) -> str:
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return "\n\n".join([f"{before}{begin}", *parts, f"{end}{after}"])


def versions_page() -> str:
    """The page of Kafka's versions, with what ackloss sets and the limits of versions rewritten."""
    limits = []
    alike = groupby(LIMITS, lambda each: (each.keys, each.places, each.reason))
    for (names, places, reason), each in alike:
        group = list(each)
        keys = ", ".join(f"`{key}`" for key in names.split())
        where = places.replace(" ", ", ")
        spans = [f"{_values(limit)}{_span(limit)}: *{limit.kind}*" for limit in group]
        source = ", ".join(dict.fromkeys(limit.source for limit in group))
        limits.append(f"- {keys} ({where}; {'; '.join(spans)}): {reason} ({source})")
    page = _with_part(VERSIONS, LIMITS_BEGIN, ["\n".join(limits)], LIMITS_END)
    return _replaced(page, OURS_BEGIN, ["\n".join(_ours())], OURS_END)


def _ours() -> Iterator[str]:
    """The settings of brokers that ackloss sets unless the plan does."""
    known = definitions.definitions()
    zookeeper = {key: (value, since) for key, value, since in zookeeper_layout.DEFAULTS}
    yield "| setting | ackloss | Kafka's default today | where |\n|---|---|---|---|"
    for key in dict.fromkeys([*kraft_layout.DEFAULTS, *zookeeper]):
        value = zookeeper[key][0] if key in zookeeper else kraft_layout.DEFAULTS[key]
        if key in kraft_layout.DEFAULTS:
            where = "all" if key in zookeeper else "KRaft"
        else:
            where = "ZooKeeper"
        since = zookeeper[key][1] if key in zookeeper else ()
        if since > (0, 8, 0):
            released = (tuple(map(int, each.split("."))) for each in definitions.versions())
            first = min(each for each in released if each >= since)
            where += f", from {'.'.join(map(str, first))} on"
        default = known[key].defaults.get("broker", "") if key in known else ""
        yield f"| `{key}` | {_toml(value)} | {default} | {where} |"


def _values(limit: Limit) -> str:
    return "" if limit.values is ANY else f"{limit.values.words}, "


def _span(limit: Limit) -> str:
    mode = f" with {limit.metadata}" if limit.metadata else ""
    return f"{_versions(limit)}{mode}"


def _versions(limit: Limit) -> str:
    if limit.since and limit.before:
        return f"{limit.since} to before {limit.before}"
    if limit.since:
        return f"from {limit.since} on"
    return f"before {limit.before}" if limit.before else "all"


def main() -> int:
    """Write the pages, or report which are stale."""
    pages = {
        PLAN: plan_page(),
        CAMPAIGNS: campaigns_page(),
        VERSIONS: versions_page(),
    }
    if "--check" not in sys.argv:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in pages.items() if _current(path) != text]
    for path in stale:
        print(f"docs/{path.relative_to(DOCS)} is not current: run `make docs`")
    return 1 if stale else 0


def _current(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())

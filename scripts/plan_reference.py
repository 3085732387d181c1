"""Writes docs/plan.md from the plan's own schema, and the keys of a campaign file into
docs/campaigns.md from its own; with --check only says whether they are current."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from harness import registry
from harness.campaigns.plan import CampaignPlan
from harness.expansion import named_schedules
from harness.preview import plan_schema

DOCS = Path(__file__).parents[1] / "docs"
PLAN, CAMPAIGNS = DOCS / "plan.md", DOCS / "campaigns.md"

HEAD = """\
# Plans

A plan is one TOML file. This page is generated from its schema (`make docs`); the same as JSON
Schema: `ackloss plan schema`. `ackloss plan validate FILE` checks a plan, `ackloss run --dry-run
FILE` says what it would do. `--set KEY=VALUE` changes a key for one run:
`--set target.version=3.9.2`, `--set 'topic.settings."min.insync.replicas"=2'`.
"""

TABLES = {
    "": ("Plan", "Keys at the top"),
    "cluster": ("ClusterPlan", "[cluster]"),
    "target": ("TargetPlan", "[target]"),
    "topic": ("TopicPlan", "[topic]"),
    "workload": ("WorkloadPlan", "[workload]"),
    "faults": ("FaultStep", "[[faults]]"),
    "mix": ("Mix", "[mix]"),
    "families": ("Family", "[[mix.families]]"),
    "final": ("FinalPlan", "[final]"),
    "reference": ("Reference", "[[reference]]"),
    "figures": ("Figures", "[reference.figures]"),
}
CAMPAIGN_TABLES = {
    "CampaignPlan": "Keys at the top",
    "Axis": "[axes.NAME]",
    "Choice": "[axes.NAME.choices.LABEL]",
    "Budget": "[budget]",
    "Policy": "[policy]",
}
KEYS_BEGIN, KEYS_END = "<!-- keys: written by `make docs` -->", "<!-- end of keys -->"


def plan_page() -> str:
    """The whole page of plans."""
    schema = plan_schema()
    parts = [HEAD]
    for definition, title in TABLES.values():
        told = schema if definition == "Plan" else schema["$defs"][definition]
        parts.append(f"## {title}\n\n{told.get('description', '').strip()}\n\n{_table(told)}")
    parts.append(_nemeses())
    parts.append(_schedules())
    parts.append(_module_words("Selectors: which nodes", "harness.selectors"))
    parts.append(_module_words("Observations: when", "harness.conditions"))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _schedules() -> str:
    """The named schedules."""
    rows = [f"| `{name}` | {told['about']} |" for name, told in named_schedules().items()]
    return "\n".join(
        [
            "## Named schedules",
            "",
            '`schedule = "NAME"` in place of steps; `ackloss run --dry-run` prints its steps.',
            "",
            "| name | what happens |",
            "|---|---|",
            *rows,
        ]
    )


def _table(told: dict[str, Any]) -> str:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, field in told["properties"].items():
        meaning = field.get("description") or f"see [{key}]"
        default = "" if "default" not in field else f"`{_toml(field['default'])}`"
        rows.append(f"| `{key}` | {_type(field)} | {default} | {meaning} |")
    return "\n".join(rows)


def _type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        kinds = [_type(option) for option in field["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in field:
        return f"`{_toml(field['const'])}`"
    if "enum" in field:
        return " or ".join(f"`{_toml(value)}`" for value in field["enum"])
    if "$ref" in field:
        return "table"
    kind = {"object": "table", "array": "list"}.get(field.get("type", ""), field.get("type", "any"))
    low = [f"≥ {field['minimum']}"] if "minimum" in field else []
    low += [f"> {field['exclusiveMinimum']}"] if "exclusiveMinimum" in field else []
    high = [f"≤ {field['maximum']}"] if "maximum" in field else []
    high += [f"< {field['exclusiveMaximum']}"] if "exclusiveMaximum" in field else []
    return ", ".join([kind, *low, *high])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value) if not isinstance(value, str) else f'"{value}"'


def _nemeses() -> str:
    parts = ["## Nemeses and their options\n\nOptions stand beside the keys of the step."]
    for name, plugin in registry.plugins("nemeses").items():
        words = "\n".join(line.strip() for line in (plugin.__doc__ or "").strip().splitlines())
        schema = registry.adapter(plugin).json_schema()
        table = f"\n\n{_table(schema)}" if schema.get("properties") else ""
        parts.append(f"### {name}\n\n{words}{table}")
    return "\n\n".join(parts)


def _module_words(title: str, module: str) -> str:
    words = (__import__(module, fromlist=["__doc__"]).__doc__ or "").strip()
    return f"## {title}\n\n{words}"


def campaigns_page() -> str:
    """The page of campaigns as it is, its tables of keys written anew."""
    before, _, rest = CAMPAIGNS.read_text(encoding="utf-8").partition(KEYS_BEGIN)
    _, _, after = rest.partition(KEYS_END)
    schema = CampaignPlan.model_json_schema(by_alias=True)
    tables = []
    for definition, title in CAMPAIGN_TABLES.items():
        told = schema if definition == "CampaignPlan" else schema["$defs"][definition]
        words = told.get("description", "").strip()
        tables.append(f"### {title}\n\n{words}\n\n{_table(told)}")
    return "\n\n".join([f"{before}{KEYS_BEGIN}", *tables, f"{KEYS_END}{after}"])


def main() -> int:
    """Write the pages, or compare them."""
    pages = {PLAN: plan_page(), CAMPAIGNS: campaigns_page()}
    if "--check" not in sys.argv:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in pages.items() if _current(path) != text]
    for path in stale:
        print(f"docs/{path.name} is not what the schema says: run `make docs`")
    return 1 if stale else 0


def _current(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())

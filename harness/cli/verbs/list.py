"""`ackloss list`."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import rich_click as click

from harness import registry
from harness.cli.output import Output, with_output
from harness.plan.expansion import named_schedules

SCHEDULES = "schedules"


@click.command()
@click.argument("kind", required=False, type=click.Choice((*registry.KINDS, SCHEDULES)))
@with_output
def list(out: Output, kind: str | None) -> None:
    """The plug-ins there are, with their options, and the named schedules."""
    kinds = [kind] if kind else [*registry.KINDS, SCHEDULES]
    found = {
        k: {n: _described(p) for n, p in registry.plugins(k).items()}
        for k in kinds
        if k != SCHEDULES
    }
    schedules = (
        {name: told["about"] for name, told in named_schedules().items()}
        if SCHEDULES in kinds
        else {}
    )
    out.document({"schema": 1, "plugins": found, "schedules": schedules})
    if out.json:
        return
    for k, plugins in found.items():
        out.say(k, style="bold")
        for name, told in plugins.items():
            out.say(f"  {name:12} {told['about'].splitlines()[0]}")
            for option in told["options"]:
                out.say(f"    {option['name']} = {option['default']}   {option['type']}")
    if schedules:
        out.say(SCHEDULES, style="bold")
    for name, about in schedules.items():
        out.say(f"  {name:22} {about}")


def _described(plugin: type[Any]) -> dict[str, Any]:
    return {
        "about": inspect.getdoc(plugin) or "",
        "options": [
            {
                "name": field.name,
                "type": str(field.type),
                "default": None if field.default is dataclasses.MISSING else field.default,
            }
            for field in dataclasses.fields(plugin)
        ],
    }

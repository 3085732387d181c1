"""`ackloss plan validate|schema|show`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from ackloss.cli.output import Output, with_output, with_plan_options
from ackloss.cli.plans import FileOrName, resolved_plan
from harness.errors import Mistakes


@click.group()
def plan() -> None:
    """Inspect plans without running them."""


@plan.command()
@click.argument("files", nargs=-1, required=True, type=FileOrName())
@with_plan_options
@with_output
def validate(
    out: Output, files: tuple[Path, ...], changes: tuple[str, ...], seed: int | None
) -> None:
    """Check plans as far as possible without a cluster."""
    from harness.run.preview import warnings

    documents, mistakes = [], Mistakes()
    for file in files:
        with mistakes.noted():
            plan = resolved_plan(file, changes, seed)
            found = warnings(plan)
            documents.append({"file": str(file), "name": plan.plan.name, "warnings": found})
            if not out.json:
                out.say(f"{file}: valid")
                for warning in found:
                    out.progress(f"  warning: {warning}", style="yellow")
    mistakes.refuse()
    out.document({"schema": 1, "plans": documents})


@plan.command()
@with_output
def schema(out: Output) -> None:
    """Print the JSON Schema of plans, including the options of plug-ins."""
    from harness.run.preview import plan_schema

    out.show(plan_schema())


@plan.command()
@click.argument("file", type=FileOrName())
@with_plan_options
@with_output
def show(out: Output, file: Path, changes: tuple[str, ...], seed: int | None) -> None:
    """Print a plan with all its defaults."""
    out.show(resolved_plan(file, changes, seed, force=True).plan.document())

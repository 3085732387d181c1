"""`ackloss plan validate|schema|show`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from harness.cli.output import Output, with_output, with_plan_options


@click.group()
def plan() -> None:
    """Look at plans without playing them."""


@plan.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@with_plan_options
@with_output
def validate(
    out: Output, files: tuple[Path, ...], changes: tuple[str, ...], seed: int | None
) -> None:
    """Check plans as far as that can be done without a cluster."""
    from harness.cli.verbs.run import resolved_plan
    from harness.run.preview import warnings

    told = []
    for file in files:
        bound = resolved_plan(file, changes, seed)
        notes = warnings(bound)
        told.append({"file": str(file), "name": bound.plan.name, "warnings": notes})
        if not out.json:
            out.say(f"{file}: valid")
            for note in notes:
                out.say(f"  warning: {note}", style="yellow")
    out.document({"schema": 1, "plans": told})


@plan.command()
@with_output
def schema(out: Output) -> None:
    """The JSON Schema of plans, plug-ins' options included."""
    import orjson

    from harness.run.preview import plan_schema

    document = plan_schema()
    if out.json:
        out.document(document)
    else:
        out.say(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


@plan.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@with_plan_options
@with_output
def show(out: Output, file: Path, changes: tuple[str, ...], seed: int | None) -> None:
    """A plan with all its defaults filled in."""
    import orjson

    from harness.cli.verbs.run import resolved_plan

    document = resolved_plan(file, changes, seed, force=True).plan.document()
    if out.json:
        out.document(document)
    else:
        out.say(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())

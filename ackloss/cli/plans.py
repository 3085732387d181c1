"""`ackloss plan validate|schema|show` and `ackloss new`: plans, without running them."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, cast

import rich_click as click

from ackloss.cli.options import FileOrName, with_plan_options
from ackloss.cli.output import Output, with_output
from harness import registry
from harness.errors import EnvironmentFailure, Mistakes, disk_errors

_PLAN = """\
# A plan: one question to one cluster. Every key is explained in docs/reference/plan.md.
#   ackloss run {file} --dry-run     shows what it will do
#   ackloss run {file}               runs it: 0 nothing lost, 1 lost, 3 unknown
schema = 1
name = "{name}"
seed = 1                      # the same plan and seed: the same random choices

[target]
system = "{system}"
{version}{settings}rate_per_s = {rate}              # operations a second, of all clients together
duration_s = 40               # every fault must fit into it

# {about}
{faults}"""
_STOCK = "kill-leader"


@click.command()
@click.argument("file", default="my-plan.toml", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--system", help="The system under test.")
@click.option("--release", help="Its version, such as 3.9 or 3.9.2.")
@click.option("--settings", help="Which settings to begin with.")
@click.option("--schedule", help="What goes wrong: a name that `ackloss list schedules` shows.")
@click.option("--rate", type=click.IntRange(1, 100_000), help="Operations a second.")
@with_output
def new(
    out: Output,
    file: Path,
    system: str | None,
    release: str | None,
    settings: str | None,
    schedule: str | None,
    rate: int | None,
) -> None:
    """Write a plan of your own, with comments.

    At a terminal it asks for what no option answers; elsewhere it takes the defaults.
    """
    from harness.plan import TargetPlan, parse_plan
    from harness.plan.steps import named_schedules
    from harness.protocols import Target
    from harness.run.resolving import resolve

    if file.exists():
        raise EnvironmentFailure(
            "this file exists already", file=str(file), hint="name another one"
        )
    targets = {
        name: cast("Target[Any]", registry.target_named(name))
        for name in registry.usable("targets")
    }
    starting = [name for name, target in targets.items() if target.starters]
    system = _answer(out, "Which system?", system, starting, registry.default_target())
    target = targets[system]
    newest = cast("type[TargetPlan]", target.plan.model_fields["target"].annotation).newest
    if newest or release:
        release = _answer(out, "Which version?", release, None, newest[-1] if newest else None)
    settings = _answer(out, "Which settings?", settings, list(target.starters), None)
    abouts = {name: each["about"] for name, each in named_schedules().items()}
    for name, about in abouts.items():
        out.progress(f"  {name:24} {about}")
    schedule = _answer(out, "What goes wrong?", schedule, list(abouts), _STOCK)
    rate = rate or int(_answer(out, "How many writes a second?", None, None, "100"))
    steps = (resources.files("schedules") / f"{schedule}.toml").read_text(encoding="utf-8")
    text = _PLAN.format(
        file=file,
        name=file.stem,
        system=system,
        version=f'version = "{release}"\n' if release else "",
        settings=target.starters[settings],
        rate=rate,
        about=abouts[schedule],
        faults=steps.partition("\n\n")[2],
    )
    plan = parse_plan(tomllib.loads(text), file=str(file))
    resolve(plan, file=str(file))
    text = text.replace(f'version = "{release}"', f'version = "{plan.target.version}"')
    with disk_errors("cannot be written", file):
        file.write_text(text, encoding="utf-8")
    out.say(f"{file} is written: ackloss run {file} --dry-run")
    out.document({"schema": 1, "file": str(file)})


def _answer(
    out: Output, question: str, given: str | None, choices: list[str] | None, default: str | None
) -> str:
    """What an option or the user answers; the default where nobody can be asked."""
    choice = click.Choice(choices) if choices else None
    default = default or (choices[0] if choices else None)
    if given is not None:
        return str(choice.convert(given, None, None)) if choice else given
    if out.json or not out.console.is_terminal:
        return str(default)
    return str(click.prompt(question, type=choice, default=default))


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
    from ackloss.session import Session
    from harness.run.preview import warnings

    session, documents, mistakes = Session(), list[dict[str, object]](), Mistakes()
    for file in files:
        with mistakes.noted():
            plan = session.resolve(file, changes, seed, run=False)
            found = warnings(plan)
            documents.append({"file": str(file), "name": plan.plan.name, "warnings": found})
            if not out.json:
                out.say(f"{file}: valid")
                for warning in found:
                    out.progress(f"  warning: {warning}", style="yellow")
    mistakes.refuse()
    out.document({"schema": 1, "plans": documents})


@plan.command()
@click.option("--target", help="The system under test; default: the one that plans default to.")
@with_output
def schema(out: Output, target: str | None) -> None:
    """Print the JSON Schema of plans for a system, including the options of plug-ins."""
    from harness.run.preview import plan_schema

    if target is not None:
        registry.check_name("targets", target, key="--target")
    out.show(plan_schema(target))


@plan.command()
@click.argument("file", type=FileOrName())
@with_plan_options
@with_output
def show(out: Output, file: Path, changes: tuple[str, ...], seed: int | None) -> None:
    """Print a plan with all its defaults."""
    from ackloss.session import Session

    out.show(Session(force=True).resolve(file, changes, seed, run=False).plan.document())

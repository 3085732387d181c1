"""`ackloss prepare`."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import rich_click as click

from ackloss.cli.output import Output, with_output

if TYPE_CHECKING:
    from harness.protocols import Target


@click.command()
@click.option("--system", help="The system under test; default: the one that plans default to.")
@click.option("--version", "versions", multiple=True, help="A version of the system (repeatable).")
@with_output
def prepare(out: Output, system: str | None, versions: tuple[str, ...]) -> None:
    """Build the node images and class-data archives that runs need and this machine lacks.

    Existing ones are kept. A run also builds what is missing; this command does it in advance.
    """
    from checkers.judging.spark import archive_ready, prepare_archive
    from harness.images.building import infra_image
    from harness.images.keeping import quietly, step

    def spark() -> None:
        if not archive_ready():
            with step(out.progress, "class-data archive of Spark"):
                prepare_archive(quietly)

    begun_s = time.monotonic()
    name, target = _target(system)
    requested = versions or (target.default_version,)
    for version in requested:
        target.check_version(version, key="--version")
    tasks: list[Callable[[], object]] = [
        lambda: infra_image(out.progress),
        *(lambda v=version: target.prepare_version(v, out.progress) for version in requested),
        spark,
    ]
    with ThreadPoolExecutor(max_workers=3) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()
    took_s = time.monotonic() - begun_s
    document = {"schema": 1, "system": name, "versions": list(requested)}
    out.document({**document, "took_s": round(took_s, 3)})
    if not out.json:
        made = f"{name} {', '.join(requested)}"
        out.say(f"node images ({made}) and archives are ready ({took_s:.1f} s)")


def _target(system: str | None) -> tuple[str, Target[Any]]:
    """The named target, or the default one. Raises PlanError for one with nothing to prepare."""
    from harness import registry
    from harness.errors import PlanError

    name = system or registry.default_target() or ""
    registry.check_name("targets", name, key="--system")
    target = registry.target_named(name)
    if not target.does("prepare_version"):
        raise PlanError(f"nothing has to be made for {name}", key="--system", hint="leave it out")
    return name, target

"""`ackloss prepare`."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import rich_click as click

from harness.cli.output import Output, with_output


@click.command()
@click.option("--version", "versions", multiple=True, help="Of Kafka (repeatable), default 4.3.1.")
@with_output
def prepare(out: Output, versions: tuple[str, ...]) -> None:
    """Make what runs need and this machine lacks: node images and class-data archives.

    What exists is kept. A run also makes what it lacks; this makes it beforehand.
    """
    from checkers.judging.archive import archive_ready, prepare_archive
    from harness.images.building import infra_image
    from harness.images.steps import quietly, step
    from targets.kafka import images as kafka
    from targets.kafka.eras import DEFAULT_VERSION, era_of

    def spark() -> None:
        if not archive_ready():
            with step(out.say, "class-data archive of Spark"):
                prepare_archive(quietly)

    begun_s = time.monotonic()
    requested = versions or (DEFAULT_VERSION,)
    for version in requested:
        era_of(version, key="--version")
    tasks: list[Callable[[], object]] = [
        lambda: infra_image(out.say),
        *(lambda v=version: kafka.prepare(v, out.say) for version in requested),
        spark,
    ]
    with ThreadPoolExecutor(max_workers=3) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()
    took_s = time.monotonic() - begun_s
    out.document({"schema": 1, "versions": list(requested), "took_s": round(took_s, 3)})
    if not out.json:
        out.say(
            f"node images (Kafka {', '.join(requested)}) and archives are ready ({took_s:.1f} s)"
        )

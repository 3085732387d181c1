"""`ackloss doctor`."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from harness.cli.output import Output, with_output

_STYLES = {"ok": "green", "warn": "yellow", "missing": "red", "old": "red"}


@click.command()
@click.option("--out", "runs", type=click.Path(path_type=Path), default=Path("runs"))
@with_output
def doctor(out: Output, runs: Path) -> None:
    """What this machine lacks for a run, and the command that cures it. Changes nothing.

    The exit code is 5 if something is missing or too old.
    """
    from checkers.judging.archive import archive_ready
    from harness.cli import checkup as examination
    from harness.cli.checkup import made
    from targets.kafka import images as kafka
    from targets.kafka.eras import DEFAULT_VERSION

    found = examination.examine(runs)
    if found[0].status == examination.Status.OK:
        image, archive = kafka.prepared(DEFAULT_VERSION)
        found.append(made(f"image of Kafka {DEFAULT_VERSION}", image is not None))
        found.append(made(f"class-data archive of Kafka {DEFAULT_VERSION}", archive is not None))
    found.append(made("class-data archive of Spark", archive_ready()))
    bad = [finding for finding in found if finding.status in ("missing", "old")]
    out.document({"schema": 1, "ok": not bad, "findings": [each.document() for each in found]})
    if not out.json:
        for each in found:
            cure = f"   cure: {each.cure}" if each.cure else ""
            line = f"{each.status:8}{each.name}: {each.detail}{cure}"
            out.say(line, style=_STYLES[each.status])
    sys.exit(5 if bad else 0)

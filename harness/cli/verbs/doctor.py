"""`ackloss doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import rich_click as click

from harness.cli.output import Output, with_output

_STYLES = {"ok": "green", "warn": "yellow", "missing": "red", "old": "red"}


@click.command()
@click.option("--out", "runs", type=click.Path(path_type=Path), default=Path("runs"))
@with_output
def doctor(out: Output, runs: Path) -> None:
    """Report what this machine lacks for a run, and the command that fixes it. Changes nothing.

    The exit code is 5 if something is missing or too old.
    """
    from checkers.judging.archive import archive_ready
    from harness import registry
    from harness.cli import checkup
    from harness.protocols.tools import MadeBeforehand

    found = checkup.examine(runs)
    if found[0].status == checkup.Status.OK:
        for target in map(registry.target_named, registry.usable("targets")):
            if isinstance(target, MadeBeforehand):
                made = target.made(target.default_version)
                found += [checkup.prepared(name, exists) for name, exists in made.items()]
    found.append(checkup.prepared("class-data archive of Spark", archive_ready()))
    bad = [finding for finding in found if finding.status in ("missing", "old")]
    # `cure` is the former name of `fix`.
    findings = [{**asdict(finding), "cure": finding.fix} for finding in found]
    out.document({"schema": 1, "ok": not bad, "findings": findings})
    if not out.json:
        for finding in found:
            fix = f"   fix: {finding.fix}" if finding.fix else ""
            line = f"{finding.status:8}{finding.name}: {finding.detail}{fix}"
            out.say(line, style=_STYLES[finding.status])
    sys.exit(5 if bad else 0)

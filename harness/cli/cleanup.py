"""Clean-up after dead runs before another run begins."""

from __future__ import annotations

from harness.cli.output import Output
from harness.protocols import LeavesObjects, Provider


def clean_before(out: Output, provider: Provider) -> None:
    """Remove what dead runs left and report it, where this kind of cluster leaves anything. A
    failure is reported and stops nothing."""
    if not isinstance(provider, LeavesObjects):
        return
    from harness.clusters.cleaning import clean_all
    from harness.errors import AcklossError, EnvironmentFailure

    try:
        cleaned = clean_all(dry_run=False, kept=False)
    except EnvironmentFailure:
        return  # the run itself fails with a better explanation
    except AcklossError as error:
        out.say(f"cannot remove what dead runs left: {error}", style="yellow")
        return
    for name in cleaned.removed:
        out.say(f"left by a dead run, removed: {name}", style="yellow")
    for name in cleaned.undone:
        out.say(f"in force until then: {name}", style="yellow")

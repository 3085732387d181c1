"""What happens before a run or a campaign begins: cleanup after dead runs, and a check of what the
run needs. The same for the command line and for Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.errors import AcklossError, EnvironmentFailure
from harness.machine.space import DISK_MIN_BYTES, free_bytes, gib
from harness.protocols import LeavesObjects, Order, Provider, TakesInventory


def clean_before(provider: Provider, say: Callable[[str], None]) -> None:
    """Remove what dead runs left and report it, if this kind of cluster can leave anything. A
    failure is reported and stops nothing."""
    if not isinstance(provider, LeavesObjects):
        return
    from harness.clusters.cleaning import clean_all

    try:
        cleaned = clean_all(dry_run=False, kept=False, only=provider)
    except EnvironmentFailure:
        return  # the run itself fails with a better explanation
    except AcklossError as error:
        say(f"cannot remove what dead runs left: {error}")
        return
    for name in cleaned.removed:
        say(f"left by a dead run, removed: {name}")
    for name in cleaned.undone:
        say(f"in force until then: {name}")
    for sentence in cleaned.left if isinstance(provider, TakesInventory) else ():
        say(sentence)


def require(provider: Provider, order: Order, *, runs: Path) -> None:
    """Raise EnvironmentFailure if a run would lack what its cluster needs, or disk space."""
    if (free := free_bytes(runs)) < DISK_MIN_BYTES:
        raise EnvironmentFailure(
            f"{gib(free)} are free on the disk of run folders, "
            f"but a run needs {gib(DISK_MIN_BYTES)}",
            file=str(runs),
            hint="free some space or choose another disk with --out",
        )
    provider.require(order)

"""Removes what dead runs left: the objects of registered runs, and temporary folders.

The rules and processes of a fault live on its node, and are removed with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness import registry
from harness.errors import AcklossError
from harness.faults.journal import open_acts
from harness.machine import state
from harness.machine.scratch import remove_abandoned
from harness.protocols import LeavesObjects, Provider


@dataclass
class Cleaned:
    """What was removed; which faults were still in force until then; what was left, and why."""

    removed: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def leaving_objects() -> list[LeavesObjects]:
    """The kinds of cluster of which something may outlive its process."""
    providers: list[Provider] = [
        registry.make("clusters", kind, {}, key="cluster.kind")
        for kind in registry.usable("clusters")
    ]
    return [provider for provider in providers if isinstance(provider, LeavesObjects)]


def remove_left(run_id: str, *, dry_run: bool = False) -> list[str]:
    """Remove everything of a run, of whatever kind its cluster was; the names."""
    return [
        name for provider in leaving_objects() for name in provider.remove(run_id, dry_run=dry_run)
    ]


def _in_force(run: state.Registered) -> list[str]:
    """The faults of a dead run that its journal does not report as undone."""
    left = open_acts(run.folder / "faults.jsonl")
    acts = [
        f"fault {act.fault!r} of run {run.run_id}: {act.lever} on {act.record.node}"
        for act in left.acts
    ]
    return acts + [f"a fault of run {run.run_id}: {sentence}" for sentence in left.unreadable]


def clean_all(*, dry_run: bool, kept: bool) -> Cleaned:
    """Clean up after every dead run, after those kept by the user only with `kept`. Tries all of
    them, then raises the first failure."""
    cleaned = Cleaned(removed=remove_abandoned(dry_run=dry_run))
    runs = state.registrations()
    failures = []
    for run in runs:
        try:
            _clean(run, cleaned, dry_run=dry_run, kept=kept)
        except AcklossError as error:
            failures.append(error)
    known = {run.run_id for run in runs}
    unknown = {run for provider in leaving_objects() for run in provider.unknown_runs(known)}
    for run_id in sorted(unknown):
        cleaned.left.append(f"run {run_id} is not in this machine's state folder: left alone")
    if failures:
        raise failures[0]
    return cleaned


def _clean(
    run: state.Registered,
    cleaned: Cleaned,
    *,
    dry_run: bool,
    kept: bool,
) -> None:
    with state.claimed(run.run_id) as dead:
        if not dead:
            cleaned.left.append(f"run {run.run_id} is alive (process {run.pid}): left alone")
        elif run.keep and not kept:
            cleaned.left.append(f"run {run.run_id} was kept on purpose: `ackloss clean --kept`")
        else:
            cleaned.removed += remove_left(run.run_id, dry_run=dry_run)
            cleaned.undone += _in_force(run)
            if not dry_run:
                state.forget(run.run_id)

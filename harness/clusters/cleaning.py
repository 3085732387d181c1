"""Removes what dead runs left: the containers, networks and volumes of registered runs, and
temporary folders.

The rules and processes of a fault live in its node's namespaces and are removed with the node's
containers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import docker

from harness.clusters.docker.removal import remove_run, unknown_runs
from harness.errors import AcklossError
from harness.faults.journal import open_acts
from harness.images.daemon import connect
from harness.machine import state
from harness.machine.scratch import remove_abandoned


@dataclass
class Cleaned:
    """What was removed; which faults were still in force until then; what was left, and why."""

    removed: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


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
    client = connect()
    failures = []
    for run in runs:
        try:
            _clean(client, run, cleaned, dry_run=dry_run, kept=kept)
        except AcklossError as error:
            failures.append(error)
    for run_id in sorted(unknown_runs(client, {run.run_id for run in runs})):
        cleaned.left.append(f"run {run_id} is not in this machine's state folder: left alone")
    if failures:
        raise failures[0]
    return cleaned


def _clean(
    client: docker.DockerClient,
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
            cleaned.removed += remove_run(client, run.run_id, dry_run=dry_run)
            cleaned.undone += _in_force(run)
            if not dry_run:
                state.forget(run.run_id)

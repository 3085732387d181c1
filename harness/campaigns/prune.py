"""Thins the runs of a campaign that nobody will look into, so that many nights fit on a disk.

A thinned run keeps what counts (result.json, run.json, plan.json, faults.jsonl, findings/), so all
counts of the campaign stay what they are; its operations, reads, observations, logs and pages go.
Failures stay whole, and the newest runs of every cell. Only folders of runs that the campaign's
own journal names are touched, and no symbolic link is followed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.campaigns.folder import CampaignDir
from harness.campaigns.progress import Progress, Run, read_progress
from harness.errors import EnvironmentFailure

_THINNED: Final = ("history", "reads", "observations", "nodes", "report.html", "timeline.png")
_BLOCK_BYTES: Final = 512
"""What `st_blocks` counts, whatever the file system's own blocks are."""


@dataclass(frozen=True)
class Pruned:
    """What was freed, or would be."""

    runs: int
    kept: int
    freed_bytes: int


def prune(
    folder: CampaignDir, *, keep: int, is_failure: Callable[[Run], bool], dry_run: bool = False
) -> Pruned:
    """Thin all runs but failures and the newest `keep` of each cell. Raises EnvironmentFailure
    where the campaign is being played or a file cannot be removed."""
    if folder.runs.is_symlink():
        raise EnvironmentFailure(
            "is a symbolic link, and none is followed",
            file=str(folder.runs),
            hint="prune the campaign where its runs really are",
        )
    with folder.locked():
        progress = read_progress(folder.journal)
        whole = _newest(progress, keep)
        thinned, kept, freed = 0, 0, 0
        for run in progress.runs.values():
            if run.state == "begun":
                continue  # `resume` decides what it is
            if run.run_id in whole or is_failure(run):
                kept += 1
                continue
            bytes_of_run = sum(_remove(path, dry_run) for path in _to_thin(folder, run.run_id))
            thinned += bytes_of_run > 0
            freed += bytes_of_run
    return Pruned(thinned, kept, freed)


def _newest(progress: Progress, keep: int) -> set[str]:
    by_cell: dict[str, list[str]] = {}
    for run in progress.runs.values():
        if run.state in ("done", "failed"):
            by_cell.setdefault(run.cell, []).append(run.run_id)
    return {run_id for runs in by_cell.values() for run_id in runs[max(0, len(runs) - keep) :]}


def _to_thin(folder: CampaignDir, run_id: str) -> Iterator[Path]:
    """What of a run may go; nothing where its name leads elsewhere, or it is a link."""
    path = folder.runs / run_id
    if path.parent != folder.runs or path.name != run_id or run_id in (".", ".."):
        return
    if path.is_symlink() or not path.is_dir():
        return
    for name in _THINNED:
        inner = path / name
        if inner.exists() and not inner.is_symlink():
            yield inner


def _remove(path: Path, dry_run: bool) -> int:
    """Remove a file or a folder; the bytes that it takes on disk."""
    freed = _bytes_on_disk(path)
    if dry_run:
        return freed
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot be removed: {error.strerror}", file=str(error.filename or path)
        ) from error
    return freed


def _bytes_on_disk(path: Path) -> int:
    blocks = path.lstat().st_blocks
    for parent, folders, files in os.walk(path):
        blocks += sum(Path(parent, name).lstat().st_blocks for name in (*folders, *files))
    return blocks * _BLOCK_BYTES

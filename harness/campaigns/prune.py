"""Deletes the bulk of runs that nobody will inspect, so that many campaigns fit on a disk.

A pruned run keeps the files that the campaign counts (result.json, run.json, plan.json,
faults.jsonl, findings/), so every count stays the same; its operations, reads, observations,
deliveries, logs and pages are deleted. Failures and the newest runs of every cell stay complete.
Only run folders that the campaign's own journal names are touched, and no symbolic link is
followed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress, Run
from harness.errors import EnvironmentFailure
from harness.history.run_folder import parts_of

_BULK: Final = (
    *("history", "reads", "observations", "ballast", "deliveries"),
    *("nodes", "clients", "report.html", "timeline.png"),
)
_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, whatever the block size of the file system is."""


@dataclass(frozen=True)
class Pruned:
    """The runs that were pruned, those that stay complete, and the bytes freed (or to be freed)."""

    runs: int
    kept: int
    freed_bytes: int


def prune(
    folder: CampaignDir, *, keep: int, is_failure: Callable[[Run], bool], dry_run: bool = False
) -> Pruned:
    """Prune all runs except failures and the newest `keep` of each cell. Raises EnvironmentFailure
    while the campaign is running, or when a file cannot be removed."""
    if folder.runs.is_symlink():
        raise EnvironmentFailure(
            "is a symbolic link, which is not followed",
            file=str(folder.runs),
            hint="prune the campaign in the folder that holds its runs",
        )
    with folder.locked():
        progress = folder.progress()
        newest = _newest(progress, keep)
        pruned, kept, freed_bytes = 0, 0, 0
        whole: set[str] = set()
        for run in progress.runs.values():
            if run.state == "begun":
                whole.add(parts_of(run.run_id)[0])
                continue  # in progress, or to be repeated by `resume`
            if run.run_id in newest or is_failure(run):
                kept += 1
                whole.add(parts_of(run.run_id)[0])
                continue
            run_bytes = sum(_remove(path, dry_run) for path in _bulk(folder, run.run_id))
            pruned += run_bytes > 0
            freed_bytes += run_bytes
        for shared in sorted(progress.shared_runs() - whole):
            if not folder.run(shared).cells_path.is_dir():
                continue
            freed_bytes += sum(_remove(path, dry_run) for path in _bulk(folder, shared))
    return Pruned(pruned, kept, freed_bytes)


def _newest(progress: Progress, keep: int) -> set[str]:
    by_cell: dict[str, list[str]] = {}
    for run in progress.runs.values():
        if run.is_finished:
            by_cell.setdefault(run.cell, []).append(run.run_id)
    return {run_id for runs in by_cell.values() for run_id in runs[max(0, len(runs) - keep) :]}


def _bulk(folder: CampaignDir, run_id: str) -> Iterator[Path]:
    """What may be deleted of a run and of its cells; nothing where its id leads to a link."""
    run = folder.run(run_id)
    path = run.path
    way = takewhile(lambda parent: parent != folder.runs, (path, *path.parents))
    if any(part.is_symlink() for part in way) or not path.is_dir():
        return
    cells = [] if run.cells_path.is_symlink() else sorted(run.cells_path.glob("*"))
    for owner in (path, *(cell for cell in cells if not cell.is_symlink())):
        for name in _BULK:
            inner = owner / name
            if inner.exists() and not inner.is_symlink():
                yield inner


def _remove(path: Path, dry_run: bool) -> int:
    """Remove a file or a folder; returns the bytes that it takes on disk."""
    freed_bytes = _bytes_on_disk(path)
    if dry_run:
        return freed_bytes
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot be removed: {error.strerror}", file=str(error.filename or path)
        ) from error
    return freed_bytes


def _bytes_on_disk(path: Path) -> int:
    blocks = path.lstat().st_blocks
    for parent, folders, files in os.walk(path):
        blocks += sum(Path(parent, name).lstat().st_blocks for name in (*folders, *files))
    return blocks * _BLOCK_BYTES

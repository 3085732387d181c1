"""What is kept of a campaign's runs: copies of judged runs at a URL, made while it runs, and less
of the runs that nobody will inspect, so that many campaigns fit on a disk.

A run's manifest is copied last: a run at the URL that has one is complete, and `ackloss check`
detects that one is incomplete if its copy was interrupted. A copy that fails is tried once more at
the end and then reported; the run's own folder is unchanged, and `campaign resume --archive` copies
what is missing, and what a later check of a run has written. The copy of a campaign is a campaign
folder itself.

A pruned run keeps the files that the campaign counts (result.json, run.json, plan.json,
faults.jsonl, findings/), so every count stays the same; its operations, reads, observations,
deliveries, logs and pages are deleted. Failures and the newest runs of every cell stay complete.
Only run folders that the campaign's own journal names are touched, and no symbolic link is
followed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final

from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress, Run
from harness.errors import AcklossError, EnvironmentFailure
from harness.history.manifest import evidence_files
from harness.history.run_folder import RunDir, parts_of
from harness.storage import Folder

_RUNS_AT_ONCE: Final = 2


@dataclass
class Archive:
    """The copies of one campaign at `place`; `say` reports one that failed."""

    campaign: CampaignDir
    place: Folder
    say: Callable[[str], object]
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_RUNS_AT_ONCE))
    _there: set[str] = field(default_factory=set)
    _judged_later: set[str] = field(default_factory=set)
    _copies: dict[str, Future[None]] = field(default_factory=dict)

    def begin(self, progress: Progress) -> None:
        """Copy what makes it a campaign folder, and list the judged runs that are not there yet.
        Raises AcklossError if the URL cannot be read and written, or has another campaign: nothing
        has begun then."""
        there = self.place.written_ns()
        documents = self._named((self.campaign.file, self.campaign.base))
        self._refuse_another(there, documents, progress)
        self.place.send(documents)
        copied = {
            run
            for run in progress.executions
            if self._name(self.campaign.run(run).manifest) in there
        }
        self._judged_later = {run for run in copied if self._is_judged_later(run, there)}
        self._there = copied - self._judged_later
        self._ask_judged(progress)

    def add(self, run: str) -> None:
        """Copy a judged run in the background."""
        if run not in self._there and run not in self._copies:
            self._copies[run] = self._pool.submit(self._copy, run)

    def finish(self, progress: Progress, *, at_once: bool = False) -> list[str]:
        """Wait for all copies, with `at_once` only for those that have begun; then copy the
        campaign's own files. Returns the runs that are not at the URL, which are already reported.
        """
        self._ask_judged(progress)  # nobody reported one that a crash had left half judged
        self._pool.shutdown(cancel_futures=at_once)
        errors = {
            run: None if copy.cancelled() else copy.exception()
            for run, copy in self._copies.items()
            if copy.cancelled() or copy.exception()
        }
        missing = set(errors)
        why = next(filter(None, errors.values()), None)
        for run in [] if at_once else sorted(missing):
            try:
                self._copy(run)
                missing.remove(run)
            except (AcklossError, OSError) as error:
                why = error
                break  # the storage still does not answer: the others would wait for it, too
        try:
            runs, files = self.campaign.runs, _files(self.campaign.path)
            self.place.send(self._named(path for path in files if runs not in path.parents))
        except AcklossError as error:
            why = why or error
        if missing:
            because = f" ({why})" if why else ""
            self.say(
                f"judged runs that were not copied to {self.place.place()}: {len(missing):,}"
                f"{because}; they are complete in {self.campaign.runs}, "
                "and `ackloss campaign resume --archive` copies what is missing"
            )
        elif why is not None:
            self.say(f"the campaign's own files were not copied: {why}")
        return sorted(missing)

    def _refuse_another(
        self, there: Collection[str], documents: Mapping[str, Path], progress: Progress
    ) -> None:
        """Raise EnvironmentFailure if the URL has other documents, or runs that are not of this
        campaign: both would become one folder, of one campaign's journal and both's runs."""
        runs = f"{self._name(self.campaign.runs)}/"
        present = {name.removeprefix(runs).split("/")[0] for name in there if name.startswith(runs)}
        others = present - set(progress.executions)
        differ = [
            name
            for name, path in documents.items()
            if name in there and self.place.read(name) != path.read_bytes()
        ]
        if others or differ:
            what = f"its {differ[0]} differs" if differ else f"run {min(others)} is not of this one"
            raise EnvironmentFailure(
                f"another campaign is there: {what}",
                file=self.place.place(),
                hint="copy each campaign to its own URL",
            )

    def _ask_judged(self, progress: Progress) -> None:
        for run in filter(progress.is_judged, progress.executions):
            self.add(run)

    def _is_judged_later(self, run: str, there: Mapping[str, int | None]) -> bool:
        """Whether a result of a run that is there was written after it was copied."""
        for path in _results(self.campaign.run(run)):
            copied_ns = there.get(self._name(path))
            if copied_ns is None or path.stat().st_mtime_ns > copied_ns:
                return True
        return False

    def _copy(self, run: str) -> None:
        """Copy a run, its manifest last; or what a later check wrote, the results last, and what an
        earlier check found goes."""
        rundir = self.campaign.run(run)
        files = self._named(_files(rundir.path))
        last = self._named([*rundir.cells_path.glob(f"*/{rundir.manifest.name}"), rundir.manifest])
        if run in self._judged_later:
            for folder in rundir.with_cells():
                for name in (*evidence_files(folder), folder.manifest.name):
                    files.pop(self._name(folder.path / name), None)
            last = self._named(_results(rundir))
        self.place.send({name: files[name] for name in files.keys() - last.keys()})
        if run in self._judged_later:  # remove the findings there that the run does not have here
            for name in self.place.below(self._name(rundir.path)).files():
                path = rundir.path / name
                if path.parent.name == rundir.findings.name and not path.exists():
                    self.place.remove(self._name(path))
        for name, path in last.items():
            self.place.send({name: path})

    def _named(self, paths: Iterable[Path]) -> dict[str, Path]:
        return {self._name(path): path for path in paths}

    def _name(self, path: Path) -> str:
        return path.relative_to(self.campaign.path).as_posix()


def _files(folder: Path) -> Iterator[Path]:
    """The finished files below a folder; no link is followed."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
            yield path


def _results(rundir: RunDir) -> list[Path]:
    """The results of a run's cells, then its own, of those that have one."""
    return [folder.result for folder in rundir.with_cells() if folder.result.is_file()]


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
            is_begun = run.state == "begun"  # in progress, or to be repeated by `resume`
            if is_begun or run.run_id in newest or is_failure(run):
                kept += not is_begun
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

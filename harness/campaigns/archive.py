"""Copies of a campaign's judged runs at a URL, made while it runs.

A run's manifest is copied last: a run at the URL that has one is complete, and `ackloss check`
detects that one is incomplete if its copy was interrupted. A copy that fails is tried once more at
the end and then reported; the run's own folder is unchanged, and `campaign resume --archive`
copies what is missing, and what a later check of a run has written. The copy of a campaign is a
campaign folder itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress
from harness.errors import AcklossError, EnvironmentFailure
from harness.history.manifest import evidence_files
from harness.history.run_folder import RunDir
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
        if run in self._judged_later:
            self._remove_findings(rundir)
        for name, path in last.items():
            self.place.send({name: path})

    def _remove_findings(self, rundir: RunDir) -> None:
        """Remove the findings at the URL that the run does not have here."""
        for name in self.place.below(self._name(rundir.path)).files():
            path = rundir.path / name
            if path.parent.name == rundir.findings.name and not path.exists():
                self.place.remove(self._name(path))

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

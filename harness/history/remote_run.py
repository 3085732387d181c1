"""A run folder at a URL: copied here to be judged, by the same readers as any other.

A run is judged in several passes, and each of its files is read once more for its digest. So all of
its evidence is fetched once, into a temporary folder: one request for each file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from harness.errors import HistoryError
from harness.history.manifest import is_evidence
from harness.history.run_folder import CELLS, RunDir
from harness.machine.files import scratch
from harness.protocols import DONE
from harness.storage import Folder

_NAMES: Final = RunDir(Path())
_RUN: Final = _NAMES.run.as_posix()
_DOCUMENTS: Final = (_RUN, _NAMES.plan.as_posix())
_FINDINGS: Final = _NAMES.findings.as_posix()
_JUDGED: Final = (_NAMES.history.as_posix(), _NAMES.reads.as_posix())
_CAMPAIGN: Final = "campaign.toml"
_DEEPEST_CELL: Final = 2
"""`cells/<name>/` precedes the names of a cell's files."""


@dataclass(frozen=True)
class RemoteRun:
    """A run folder at a URL. `size_bytes`: of its operations and records; `findings`: the names of
    files that an earlier check wrote."""

    folder: Folder
    size_bytes: int = 0
    findings: tuple[str, ...] = ()

    def fetch(self, parent: Path, *, documents: bool = False) -> RunDir:
        """Copy its evidence, or its documents alone, below `parent`. Raises HistoryError for a
        folder without a run, and what `harness.storage` raises."""
        names = [name for name in self.folder.files() if _is_of_a_run(name)]
        if _RUN not in names:
            raise HistoryError("not a run folder: run.json is missing", file=self.folder.place())
        rundir = RunDir(parent / self._place())
        chosen = _DOCUMENTS if documents else names
        self.folder.fetch({name: rundir.path / name for name in chosen if name in names})
        return rundir

    def _place(self) -> str:
        """Its folder's name; with the names of what is above it where it is a cell in its run."""
        parts = PurePosixPath(self.folder.url.partition("?")[0]).parts
        return "/".join(parts[-3:] if parts[-2] == CELLS else parts[-1:])


def remote_runs(
    folder: Folder, shared_runs: Callable[[], Collection[str]] = frozenset
) -> tuple[list[RemoteRun], int]:
    """The runs at a URL in order: the run itself, those of a campaign that still have their history
    (for each of its `shared_runs`, the cells), or those of a folder of runs; and how many more of a
    campaign have none to judge.

    A run of a campaign that is done and has neither a history nor a manifest was not copied to its
    end. It is among the runs, so that judging it reports that.

    Raises HistoryError if there are none, and what `harness.storage` raises.
    """
    files = folder.files()
    names = sorted(files)
    if _RUN in files:
        return [_run(folder, "", files, names)], 0
    places = [name.removesuffix(f"/{_RUN}") for name in files if name.endswith(f"/{_RUN}")]
    missing = 0
    if _CAMPAIGN in files:
        shared = shared_runs()
        places = [place for place in places if _is_judged_alone(place, shared)]
        found = [place for place in places if _has(_JUDGED[:1], place, names)]
        for place in sorted(set(places) - set(found)):
            if _has((_NAMES.manifest.name,), place, names) or not _is_done(folder.below(place)):
                missing += 1
            else:
                found.append(place)
    else:
        found = [place for place in places if "/" not in place]
    if not found:
        raise HistoryError(
            "there is no run with a history here",
            file=folder.place(),
            hint="name the folder of a run, of runs, or of a campaign",
        )
    return [_run(folder, place, files, names) for place in found], missing


def _is_judged_alone(place: str, shared: Collection[str]) -> bool:
    """Whether this is the folder of a run or a cell that is not judged with its run or by its
    cells."""
    run, _, cell = place.partition(f"/{CELLS}/")
    return bool(cell) == (PurePosixPath(run).name in shared)


def _has(parts: Collection[str], place: str, names: Sequence[str]) -> bool:
    """Whether one of these files or folders is below a place, of it or of its cells."""
    return any(_in(name, parts) for name in _below(place, names))


def _is_done(folder: Folder) -> bool:
    """Whether a run's own document says so, or cannot be read. A run that failed has no manifest,
    and may have no history."""
    with scratch() as parent:
        try:
            rundir = RemoteRun(folder).fetch(Path(parent), documents=True)
            return bool(rundir.read_json(rundir.run).get("state") == DONE)
        except HistoryError:
            return True


def _run(folder: Folder, place: str, files: Mapping[str, int], names: Sequence[str]) -> RemoteRun:
    sizes = {name: files[f"{place}/{name}" if place else name] for name in _below(place, names)}
    return RemoteRun(
        folder.below(place),
        sum(size for name, size in sizes.items() if _in(name, _JUDGED)),
        tuple(name for name in sizes if _in(name, (_FINDINGS,)) and name.endswith(".parquet")),
    )


def _below(place: str, names: Sequence[str]) -> Iterator[str]:
    """The names below a place, of names in order: an archive may have a million of them."""
    if not place:
        return iter(names)
    prefix = f"{place}/"
    first, behind = bisect_left(names, prefix), bisect_left(names, f"{place}0")  # "0" follows "/"
    return (name[len(prefix) :] for name in names[first:behind])


def _in(name: str, folders: Iterable[str]) -> bool:
    """Whether a file is in one of these folders of a run, or of a cell of it."""
    return _own(name).split("/")[0] in folders


def _is_of_a_run(name: str) -> bool:
    """Whether a file is evidence of a run or of its cells. Nothing else is fetched, whatever the
    storage names: a name may lead out of the folder."""
    own = _own(name)
    inside = ".." not in PurePosixPath(name).parts
    return inside and (is_evidence(own) or own == _NAMES.manifest.name)


def _own(name: str) -> str:
    """The name of a file in the folder of its run, or in that of its cell."""
    parts = name.split("/")
    return "/".join(parts[_DEEPEST_CELL:] if parts[0] == CELLS else parts)

"""What is missing from a run folder, so that no verdict depends on missing files.

Nothing counts as lost because our own files are missing: a run with gaps is never `valid`, and if
reads are missing, nothing counts as lost by the rest.

A folder with a manifest holds exactly the files that the manifest names, with their sizes and, but
for node logs and observations, their digests. One without, from before there were manifests, is
checked by what it contains: numbers of parts, indices of operations, counts of run.json. For both,
there must be records for the positions of the final reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

import pyarrow as pa

from harness.errors import HistoryError
from harness.faults.journal import damaged_lines, windows
from harness.history.gap_rows import (
    Ends,
    Found,
    listed,
    numbers,
    of_other_plans,
    of_other_runs,
    operations,
    records,
)
from harness.history.manifest import Evidence, digest_of, evidence_files, read_manifest, rows_of
from harness.history.parts import Parts
from harness.history.run_folder import RunDir
from harness.protocols import DONE, Gaps

_MANY_BYTES: Final = 2**27


def gaps_of(found: Iterable[tuple[str, str]]) -> Gaps:
    """Sentences, each with the path of what it is about."""
    by_field: dict[str, dict[str, None]] = {}
    for path, sentence in found:
        by_field.setdefault(_field(path), {})[sentence] = None
    return Gaps(**{name: tuple(sentences) for name, sentences in by_field.items()})


def gaps(
    rundir: RunDir, run: Mapping[str, Any], parts: Parts, ends: Ends, *, partitions: int
) -> Gaps:
    """What is missing from a run folder. `run`: its run.json; `ends`: the rows of its
    `reads/ends.parquet`.

    Raises HistoryError for a manifest that is damaged and for a file that cannot be read.
    """
    try:
        files = gaps_of(_by_manifest(rundir, run))
        rows = gaps_of(_by_rows(rundir, run, parts, ends, partitions, seen=files))
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"cannot be read: {error}", file=str(rundir.path)) from error
    return Gaps(*(both + more for both, more in zip(files, rows, strict=True)))


def gaps_of_files(rundir: RunDir, run: Mapping[str, Any]) -> Gaps:
    """What is missing of a folder by its manifest and its journal alone: of a run whose rows are
    those of its cells. Raises as `gaps` does."""
    try:
        return gaps_of(_by_manifest(rundir, run))
    except OSError as error:
        raise HistoryError(f"cannot be read: {error}", file=str(rundir.path)) from error


def _by_manifest(rundir: RunDir, run: Mapping[str, Any]) -> Found:
    manifest = read_manifest(rundir)
    if manifest is not None:
        if manifest.run_id != run["run_id"]:
            yield "manifest.json", f"of another run: manifest.json ({manifest.run_id})"
        yield from _against(rundir, manifest.files)
    elif run["state"] == DONE and run.get("manifest"):
        why = "missing: manifest.json (the run was killed, or not all of its folder was copied)"
        yield from (("history", why), ("reads", why))
    if run["state"] == DONE:
        yield from _journal(rundir)
        yield from _load(run)


def _by_rows(
    rundir: RunDir,
    run: Mapping[str, Any],
    parts: Parts,
    ends: Ends,
    partitions: int,
    *,
    seen: Gaps,
) -> Found:
    """What rows show, except what has been `seen` in the files: it would be reported twice."""
    named = rundir.manifest.exists()
    if not named:
        yield from numbers(rundir)
    yield from of_other_runs(parts, run, ends)
    yield from of_other_plans(parts, ends, partitions)
    if not (named and seen.history):
        yield from operations(parts, run, by_rows=not named)
    if not (named and seen.reads):
        yield from records(rundir, parts, run, ends)


# --- by the manifest --------------------------------------------------------------------------


def _against(rundir: RunDir, files: Sequence[Evidence]) -> Found:
    """Files that are missing, that differ from the manifest, and that it does not name."""
    missing: dict[str, list[str]] = {}
    changed: dict[str, list[str]] = {}
    foreign: dict[str, list[str]] = {}
    for named, same in zip(files, _are_as_written(rundir, files), strict=True):
        place = named.path.split("/")[0]
        if same is None:
            rows = "" if named.rows is None else f" ({named.rows:,} rows)"
            missing.setdefault(place, []).append(named.path + rows)
        elif not same:
            left = _rows_left(rundir.path / named.path, named)
            changed.setdefault(place, []).append(named.path + left)
    names = {named.path for named in files}
    for name in evidence_files(rundir):
        if name not in names:
            foreign.setdefault(name.split("/")[0], []).append(name)
    for what, by_place in (
        ("missing", missing),
        ("not as the run wrote it", changed),
        ("not of this run", foreign),
    ):
        for place, each in by_place.items():
            yield place, f"{what}: {listed(each)}"


def _are_as_written(rundir: RunDir, files: Sequence[Evidence]) -> list[bool | None]:
    """Whether each file has its size and digest; `None` if it is missing. Digests hold no lock of
    the interpreter, so those of a large run are made by two threads."""
    paths = [rundir.path / named.path for named in files]
    if sum(named.bytes for named in files) < _MANY_BYTES:
        return list(map(_as_written, paths, files))
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(_as_written, paths, files))


def _as_written(path: Path, named: Evidence) -> bool | None:
    """Whether a file has its size and digest, `None` if it is missing; for a file on which no
    verdict depends, the size is sufficient."""
    try:
        state = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not S_ISREG(state.st_mode):
        return None
    if state.st_size != named.bytes:
        return False
    return _field(named.path) == "aside" or digest_of(path) == named.sha256


def _rows_left(path: Path, named: Evidence) -> str:
    if named.rows is None:
        return ""
    try:
        rows = rows_of(path)
    except pa.ArrowException:
        return " (damaged)"
    return "" if rows == named.rows else f" ({rows:,} rows, not {named.rows:,})"


def _journal(rundir: RunDir) -> Found:
    """A run that was to have faults has a journal, and each of its lines is complete: a full disk
    leaves half a line, and a manifest that matches it."""
    if not rundir.faults.exists():
        if rundir.read_json(rundir.plan).get("faults"):
            yield "faults.jsonl", "missing: faults.jsonl"
    elif (content := rundir.faults.read_bytes()) and not content.endswith(b"\n"):
        yield "faults.jsonl", "faults.jsonl is cut off: its last line is not complete"
    if damaged := damaged_lines(rundir.faults):
        lines = listed([f"line {number}" for number in damaged])
        yield "faults.jsonl", f"faults.jsonl is damaged: {lines}"
    with suppress(HistoryError):  # a line that is odd is refused where the windows are needed
        yield from _windows(rundir)


def _windows(rundir: RunDir) -> Found:
    """Faults of a journal that its plan does not request, and those that were never undone."""
    asked = {step["id"] for step in rundir.read_json(rundir.plan).get("faults") or []}
    begun = windows(rundir.faults)
    if strange := [each.id for each in begun if each.id not in asked]:
        yield "plan.json", f"not of this plan: the faults {listed(strange)} of faults.jsonl"
    if left := [each.id for each in begun if each.from_s is not None and each.to_s is None]:
        yield "faults.jsonl", f"faults.jsonl does not say when {listed(left)} was undone"


def _load(run: Mapping[str, Any]) -> Found:
    """A run that is done states how many operations it attempted, and whether its load was as
    requested; one with cells leaves that to them."""
    load = run.get("load") or {}
    stated = type(load.get("attempted")) is int and type(load.get("starved")) is bool
    if not stated and not run.get("cells"):
        yield "run.json", "run.json does not say how the load went (attempted, starved)"


def _field(path: str) -> str:
    """The field of Gaps to which a path below the run folder belongs."""
    place = path.split("/")[0]
    if place in ("nodes", "observations", "clients"):
        return "aside"
    if place == "deliveries":
        return "history"
    return place if place in ("history", "reads") else "other"

"""manifest.json, every file of evidence in a run folder with its size, digest and rows; and what is
missing from a folder, so that no verdict depends on missing files.

The manifest is written once, as the last file of a run, after `run.json` reports `done`: a run that
is killed at any moment has none, and one that has it has everything that it names. Outputs, which
are written again by every later check or report, are not in it, nor is the manifest itself. The
manifest of a run with cells names their manifests.

    {"schema": 1, "run_id": "...", "files": [
        {"path": "history/part-00000.parquet", "bytes": 5120, "sha256": "...", "rows": 802},
        {"path": "plan.json", "bytes": 1377, "sha256": "...", "rows": null}, ...]}

Nothing counts as lost because our own files are missing: a run with gaps is never `valid`, and if
reads are missing, nothing counts as lost by the rest. A folder holds exactly the files that its
manifest names, with their sizes and, but for what nodes say, their digests. A run that is done and
has no manifest was killed, or not copied to its end. What a manifest cannot show is that the run
itself recorded too little: so operations are numbered without a gap, and there are records for the
positions of the final reads. Statistics in the Parquet files answer most of this without reading a
row.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Annotated, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AfterValidator, TypeAdapter, ValidationError

from harness.errors import EnvironmentFailure, HistoryError
from harness.faults.journal import damaged_lines, windows
from harness.history.parquet_reader import Part, Parts, integers, texts
from harness.history.run_folder import SCHEMA_VERSION, RunDir
from harness.models import APPEND
from harness.protocols import DONE, NULL, Gaps

FILES: Final = ("plan.json", "run.json", "faults.jsonl", "metrics.parquet")
FOLDERS: Final = ("history", "reads", "observations", "ballast", "deliveries", "nodes", "clients")
_CELLS: Final = "cells"

_AT_ONCE_BYTES: Final = 2**18
"""A file of at most this size is read at once: the buffer for others takes longer to make than
its digest."""


def _evidence_name(name: str) -> str:
    if not is_evidence(name):
        raise ValueError("is not the name of a file of evidence")
    return name


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One file: its path below the run folder, with slashes; `rows` of Parquet alone."""

    path: Annotated[str, AfterValidator(_evidence_name)]
    bytes: int
    sha256: str
    rows: int | None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a run folder held when its run was done."""

    run_id: str
    files: tuple[Evidence, ...]


_MANIFEST: Final = TypeAdapter(Manifest)


def write_manifest(rundir: RunDir, run_id: str) -> None:
    """Write the manifest of all files. Raises EnvironmentFailure when the disk refuses it."""
    try:
        files = []
        for name in evidence_files(rundir):
            path = rundir.path / name
            size, digest, rows = path.stat().st_size, digest_of(path), rows_of(path)
            files.append({"path": name, "bytes": size, "sha256": digest, "rows": rows})
    except (OSError, pa.ArrowException) as error:
        raise EnvironmentFailure(
            f"cannot read back what the run has written: {error}", file=str(rundir.path)
        ) from error
    document = {"schema": SCHEMA_VERSION, "run_id": run_id, "files": files}
    rundir.write_json(rundir.manifest, document)


def read_manifest(rundir: RunDir) -> Manifest | None:
    """The manifest; `None` if there is none. Raises HistoryError for one that is damaged."""
    if not rundir.manifest.exists():
        return None
    document = rundir.read_json(rundir.manifest)
    try:
        return _MANIFEST.validate_json(orjson.dumps(document), strict=True)
    except ValidationError as error:
        raise HistoryError(
            "is not a manifest as ackloss writes it",
            file=str(rundir.manifest),
            hint="copy the run folder again",
        ) from error


def evidence_files(rundir: RunDir) -> Iterator[str]:
    """The existing files of evidence by their paths below the run folder, in order; hidden ones are
    unfinished and left out."""
    yield from (name for name in FILES if (rundir.path / name).is_file())
    for folder in FOLDERS:
        yield from sorted(_files_below(str(rundir.path), folder), key=lambda name: name.split("/"))
    for manifest in sorted(rundir.cells_path.glob(f"*/{rundir.manifest.name}")):
        yield manifest.relative_to(rundir.path).as_posix()


def _files_below(root: str, folder: str) -> Iterator[str]:
    """All files in a folder, and in those below it, which are followed unless they are links."""
    try:
        with os.scandir(f"{root}/{folder}") as found:
            entries = list(found)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(root, f"{folder}/{entry.name}")
        elif entry.is_file() and not entry.name.startswith("."):
            yield f"{folder}/{entry.name}"


def rows_of(path: Path) -> int | None:
    """How many rows a Parquet file holds; `None` of any other file."""
    if path.suffix != ".parquet":
        return None
    rows: int = pq.read_metadata(path).num_rows
    return rows


def digest_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb", buffering=0) as stream:
        if os.fstat(stream.fileno()).st_size <= _AT_ONCE_BYTES:
            return hashlib.sha256(stream.read()).hexdigest()
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_evidence(name: str) -> bool:
    """Whether it can be a file of evidence; nothing outside the run folder is one."""
    parts = PurePosixPath(name).parts
    inside = len(parts) > 1 and parts[0] in (*FOLDERS, _CELLS) and ".." not in parts
    return name in FILES or inside


Ends = Sequence[Mapping[str, Any]]
Found = Iterator[tuple[str, str]]
"""Sentences, each with the path, below the run folder, of what it is about."""

_NAMED: Final = 3
"""How many files a sentence names; for more, it gives the number."""


def operations(parts: Parts, run: Mapping[str, Any]) -> Found:
    """Rows of the history are numbered from 0, and are as many as run.json has counted: each
    operation that was attempted began and ended."""
    due, rows = 0, 0
    for part in parts.history:
        if (span := part.ends_of("index")) is None:
            continue
        (first, last), rows = span, rows + part.rows
        if first > due:
            yield part.name, f"operations {due:,} to {first - 1:,} are missing before {part.name}"
        if first < due or last - first + 1 != part.rows:
            yield part.name, f"operations are missing or repeated in {part.name}"
        due = max(due, last + 1)
    attempted = (run.get("load") or {}).get("attempted")
    if type(attempted) is int and run["state"] == DONE and parts.history and rows < 2 * attempted:
        yield (
            "history",
            f"history/ holds {rows:,} rows, too few for the {attempted:,} operations that run.json "
            "counted",
        )


def records(parts: Parts, ends: Ends) -> Found:
    """If a reader passed offsets, there are records from it."""
    passed = {
        (row["reader"], row["partition"]): range(row["log_start_offset"] or 0, row["position"])
        for row in ends
        if row["position"] is not None
        and row["position"] > (row["log_start_offset"] or 0)
        and row.get("ranges") is None
    }
    if not passed or _everywhere(parts.reads, passed):
        return
    met = _met(parts.reads)
    readers = {reader for reader, _ in met}
    for reader in dict.fromkeys(reader for reader, _ in passed):
        if reader not in readers:
            yield "reads", f"reads/ holds no record of the reader {reader}, which came past some"
    for (reader, partition), offsets in passed.items():
        if reader not in readers or (reader, partition) in met:
            continue
        if _acknowledged_in(parts.history, partition, offsets):
            yield (
                "reads",
                f"reads/ holds no record of partition {partition} by the reader {reader}, "
                f"which read it to offset {offsets.stop:,}",
            )


def _everywhere(parts: Sequence[Part], passed: Mapping[tuple[str, int], range]) -> bool:
    """Whether the footers alone say that each reader has as many records as it passed offsets, as
    it has where there are no markers of transactions."""
    left: dict[str, int] = {}
    for (reader, _), offsets in passed.items():
        left[reader] = left.get(reader, 0) + len(offsets)
    for part in parts:
        span = part.span("reader")
        if span is None or span[0] != span[1]:
            return False
        if span[0] in left:
            left[span[0]] -= part.rows
    return not any(left.values())


def _met(parts: Sequence[Part]) -> set[tuple[str, int]]:
    """The readers and partitions of which there is a record."""
    met: set[tuple[str, int]] = set()
    for part in parts:
        readers, partitions = part.span("reader"), part.span("partition")
        if readers is None or readers[0] != readers[1]:
            met |= _pairs(part.read("reader", "partition"))
        elif partitions is not None and partitions[0] == partitions[1]:
            met.add((readers[0], partitions[0]))
        else:
            numbers = part.read("partition")["partition"].unique().to_pylist()
            met.update((readers[0], number) for number in numbers)
    return met


def _pairs(rows: pa.RecordBatch) -> set[tuple[str, int]]:
    """The readers and partitions of these records."""
    reader, partition = texts(rows, "reader"), integers(rows, "partition")
    return {
        (name, number)
        for code, name in enumerate(reader.names)
        for number in np.unique(partition[reader.codes == code]).tolist()
    }


def _acknowledged_in(parts: Sequence[Part], partition: int, offsets: range) -> bool:
    """Whether a write was acknowledged in this partition, at one of these offsets or at an unknown
    one. (A log may hold markers of transactions alone.)"""
    for part in parts:
        rows = part.read("process", "type", "f", "partition", "offset")
        offset = integers(rows, "offset")
        there = ((offset >= offsets.start) & (offset < offsets.stop)) | (offset == NULL)
        there &= (integers(rows, "partition") == partition) & (integers(rows, "process") >= 0)
        if (there & texts(rows, "f").isin([APPEND]) & texts(rows, "type").isin(["ok"])).any():
            return True
    return False


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


_MANY_BYTES: Final = 2**27


def gaps_of(found: Iterable[tuple[str, str]]) -> Gaps:
    """Sentences, each with the path of what it is about."""
    by_field: dict[str, dict[str, None]] = {}
    for path, sentence in found:
        by_field.setdefault(_field(path), {})[sentence] = None
    return Gaps(**{name: tuple(sentences) for name, sentences in by_field.items()})


def gaps(rundir: RunDir, run: Mapping[str, Any], parts: Parts, ends: Ends) -> Gaps:
    """What is missing from a run folder. `run`: its run.json; `ends`: the rows of its
    `reads/ends.parquet`.

    Raises HistoryError for a manifest that is damaged and for a file that cannot be read.
    """
    try:
        files = gaps_of(_by_manifest(rundir, run))
        rows = gaps_of(_by_rows(run, parts, ends, seen=files))
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
    elif run["state"] == DONE:
        why = "missing: manifest.json (the run was killed, or not all of its folder was copied)"
        yield from (("history", why), ("reads", why))
    if run["state"] == DONE:
        yield from _journal(rundir)
        yield from _load(run)


def _by_rows(run: Mapping[str, Any], parts: Parts, ends: Ends, *, seen: Gaps) -> Found:
    """What rows show, except what has been `seen` in the files: it would be reported twice."""
    if parts.damaged:
        yield parts.damaged[0], f"damaged: {listed(parts.damaged)}"
    if not seen.history:
        yield from operations(parts, run)
    if not seen.reads:
        yield from records(parts, ends)


def _against(rundir: RunDir, files: Sequence[Evidence]) -> Found:
    """Files that are missing, that differ from the manifest, and that it does not name."""
    found: dict[str, dict[str, list[str]]] = {
        what: {} for what in ("missing", "not as the run wrote it", "not of this run")
    }

    def note(what: str, name: str, more: str = "") -> None:
        found[what].setdefault(name.split("/")[0], []).append(name + more)

    for named, same in zip(files, _are_as_written(rundir, files), strict=True):
        if same is None:
            note("missing", named.path, "" if named.rows is None else f" ({named.rows:,} rows)")
        elif not same:
            left = _rows_left(rundir.path / named.path, named)
            note("not as the run wrote it", named.path, left)
    names = {named.path for named in files}
    for name in evidence_files(rundir):
        if name not in names:
            note("not of this run", name)
    for what, by_place in found.items():
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
    if place in ("nodes", "observations", "ballast", "clients", "metrics.parquet"):
        return "aside"
    if place == "deliveries":
        return "history"
    return place if place in ("history", "reads") else "other"

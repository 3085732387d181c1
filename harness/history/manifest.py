"""manifest.json: every file of evidence in a run folder, with its size, digest and rows.

Written once, as the last file of a run, after `run.json` reports `done`: a run that is killed at
any moment has none, and one that has it has everything that it names. Outputs, which are written
again by every later check or report, are not in it, nor is the manifest itself. The manifest of a
run with cells names their manifests.

    {"schema": 1, "run_id": "...", "files": [
        {"path": "history/part-00000.parquet", "bytes": 5120, "sha256": "...", "rows": 802},
        {"path": "plan.json", "bytes": 1377, "sha256": "...", "rows": null}, ...]}
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import EnvironmentFailure, HistoryError
from harness.history.run_folder import SCHEMA_VERSION, RunDir

FILES: Final = ("plan.json", "run.json", "faults.jsonl")
FOLDERS: Final = ("history", "reads", "observations", "ballast", "deliveries", "nodes", "clients")
_CELLS: Final = "cells"

_AT_ONCE_BYTES: Final = 2**18
"""A file of at most this size is read at once: the buffer for others takes longer to make than
its digest."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One file: its path below the run folder, with slashes; `rows` of Parquet alone."""

    path: str
    bytes: int
    sha256: str
    rows: int | None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a run folder held when its run was done."""

    run_id: str
    files: tuple[Evidence, ...]


def write_manifest(rundir: RunDir, run_id: str) -> None:
    """Write the manifest of all files. Raises EnvironmentFailure when the disk refuses it."""
    try:
        files = [asdict(_evidence(rundir.path, name)) for name in evidence_files(rundir)]
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
        files = tuple(Evidence(**each) for each in document["files"])
        whole = all(
            is_evidence(each.path)
            and type(each.bytes) is int
            and type(each.sha256) is str
            and (each.rows is None or type(each.rows) is int)
            for each in files
        )
        manifest = Manifest(run_id=document["run_id"], files=files)
    except (KeyError, TypeError) as error:
        raise _unusable(rundir) from error
    if not whole:
        raise _unusable(rundir)
    return manifest


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


def _evidence(folder: Path, name: str) -> Evidence:
    path = folder / name
    return Evidence(
        path=name, bytes=path.stat().st_size, sha256=digest_of(path), rows=rows_of(path)
    )


def is_evidence(name: str) -> bool:
    """Whether it can be a file of evidence; nothing outside the run folder is one."""
    parts = PurePosixPath(name).parts
    inside = len(parts) > 1 and parts[0] in (*FOLDERS, _CELLS) and ".." not in parts
    return name in FILES or inside


def _unusable(rundir: RunDir) -> HistoryError:
    return HistoryError(
        "is not a manifest as ackloss writes it",
        file=str(rundir.manifest),
        hint="copy the run folder again",
    )

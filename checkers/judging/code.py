"""The code that judges, in one zip: sent to a cluster with the job, so that its executors need no
ackloss, and always judge with this one.

It holds the packages as this process imports them, from a checkout or an installation, and those
of plug-ins that the user has installed, with their entry points, by which the registry finds them
there. A plug-in that cannot be sent is refused by name. The zip is kept in the cache, under its
digest, and is made again where the code has changed.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFailure, PlanError
from harness.machine.paths import cache_dir
from harness.registry import GROUP, PACKAGES

_OURS: Final = ("ackloss", "harness", "schedules", "nemeses", "workloads", "targets", "checkers")
_KINDS: Final = ("checkers", "targets")
"""The kinds of plug-ins that judging may call."""
_DATE: Final = (1980, 1, 1, 0, 0, 0)


def code_zip() -> Path:
    """The zip, made if it is not in the cache. Raises PlanError for a plug-in that cannot be sent,
    EnvironmentFailure where the cache cannot be written."""
    files = dict(sorted(_files()))
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    path = cache_dir() / "spark" / f"ackloss-{digest.hexdigest()[:16]}.zip"
    if not path.is_file():
        _write(path, _zipped(files))
    return path


def _files() -> Iterator[tuple[str, bytes]]:
    for package in _OURS:
        yield from _sources(package)
    for entry in entry_points(group=GROUP):
        if entry.name.partition(".")[0] in _KINDS and not _is_ours(entry):
            yield from _plugin(entry)


def _is_ours(entry: EntryPoint) -> bool:
    return entry.module.partition(".")[0] in {path.partition(".")[0] for path in PACKAGES.values()}


def _plugin(entry: EntryPoint) -> Iterator[tuple[str, bytes]]:
    """The package of a plug-in, and what makes its entry points known."""
    package, distribution = entry.module.partition(".")[0], entry.dist
    try:
        yield from _sources(package)
    except _Unsendable as error:
        raise PlanError(
            f"the plug-in {entry.name!r} cannot be sent to a cluster: its package {package!r} "
            f"{error}",
            hint="judge without --master, or uninstall it",
        ) from error
    if distribution is not None:
        yield from _metadata(distribution)


class _Unsendable(Exception):
    """Why a package does not work out of a zip: a predicate."""


def _sources(package: str) -> Iterator[tuple[str, bytes]]:
    """The Python files of a package, or of a module that is one file."""
    spec = find_spec(package)
    if spec is None:
        raise _Unsendable("cannot be found")
    if spec.submodule_search_locations is None:
        file = Path(spec.origin or "")
        if file.suffix != ".py":
            raise _Unsendable("is compiled")
        yield file.name, file.read_bytes()
        return
    folders = list(map(Path, spec.submodule_search_locations))
    if len(folders) != 1 or not folders[0].is_dir():
        raise _Unsendable("is not in one folder")
    for file in sorted(folders[0].rglob("*")):
        if file.name.endswith(tuple(EXTENSION_SUFFIXES)):
            raise _Unsendable(f"holds compiled code ({file.name})")
        if file.suffix == ".py":
            yield f"{package}/{file.relative_to(folders[0]).as_posix()}", file.read_bytes()


def _metadata(distribution: Distribution) -> Iterator[tuple[str, bytes]]:
    folder = f"{distribution.name.replace('-', '_')}-{distribution.version}.dist-info"
    for name in ("METADATA", "entry_points.txt"):
        if text := distribution.read_text(name):
            yield f"{folder}/{name}", text.encode()


def _zipped(files: dict[str, bytes]) -> bytes:
    """Equal bytes for equal files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the cache: {error.strerror}",
            file=str(path.parent),
            hint="set ACKLOSS_CACHE to a writable folder",
        ) from error

"""Where a lake is: a folder of this machine, or a bucket of S3; files appear whole or not at all.

What an address holds besides bucket and path (a key, a secret, an endpoint) is used, and never
shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from filelock import FileLock, Timeout
from pyarrow import fs

from harness.errors import EnvironmentFailure, HistoryError

SCHEMES: Final = ("file", "s3")


@dataclass(frozen=True)
class Place:
    """A folder in a file system. `shown` is its name for the user."""

    shown: str
    root: str
    filesystem: fs.FileSystem

    @property
    def local(self) -> Path | None:
        """The folder, where it is one of this machine."""
        return Path(self.root) if isinstance(self.filesystem, fs.LocalFileSystem) else None

    def name_of(self, path: str) -> str:
        """A file of it, for the user."""
        return f"{self.shown.rstrip('/')}/{path}"

    def read(self, path: str) -> bytes | None:
        """The content of a file; `None` where there is none. Raises HistoryError."""
        try:
            with self.filesystem.open_input_file(self._at(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"cannot be read: {_why(error)}", file=self.name_of(path)) from error

    def sizes(self, folder: str) -> dict[str, int]:
        """The sizes of all files below a folder, by path; none where it is missing. Raises
        HistoryError."""
        base = self._at(folder).rstrip("/")
        selector = fs.FileSelector(base, allow_not_found=True, recursive=True)
        try:
            found = self.filesystem.get_file_info(selector)
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(
                f"cannot be listed: {_why(error)}", file=self.name_of(folder)
            ) from error
        start = len(self._at(""))
        return {info.path[start:]: info.size for info in found if info.type == fs.FileType.File}

    def write(self, path: str, content: Callable[[Any], object]) -> None:
        """Write a file by `content`, which gets the stream: under a dot name, then renamed. Raises
        EnvironmentFailure."""
        folder, _, name = self._at(path).rpartition("/")
        partial = f"{folder}/.{name}.partial"
        try:
            self.filesystem.create_dir(folder, recursive=True)
            with self.filesystem.open_output_stream(partial) as stream:
                content(stream)
            if self.local is not None:
                _to_disk(partial)
            self.filesystem.move(partial, f"{folder}/{name}")
        except (OSError, pa.ArrowException) as error:
            with suppress(OSError, pa.ArrowException):
                self.filesystem.delete_file(partial)
            raise EnvironmentFailure(
                f"cannot be written: {_why(error)}", file=self.name_of(path)
            ) from error

    def remove(self, path: str) -> None:
        """Remove a file. Raises EnvironmentFailure."""
        try:
            self.filesystem.delete_file(self._at(path))
        except (OSError, pa.ArrowException) as error:
            raise EnvironmentFailure(
                f"cannot be removed: {_why(error)}", file=self.name_of(path)
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time writes a lake in a folder. In a bucket nothing prevents two. Raises
        EnvironmentFailure."""
        if self.local is None:
            yield
            return
        try:
            self.local.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.local / ".lake.lock", timeout=0)
            lock.acquire()
        except Timeout as error:
            raise EnvironmentFailure(
                "another process is writing this lake", file=self.shown, hint="try again later"
            ) from error
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot be written: {_why(error)}", file=self.shown
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"


def place_of(address: str | os.PathLike[str]) -> Place:
    """The place of an address: a path, `file://...` or `s3://...`. Raises HistoryError for any
    other."""
    text = os.fspath(address)
    scheme, separator, _ = text.partition("://")
    if not separator:
        path = str(Path(text).resolve())
        return Place(text, path, fs.LocalFileSystem())
    if scheme not in SCHEMES:
        known = " or ".join(f"{each}://" for each in SCHEMES)
        raise HistoryError(
            f"the scheme {scheme}:// is unknown",
            file=_shown(text),
            hint=f"name a folder, or an address that begins with {known}",
        )
    try:
        filesystem, root = fs.FileSystem.from_uri(text)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise HistoryError(
            f"this address cannot be used: {_why(error)}",
            file=_shown(text),
            hint="use file:///absolute/path or s3://bucket/path",
        ) from error
    return Place(_shown(text), root.rstrip("/"), filesystem)


def _shown(address: str) -> str:
    """An address without secrets: neither user and password, nor what stands behind `?`."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _why(error: BaseException) -> str:
    """What a file system says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _to_disk(path: str) -> None:
    with Path(path).open("rb") as stream:
        os.fsync(stream.fileno())

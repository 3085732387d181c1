"""Where a lake is: a folder of this machine, or one at a URL (`harness.storage`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness.errors import EnvironmentFailure
from harness.storage import Folder
from harness.urls import is_url


@dataclass(frozen=True)
class Place:
    """A folder of a lake. All methods raise EnvironmentFailure where it cannot be read or
    written."""

    folder: Folder

    @property
    def shown(self) -> str:
        """Its name for the user."""
        return self.folder.place()

    @property
    def local(self) -> Path | None:
        """The folder, where it is one of this machine."""
        return self.folder.local

    @property
    def filesystem(self) -> Any:
        """pyarrow's file system that has it."""
        return self.folder.opened()[0]

    @property
    def root(self) -> str:
        """Its path there."""
        return self.folder.opened()[1]

    def name_of(self, path: str) -> str:
        """A file of it, for the user."""
        return self.folder.place(path)

    def read(self, path: str) -> bytes | None:
        """The content of a file; `None` if there is none."""
        return self.folder.read(path) if self.folder.has(path) else None

    def sizes(self, folder: str) -> dict[str, int]:
        """The sizes of all files below a folder, by path; none where it is missing."""
        found = self.folder.below(folder).files(may_be_absent=True)
        return {f"{folder}/{name}" if folder else name: size for name, size in found.items()}

    def write(self, path: str, content: Callable[[Any], object]) -> None:
        """Write a file by `content`, which gets the stream; it appears completely or not at all."""
        self.folder.write_by(path, content)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.folder.remove(path)

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
                f"cannot be written: {error.strerror or error}", file=self.shown
            ) from error
        try:
            yield
        finally:
            lock.release()


def place_of(address: str | os.PathLike[str]) -> Place:
    """The place of an address: a path, or a URL. Raises HistoryError for one that cannot be
    used."""
    text = os.fspath(address)
    return Place(Folder.at(text) if is_url(text) else Folder.of(Path(text)))

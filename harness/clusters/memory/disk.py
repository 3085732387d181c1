"""A simulated disk: files of records, of which only what was fsynced survives a loss of power.

Files lie in folders below the node's data folder, by the same names as a real node's would
(`data/log-0/records`), so that the patterns of the disk nemesis fit. A process that dies leaves
everything it has written (the page cache survives), a machine that loses power only what it has
fsynced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

RECORD_BYTES: Final = 32
"""What one record takes: every one the same."""


@dataclass
class File:
    """Records in the order in which they were appended; the first `synced` are safe."""

    records: list[Any] = field(default_factory=list)
    synced: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.records) * RECORD_BYTES

    def sync(self) -> None:
        """Make all of it safe."""
        self.synced = len(self.records)

    def cut(self, count: int) -> None:
        """Keep the first `count` records."""
        del self.records[count:]
        self.synced = min(self.synced, count)


@dataclass
class Disk:
    """The files of one node by path."""

    files: dict[str, File] = field(default_factory=dict)

    def open(self, path: str) -> File:
        """The file of that path, made when it is missing."""
        return self.files.setdefault(path, File())

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in self.files

    def folders(self, patterns: Sequence[str]) -> list[str]:
        """The folders that a pattern fits, part by part: `*` never spans a slash."""
        found = sorted({path.rpartition("/")[0] for path in self.files} - {""})
        return [folder for folder in found if any(_fits(folder, one) for one in patterns)]

    def below(self, folder: str) -> list[str]:
        """The files in a folder or below it."""
        return sorted(path for path in self.files if path.startswith(f"{folder}/"))

    def sizes(self) -> dict[str, int]:
        """Every file with its size."""
        return {path: file.size_bytes for path, file in sorted(self.files.items())}

    def wipe(self, folder: str) -> None:
        """Delete a folder."""
        for path in self.below(folder):
            del self.files[path]

    def lose_power(self, folder: str, keep_share: float) -> dict[str, int]:
        """Drop what was not fsynced in a folder, but for the first `keep_share` of it; how many
        records each file has lost."""
        lost = {}
        for path in self.below(folder):
            file = self.files[path]
            loose = len(file.records) - file.synced
            kept = file.synced + int(keep_share * loose)
            if kept < len(file.records):
                lost[path] = len(file.records) - kept
                file.cut(kept)
            file.sync()
        return lost

    def shorten(self, folder: str, cut_bytes: int) -> dict[str, int]:
        """Cut the last bytes off the longest file of a folder: a record that was cut is gone."""
        paths = [path for path in self.below(folder) if self.files[path].records]
        if not paths:
            return {}
        path = max(paths, key=lambda each: len(self.files[each].records))
        file = self.files[path]
        lost = min(len(file.records), -(-cut_bytes // RECORD_BYTES))
        file.cut(len(file.records) - lost)
        return {path: lost}


def _fits(path: str, pattern: str) -> bool:
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))

"""Tar archives in memory, as Docker takes and gives files."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path


def packed(files: Mapping[str, bytes]) -> bytes:
    """An archive of these files, by name, and of the folders that they need."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folders: set[str] = set()
        for name, content in files.items():
            for parent in reversed(Path(name).parents[:-1]):
                if str(parent) not in folders:
                    folders.add(str(parent))
                    folder = tarfile.TarInfo(str(parent))
                    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(folder)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def unpacked(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of every regular file of an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            if member.isfile() and (content := members.extractfile(member)) is not None:
                yield member.name, content.read()

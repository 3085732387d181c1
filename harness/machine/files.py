"""Files that are replaced completely or not at all, also on a disk that becomes full."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import EnvironmentFailure


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; at the end the file is fsynced and renamed into place.
    Raises OSError; `path` is then as it was.

    Each writer has its own, so several may write at the same time: the last one counts. Its name
    begins with a dot, so what a crash leaves is ignored.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        yield partial
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file by one with this content. Raises OSError; `path` is then as it was."""
    with replacing(path) as partial:
        partial.write_bytes(content)


def replace_state(path: Path, content: bytes) -> None:
    """Replace a file of the state folder. Raises EnvironmentFailure; the file is then as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the state folder: {error.strerror}",
            file=str(path),
            hint="set ACKLOSS_STATE to a writable folder",
        ) from error

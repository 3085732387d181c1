"""Files that are replaced completely or not at all, also on a disk that becomes full."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from harness.errors import EnvironmentFailure


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` under a dot name beside `path`, fsync it, and rename it into place. Raises
    OSError; `path` is then as it was."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


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

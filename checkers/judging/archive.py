"""Spark's class-data archive: made once on a machine, it halves the time to the first answer.

The JVM writes the classes that a representative check has loaded (`-XX:ArchiveClassesAtExit`) and
maps them at the next start (`-XX:SharedArchiveFile`). An archive fits exactly one JVM and one class
path, with the sizes and times of its files, and the JVM ignores one that does not fit without a
word. So its name identifies all of these, and what is run in it. An archive takes 180 MB: a new one
replaces those that the same installation had before.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pyspark

from harness.errors import EnvironmentFailure
from harness.machine.paths import cache_dir

_QUIET: Final = "-Xlog:disable"
_LIMIT_S: Final = 300


@cache
def archive_path() -> Path:
    """Where the archive of this machine's JVM and this installation's Spark is, or would be."""
    java_home = os.environ.get("JAVA_HOME")
    java = Path(java_home, "bin", "java") if java_home else Path(shutil.which("java") or "java")
    release = java.resolve().parent.parent / "release"
    home = Path(pyspark.__file__).resolve().parent
    fits = (
        release.read_text() if release.is_file() else str(java.resolve()),
        *sorted(map(_stamp, os.scandir(home / "jars"))),
        Path(__file__).with_name("warm_up.py").read_text(encoding="utf-8"),
    )
    name = f"{pyspark.__version__}-{_digest(str(home))}-{_digest(*fits)}.jsa"
    return cache_dir() / "spark" / name


def _stamp(jar: os.DirEntry[str]) -> str:
    """What the JVM compares of a file of the class path."""
    stat = jar.stat()
    return f"{jar.name} {stat.st_size} {stat.st_mtime_ns}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def archive_ready() -> bool:
    """Whether the archive is there."""
    return archive_path().is_file()


def archive_flags() -> tuple[str, ...]:
    """The JVM's flags that use the archive; none if there is none."""
    return (_QUIET, f"-XX:SharedArchiveFile={archive_path()}") if archive_ready() else ()


def prepare_archive(say: Callable[[str], object]) -> None:
    """Make the archive if it is missing, in a separate process, whose end writes it.

    Raises EnvironmentFailure when Spark does not run here, or the cache folder cannot be written.
    """
    path = archive_path()
    if archive_ready():
        return
    say("making Spark's class-data archive: a small check in a JVM that notes its classes")
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(
            [sys.executable, "-m", "checkers.judging.warm_up", str(partial)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        if not partial.is_file():
            last_line = (made.stderr.strip().splitlines() or ["the JVM wrote none"])[-1]
            raise EnvironmentFailure(f"Spark's class-data archive was not made: {last_line}")
        partial.replace(path)
        _remove_earlier(path)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the cache: {error.strerror}",
            file=str(path.parent),
            hint="set ACKLOSS_CACHE to a writable folder",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(
            f"Spark's class-data archive was not made within {_LIMIT_S} s"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _remove_earlier(archive: Path) -> None:
    """Remove the other archives of this installation. A JVM that has mapped one keeps it."""
    installation = archive.name.rpartition("-")[0]
    for other in archive.parent.glob(f"{installation}-*.jsa"):
        if other != archive:
            other.unlink(missing_ok=True)

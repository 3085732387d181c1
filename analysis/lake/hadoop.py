"""The name that Spark has for the folder of a lake.

Spark reads storage by Hadoop's file systems, pyarrow by its own, and neither has all the schemes,
names and options of the other.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from harness.errors import EnvironmentFailure, HistoryError
from harness.storage import Folder

_SCHEMES: Final = {
    "s3": "s3a",
    "s3a": "s3a",
    "gs": "gs",
    "gcs": "gs",
    "hdfs": "hdfs",
    "abfs": "abfs",
    "abfss": "abfss",
}
"""Hadoop's names of schemes under which both have the same files by the same paths."""
_DUCKDB: Final = "`--engine duckdb` reads this lake"
_LACKING: Final = re.compile(
    r"No FileSystem for scheme|ClassNotFoundException: Class org\.apache\.hadoop\.fs\."
)


def hadoop_url(folder: Folder) -> str:
    """What Spark reads as this folder. Raises HistoryError where it has no such scheme, or where
    options of pyarrow say where it is."""
    if folder.local is not None:
        return f"file://{folder.local}"
    parts = urlsplit(folder.url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None:
        raise HistoryError(
            f"Spark does not read the scheme {parts.scheme!r}", file=folder.place(), hint=_DUCKDB
        )
    if parts.query:
        raise HistoryError(
            "Spark does not read the options of a URL",
            file=folder.place(),
            hint=f"leave them to the environment and to --conf spark.hadoop.fs...; {_DUCKDB}",
        )
    return f"{scheme}://{parts.netloc}{unquote(parts.path)}"


def lacks_connector(error: Exception) -> bool:
    """Whether Spark says that it has no file system for a scheme."""
    return _LACKING.search(str(error)) is not None


def no_connector(folder: Folder) -> EnvironmentFailure:
    """Why Spark cannot read a folder whose scheme it could read."""
    scheme = urlsplit(hadoop_url(folder)).scheme
    return EnvironmentFailure(
        f"Spark here has no connector for {scheme}://",
        file=folder.place(),
        hint=f"name it with --conf spark.jars.packages=... (docs/how-to/lake.md); {_DUCKDB}",
    )

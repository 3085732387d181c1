"""The one SparkSession of a process: quiet, on loopback, started from a class-data archive.

Spark's start is class loading and compiling, most of it avoidable for a small history: with an
archive of its classes (`checkers.archive`), the serial collector and the first compiler alone it
takes a third of the time. Large histories want the second compiler and the parallel collector.

What the JVM has to say goes to a file that nobody sees unless it fails: stdout belongs to `--json`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from checkers.archive import archive_flags
from harness.errors import EnvironmentFailure, HarnessFailure, HistoryError

LOCAL: Final = "local[*]"

SMALL: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LARGE: Final = ("-XX:+UseParallelGC",)

_CONF: Final[Mapping[str, str]] = {
    "spark.app.name": "ackloss",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
    # Many small files are the common case: list them here, and pack many into one task.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.files.openCostInBytes": str(64 * 1024),
    # Every expression would otherwise look up which line of Python it was written on.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_lock = threading.Lock()
_running: list[SparkSession] = []


def session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    small: bool = False,
    flags: Sequence[str] | None = None,
) -> SparkSession:
    """This process' session, started by the first call, whose arguments count.

    `conf` is any Spark configuration and wins over ours. `small` suits a few thousand operations;
    `flags` are the JVM's, instead of those that we choose. Raises EnvironmentFailure when Java or
    Spark does not start.
    """
    with _lock:
        if not _running:
            chosen = (*archive_flags(), *(SMALL if small else LARGE)) if flags is None else flags
            _running.append(_start(master or LOCAL, conf or {}, chosen))
        return _running[0]


def _start(master: str, conf: Mapping[str, str], flags: Sequence[str]) -> SparkSession:
    settings = {**_CONF, "spark.master": master}
    if master.startswith("local"):
        settings |= _LOOPBACK
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings |= conf
    own = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = " ".join((*flags, own)).strip()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # spark-submit asks a first, short-lived JVM what to start.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark_conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with tempfile.TemporaryFile() as told:
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                spark_conf, popen_kwargs={"stdout": told, "stderr": told}
            )
            return SparkSession(SparkContext(conf=spark_conf, gateway=gateway))
        except (PySparkException, Py4JError, OSError) as error:
            raise EnvironmentFailure(
                f"Spark does not start: {_last_line(told) or error}",
                hint="it needs a JDK 17 or newer; `ackloss doctor` says what is there",
            ) from error


def _last_line(told: IO[bytes]) -> str:
    told.seek(0)
    lines = told.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


@contextlib.contextmanager
def told_clearly() -> Iterator[None]:
    """What Spark raises, as one sentence: HistoryError for a file it cannot read, naming it, else
    HarnessFailure."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        condition = getattr(error, "getCondition", lambda: None)() or ""
        if condition.startswith("FAILED_READ_FILE"):
            file = (error.getMessageParameters() or {}).get("path", "")
            raise HistoryError(
                "cannot be read: its Parquet is damaged", file=file.removeprefix("file://")
            ) from error
        raise HarnessFailure(f"Spark failed: {str(error).strip().splitlines()[0]}") from error

"""The one SparkContext of a process: quiet, on loopback, started from a class-data archive.

Spark's start is class loading and compiling, most of it avoidable: with an archive of its classes
(`checkers.judging.archive`), the serial collector and the first compiler alone it takes a third of
the time. Rows are judged in Python workers, so the JVM itself has little to do.

What the JVM has to say goes to a file that nobody sees unless it fails: stdout belongs to `--json`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from checkers.judging.archive import archive_flags
from harness.errors import EnvironmentFailure, HarnessFailure

LOCAL: Final = "local[*]"

FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_CONF: Final[Mapping[str, str]] = {
    "spark.app.name": "ackloss",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_DEATHS: Final = ("Python worker exited unexpectedly", "ExecutorLostFailure")
"""How Spark says that the process which judges has gone: in a worker's death, and in an
executor's, which takes its workers with it."""


class WorkerDied(HarnessFailure):
    """A process that was judging is gone: killed, or out of memory."""


_lock = threading.Lock()
_running: list[SparkContext] = []


def context(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    flags: Sequence[str] | None = None,
) -> SparkContext:
    """This process' Spark, started by the first call, whose arguments count.

    `conf` is any Spark configuration and wins over ours; `flags` are the JVM's, instead of those
    that we choose. Raises EnvironmentFailure when Java or Spark does not start.
    """
    with _lock:
        if not _running:
            chosen = (*archive_flags(), *FLAGS) if flags is None else flags
            _running.append(_start(master or LOCAL, conf or {}, chosen))
        return _running[0]


def _start(master: str, conf: Mapping[str, str], flags: Sequence[str]) -> SparkContext:
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
            return SparkContext(conf=spark_conf, gateway=gateway)
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
    """What Spark raises, as one sentence; what a worker raised, by its own last line. Raises
    WorkerDied where it was a worker's death, else HarnessFailure."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        in_worker = re.search(
            r"Traceback \(most recent call last\):.*?(?=\n SQLSTATE|\n\s*at )", str(error), re.S
        )
        lines = (in_worker[0] if in_worker else str(error)).strip().splitlines()
        told = lines[-1 if in_worker else 0]
        died = any(words in str(error) for words in _DEATHS)
        raise (WorkerDied if died else HarnessFailure)(f"Spark failed: {told}") from error

"""The one SparkContext of a process: quiet, on loopback, started from a class-data archive.

Spark's start is class loading and compiling, most of it avoidable: with an archive of its classes
(`checkers.judging.archive`), the serial collector and the first compiler alone it takes a third of
the time. Rows are judged in Python workers, so the JVM itself has little to do.

The JVM's output goes to a file that is shown only if it fails: stdout belongs to `--json`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from checkers.judging import cluster
from checkers.judging.archive import archive_flags
from checkers.judging.code import code_zip
from checkers.judging.isolation import WorkerDied
from harness.errors import EnvironmentFailure, HarnessFailure, PlanError
from harness.machine.scratch import scratch

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


_lock = threading.Lock()
_running: list[SparkContext] = []
_warehouses: list[tempfile.TemporaryDirectory[str]] = []


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


def running() -> bool:
    """Whether this process has started Spark."""
    return bool(_running)


def _start(master: str, conf: Mapping[str, str], flags: Sequence[str]) -> SparkContext:
    wait_s = _seconds(conf)  # refused before a JVM starts
    code = _prepare_cluster(master, conf)
    settings = {**_CONF, "spark.master": master, "spark.sql.warehouse.dir": _warehouse()}
    if cluster.on_loopback(master):
        settings |= _LOOPBACK
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings |= conf
    own = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = " ".join((*flags, own)).strip()
    os.environ.setdefault(cluster.PYTHON, sys.executable)
    # spark-submit gets what to start from a first, short-lived JVM.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark_conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with tempfile.TemporaryFile() as output:
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                spark_conf, popen_kwargs={"stdout": output, "stderr": output}
            )
            spark = SparkContext(conf=spark_conf, gateway=gateway, pyFiles=code)
        except (PySparkException, Py4JError, OSError) as error:
            raise _not_started(master, _last_line(output) or str(error)) from error
    if not cluster.is_local(master):
        cluster.wait_for_executor(spark, wait_s)
    return spark


def _warehouse() -> str:
    """An empty folder, removed when this process ends: Spark makes a warehouse when SQL first names
    a table that it does not know, by default in the current folder."""
    folder = scratch()
    _warehouses.append(folder)
    return Path(folder.name).as_uri()  # not a path of Hadoop's default file system


def _prepare_cluster(master: str, conf: Mapping[str, str]) -> list[str]:
    """The code to be sent to a master that answers; none to this machine's own workers."""
    if cluster.is_local(master):
        return []
    cluster.require_answer(master)
    cluster.choose_python(conf.get(cluster.PYTHON_KEY))
    return [str(code_zip())]


def _seconds(conf: Mapping[str, str]) -> float | None:
    text = conf.get(cluster.WAIT_KEY)
    try:
        return None if text is None else float(text)
    except ValueError as error:
        raise PlanError(f"{text!r} is not a number of seconds", key=cluster.WAIT_KEY) from error


def _not_started(master: str, why: str) -> EnvironmentFailure:
    if cluster.is_local(master):
        hint = "it needs a JDK 17 or newer; `ackloss doctor` says what is there"
        return EnvironmentFailure(f"Spark does not start: {why}", hint=hint)
    hint = "it must be one that this version of Spark can use (docs/scale.md)"
    return EnvironmentFailure(f"Spark does not start on this master: {why}", file=master, hint=hint)


def _last_line(output: IO[bytes]) -> str:
    output.seek(0)
    lines = output.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


@contextlib.contextmanager
def failures_in_words() -> Iterator[None]:
    """What Spark raises, as one sentence; what a worker raised, by its own last line. Raises
    WorkerDied where it was a worker's death, EnvironmentFailure where an executor lacks something,
    else HarnessFailure."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        in_worker = re.search(
            r"Traceback \(most recent call last\):.*?(?=\n SQLSTATE|\n\s*at )", str(error), re.S
        )
        lines = (in_worker[0] if in_worker else str(error)).strip().splitlines()
        message = lines[-1 if in_worker else 0]
        if (unfit := cluster.unfit(str(error))) is not None:
            raise unfit from error
        died = any(words in str(error) for words in _DEATHS)
        raise (WorkerDied if died else HarnessFailure)(f"Spark failed: {message}") from error

"""The one SparkContext of a process: quiet, and on loopback where its master is.

Rows are judged in Python workers, so the JVM itself has little to do: the serial collector and the
first compiler alone start it faster. Its output goes to a file that is shown only if it fails:
stdout belongs to `--json`.

A cluster needs more than this machine's own Spark: an answer before a JVM starts, a Python that the
executors have, executors at all, and the code that judges. That travels with the job, as this
process imports it, with the user's plug-ins and their entry points, by which the registry finds
them there.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_python_version
from typing import IO, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from checkers.judging.results import WorkerDied
from harness.errors import EnvironmentFailure, HarnessFailure, PlanError
from harness.machine.files import scratch
from harness.registry import GROUP, PACKAGES

NEEDS: Final = ("numpy", "pyarrow", "orjson", "pydantic")
"""What the Python of an executor must have. Everything else that judges is sent with the job."""
PYTHON: Final = "PYSPARK_PYTHON"
PYTHON_KEY: Final = "spark.pyspark.python"
WAIT_KEY: Final = "spark.ackloss.executorWait"
"""How many seconds to wait for the first executor."""

_WAIT_S: Final = 300.0
_CONNECT_S: Final = 5.0
_PORT: Final = 7077
_STANDALONE: Final = "spark://"
_OWN_HOSTS: Final = re.compile(r"127\.\d+\.\d+\.\d+|localhost|\[::1\]")
_GUIDE: Final = "docs/how-to/scale.md"

_LACKING: Final = re.compile(r"No module named '([\w.]+)'")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)"')
_VERSIONS: Final = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+)")
_ENDED: Final = re.compile(r"Error from python worker:\s*(\S.*?)\s*PYTHONPATH was:", re.S)
"""What Spark writes when the Python of a worker ends before it can say anything, as one does that
is too old for this Spark."""


def is_local(master: str) -> bool:
    """Whether the workers of this master are processes of this machine that share its files."""
    return master == "local" or master.startswith("local[")


def on_loopback(master: str) -> bool:
    """Whether nothing but this machine need reach the driver."""
    hosts = [host for host, _ in _masters(master)]
    return is_local(master) or (bool(hosts) and all(map(_OWN_HOSTS.fullmatch, hosts)))


def require_answer(master: str) -> None:
    """Raise EnvironmentFailure unless a standalone master accepts a connection: Spark itself would
    try for a minute. Other kinds of master are reached by their own clients."""
    whys = []
    for host, port in _masters(master):
        try:
            socket.create_connection((host.strip("[]"), port), timeout=_CONNECT_S).close()
            return
        except OSError as error:
            whys.append(error.strerror or str(error))
    if whys:
        raise EnvironmentFailure(
            f"the Spark master does not answer ({whys[0]})",
            file=master,
            hint="start it, or name another with --master",
        )


def _masters(master: str) -> Iterator[tuple[str, int]]:
    """The hosts and ports of standalone masters: `spark://a:7077,b:7077`."""
    if master.startswith(_STANDALONE):
        for each in master.removeprefix(_STANDALONE).split(","):
            host, colon, port = each.rpartition(":")
            known = colon and port.isdecimal()
            yield (host, int(port)) if known else (each, _PORT)


def wait_for_executor(spark: Any, limit_s: float | None) -> None:
    """Wait until Spark has an executor. Raises EnvironmentFailure if it has none in time."""
    limit_s = _WAIT_S if limit_s is None else limit_s
    ends_s = time.monotonic() + limit_s
    # The driver is in the list, too.
    while spark._jsc.sc().getExecutorMemoryStatus().size() < 2:
        if time.monotonic() > ends_s:
            raise EnvironmentFailure(
                f"the Spark master gave no executor within {limit_s:g} s",
                file=spark.master,
                hint="it needs a worker with a free core and the memory of spark.executor.memory; "
                f"--conf {WAIT_KEY}=SECONDS waits longer",
            )
        time.sleep(0.1)


def unfit(sentence: str) -> EnvironmentFailure | None:
    """What Spark reports if an executor cannot judge because something is missing, in one sentence;
    `None` if it reports something else."""
    packages = f"an executor needs Python {get_python_version()} and {', '.join(NEEDS)} ({_GUIDE})"
    other_python = f"name one that it has: {PYTHON}, or --conf {PYTHON_KEY}=PATH"
    if lacking := _LACKING.search(sentence):
        package = lacking[1].partition(".")[0]
        return EnvironmentFailure(f"the Python of an executor lacks {package}", hint=packages)
    if program := _NO_PROGRAM.search(sentence):
        return EnvironmentFailure(
            f"an executor cannot start its Python, {program[1]!r}", hint=other_python
        )
    if versions := _VERSIONS.search(sentence):
        return EnvironmentFailure(
            f"an executor has Python {versions[1]}, this process {versions[2]}",
            hint=f"name the same: {PYTHON}, or --conf {PYTHON_KEY}=PATH",
        )
    if ended := _ENDED.search(sentence):
        why = ended[1].strip().splitlines()[-1].strip()
        return EnvironmentFailure(
            f"the Python of an executor does not run Spark's worker: {why}", hint=packages
        )
    return None


_OURS: Final = ("ackloss", "harness", "schedules", "nemeses", "workloads", "targets", "checkers")
_CODE: Final = (".py", ".toml", ".tsv", ".json", ".sh", ".properties")
"""Modules, and the tables beside them."""
_KINDS: Final = ("checkers", "targets")
"""The kinds of plug-ins that judging may call."""


def code_zip(folder: Path) -> Path:
    """The code that judges, as one file in `folder`. Raises PlanError for a plug-in whose package
    is compiled: that works in no zip."""
    path = folder / "ackloss.zip"
    ours = {module.partition(".")[0] for module in PACKAGES.values()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _OURS:
            _add(archive, package)
        for entry in entry_points(group=GROUP):
            package = entry.module.partition(".")[0]
            if entry.name.partition(".")[0] not in _KINDS or package in ours:
                continue
            if compiled := _add(archive, package):
                raise PlanError(
                    f"the plug-in {entry.name!r} cannot be sent to a cluster: its package "
                    f"{package!r} holds compiled code ({compiled})",
                    hint="judge without --master, or uninstall it",
                )
            if entry.dist is not None:
                name = f"{entry.dist.name.replace('-', '_')}-{entry.dist.version}.dist-info"
                for file in ("METADATA", "entry_points.txt"):
                    archive.writestr(f"{name}/{file}", entry.dist.read_text(file) or "")
    return path


def _add(archive: zipfile.ZipFile, package: str) -> str | None:
    """Add the files of a package that code reads, or a module that is one file; the name of a
    compiled one, if there is any."""
    spec = find_spec(package)
    origin = Path((spec and spec.origin) or "")
    folder = origin.parent if spec and spec.submodule_search_locations else None
    for file in sorted(folder.rglob("*")) if folder else [origin]:
        if file.name.endswith(tuple(EXTENSION_SUFFIXES)):
            return file.name
        if file.suffix in _CODE:
            archive.write(file, file.relative_to((folder or origin).parent).as_posix())
    return None


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
_scratch: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when this process ends."""


def context(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkContext:
    """This process' Spark, started by the first call, whose arguments count: `conf` is any Spark
    configuration and wins over ours. Raises EnvironmentFailure when Java or Spark does not start.
    """
    with _lock:
        if not _running:
            _running.append(_start(master or LOCAL, conf or {}))
        return _running[0]


def _start(master: str, conf: Mapping[str, str]) -> SparkContext:
    wait_s = _seconds(conf)  # refused before a JVM starts
    _scratch.append(scratch())
    folder = Path(_scratch[0].name)
    code = _prepare_cluster(master, conf, folder)
    # Spark makes a warehouse when SQL first names a table that it does not know, by default in the
    # current folder.
    warehouse = (folder / "warehouse").as_uri()
    settings = {**_CONF, "spark.master": master, "spark.sql.warehouse.dir": warehouse}
    if on_loopback(master):
        settings |= _LOOPBACK
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings |= conf
    own = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = " ".join((*FLAGS, own)).strip()
    os.environ.setdefault(PYTHON, sys.executable)
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
    if not is_local(master):
        wait_for_executor(spark, wait_s)
    return spark


def _prepare_cluster(master: str, conf: Mapping[str, str], folder: Path) -> list[str]:
    """The code to be sent to a master that answers; none to this machine's own workers."""
    if is_local(master):
        return []
    require_answer(master)
    # Not this one, unless the environment chooses it: executors need not have it at this path.
    os.environ.setdefault(PYTHON, conf.get(PYTHON_KEY) or "python3")
    return [str(code_zip(folder))]


def _seconds(conf: Mapping[str, str]) -> float | None:
    text = conf.get(WAIT_KEY)
    try:
        return None if text is None else float(text)
    except ValueError as error:
        raise PlanError(f"{text!r} is not a number of seconds", key=WAIT_KEY) from error


def _not_started(master: str, why: str) -> EnvironmentFailure:
    if is_local(master):
        hint = "it needs a JDK 17 or newer; `ackloss doctor` says what is there"
        return EnvironmentFailure(f"Spark does not start: {why}", hint=hint)
    hint = "it must be one that this version of Spark can use (docs/how-to/scale.md)"
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
        if (why := unfit(str(error))) is not None:
            raise why from error
        died = any(words in str(error) for words in _DEATHS)
        raise (WorkerDied if died else HarnessFailure)(f"Spark failed: {message}") from error

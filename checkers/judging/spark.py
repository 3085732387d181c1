"""The one SparkContext of a process: quiet, on loopback, started from a class-data archive.

Spark's start is class loading and compiling, most of it avoidable: with an archive of its classes
(`checkers.judging.spark`), the serial collector and the first compiler alone it takes a third of
the time. Rows are judged in Python workers, so the JVM itself has little to do.

The JVM's output goes to a file that is shown only if it fails: stdout belongs to `--json`.

What a Spark cluster needs that this machine's own Spark does not: an answer before a JVM starts,
a Python that the executors have, executors at all.

The code that judges, in one zip: sent to a cluster with the job, so that its executors need no
ackloss, and always judge with this one.

It holds the packages as this process imports them, from a checkout or an installation, and those
of plug-ins that the user has installed, with their entry points, by which the registry finds them
there. A plug-in that cannot be sent is refused by name. The zip is kept in the cache, under its
digest, and is made again where the code has changed.

Spark's class-data archive: made once on a machine, it halves the time to the first answer.

The JVM writes the classes that a representative check has loaded (`-XX:ArchiveClassesAtExit`) and
maps them at the next start (`-XX:SharedArchiveFile`). An archive fits exactly one JVM and one class
path, with the sizes and times of its files, and the JVM ignores one that does not fit without a
word. So its name identifies all of these, and what is run in it. An archive takes 180 MB: a new one
replaces those that the same installation had before.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_python_version
from typing import IO, Any, Final

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from checkers.judging.isolation import WorkerDied
from harness.errors import EnvironmentFailure, HarnessFailure, PlanError
from harness.machine.scratch import scratch
from harness.machine.state import cache_dir
from harness.registry import GROUP, PACKAGES

NEEDS: Final = ("numpy", "pyarrow", "orjson", "pydantic")
"""What the Python of an executor must have. Everything else that judges is sent with the job
(`checkers.judging.spark`)."""
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


def choose_python(configured: str | None) -> None:
    """Choose the Python of executors if the environment does not: not this one, because executors
    need not have it at this path."""
    os.environ.setdefault(PYTHON, configured or "python3")


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
_KINDS: Final = ("checkers", "targets")
"""The kinds of plug-ins that judging may call."""
_DATE: Final = (1980, 1, 1, 0, 0, 0)


def code_zip() -> Path:
    """The zip, made if it is not in the cache. Raises PlanError for a plug-in that cannot be sent,
    EnvironmentFailure where the cache cannot be written."""
    files = dict(sorted(_files()))
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    path = cache_dir() / "spark" / f"ackloss-{digest.hexdigest()[:16]}.zip"
    if not path.is_file():
        _write(path, _zipped(files))
    return path


def _files() -> Iterator[tuple[str, bytes]]:
    for package in _OURS:
        yield from _sources(package)
    for entry in entry_points(group=GROUP):
        if entry.name.partition(".")[0] in _KINDS and not _is_ours(entry):
            yield from _plugin(entry)


def _is_ours(entry: EntryPoint) -> bool:
    return entry.module.partition(".")[0] in {path.partition(".")[0] for path in PACKAGES.values()}


def _plugin(entry: EntryPoint) -> Iterator[tuple[str, bytes]]:
    """The package of a plug-in, and what makes its entry points known."""
    package, distribution = entry.module.partition(".")[0], entry.dist
    try:
        yield from _sources(package)
    except _Unsendable as error:
        raise PlanError(
            f"the plug-in {entry.name!r} cannot be sent to a cluster: its package {package!r} "
            f"{error}",
            hint="judge without --master, or uninstall it",
        ) from error
    if distribution is not None:
        yield from _metadata(distribution)


class _Unsendable(Exception):
    """Why a package does not work out of a zip: a predicate."""


def _sources(package: str) -> Iterator[tuple[str, bytes]]:
    """The Python files of a package, or of a module that is one file."""
    spec = find_spec(package)
    if spec is None:
        raise _Unsendable("cannot be found")
    if spec.submodule_search_locations is None:
        file = Path(spec.origin or "")
        if file.suffix != ".py":
            raise _Unsendable("is compiled")
        yield file.name, file.read_bytes()
        return
    folders = list(map(Path, spec.submodule_search_locations))
    if len(folders) != 1 or not folders[0].is_dir():
        raise _Unsendable("is not in one folder")
    for file in sorted(folders[0].rglob("*")):
        if file.name.endswith(tuple(EXTENSION_SUFFIXES)):
            raise _Unsendable(f"holds compiled code ({file.name})")
        if file.suffix == ".py":
            yield f"{package}/{file.relative_to(folders[0]).as_posix()}", file.read_bytes()


def _metadata(distribution: Distribution) -> Iterator[tuple[str, bytes]]:
    folder = f"{distribution.name.replace('-', '_')}-{distribution.version}.dist-info"
    for name in ("METADATA", "entry_points.txt"):
        if text := distribution.read_text(name):
            yield f"{folder}/{name}", text.encode()


def _zipped(files: dict[str, bytes]) -> bytes:
    """Equal bytes for equal files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the cache: {error.strerror}",
            file=str(path.parent),
            hint="set ACKLOSS_CACHE to a writable folder",
        ) from error


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
    if on_loopback(master):
        settings |= _LOOPBACK
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings |= conf
    own = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = " ".join((*flags, own)).strip()
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


def _warehouse() -> str:
    """An empty folder, removed when this process ends: Spark makes a warehouse when SQL first names
    a table that it does not know, by default in the current folder."""
    folder = scratch()
    _warehouses.append(folder)
    return Path(folder.name).as_uri()  # not a path of Hadoop's default file system


def _prepare_cluster(master: str, conf: Mapping[str, str]) -> list[str]:
    """The code to be sent to a master that answers; none to this machine's own workers."""
    if is_local(master):
        return []
    require_answer(master)
    choose_python(conf.get(PYTHON_KEY))
    return [str(code_zip())]


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

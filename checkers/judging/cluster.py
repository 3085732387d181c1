"""What a Spark cluster needs that this machine's own Spark does not: an answer before a JVM starts,
a Python that the executors have, executors at all.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from sysconfig import get_python_version
from typing import Any, Final

from harness.errors import EnvironmentFailure

NEEDS: Final = ("numpy", "pyarrow", "orjson", "pydantic")
"""What the Python of an executor must have. Everything else that judges is sent with the job
(`checkers.judging.code`)."""
PYTHON: Final = "PYSPARK_PYTHON"
PYTHON_KEY: Final = "spark.pyspark.python"
WAIT_KEY: Final = "spark.ackloss.executorWait"
"""How many seconds to wait for the first executor."""

_WAIT_S: Final = 300.0
_CONNECT_S: Final = 5.0
_PORT: Final = 7077
_STANDALONE: Final = "spark://"
_LOOPBACK: Final = re.compile(r"127\.\d+\.\d+\.\d+|localhost|\[::1\]")
_GUIDE: Final = "docs/scale.md"

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
    return is_local(master) or (bool(hosts) and all(map(_LOOPBACK.fullmatch, hosts)))


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

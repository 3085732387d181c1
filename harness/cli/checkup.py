"""What this machine has and lacks for a run: looks, and changes nothing.

Each check is a function that returns a finding with the command that cures it. `ackloss doctor`
shows all of them; `require` asks, just before a run, only for what would make it break half-way.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from harness.errors import EnvironmentFailure
from harness.images.building import base_reference, find
from harness.images.daemon import connect
from harness.images.recipe import HOLDER, made_base
from harness.machine.paths import cache_dir, state_dir
from harness.machine.user_config import user_config
from harness.plan import Plan

DISK_MIN_BYTES = 2 << 30
DISK_FEW_BYTES = 8 << 30
MEMORY_FEW_BYTES = 4 << 30
_DOCKER_MIN = (20, 10)
_JAVA_MIN = 17
_MAVEN_MIN = (3, 6)


class Status(StrEnum):
    """`warn`: runs work, but something may be short, or is not there yet."""

    OK = "ok"
    MISSING = "missing"
    OLD = "old"
    WARN = "warn"


OK, MISSING, OLD, WARN = Status.OK, Status.MISSING, Status.OLD, Status.WARN


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and the command that cures it."""

    name: str
    status: Status
    detail: str
    cure: str | None = None

    def document(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def examine(runs: Path) -> list[Finding]:
    """Everything of the machine itself; `runs` is where run folders would go."""
    docker, info = docker_daemon()
    checks: list[Callable[[], Finding]] = [
        python,
        java,
        maven,
        lambda: _program("iptables", "Docker's networks are made by it"),
        lambda: base_maker(has_docker=info is not None),
        configuration,
        memory,
        lambda: disk("disk of runs", runs),
        lambda: disk("disk of the cache", cache_dir()),
        lambda: disk("disk of the state", state_dir()),
        netem,
    ]
    found = [docker, *(check() for check in checks)]
    if info is not None:
        found.append(disk("disk of Docker", Path(info["DockerRootDir"])))
        found.append(holder_image())
    return found


def docker_daemon() -> tuple[Finding, dict[str, Any] | None]:
    """The Docker daemon, and what it tells of itself when it answers."""
    if shutil.which("dockerd") is None and "DOCKER_HOST" not in os.environ:
        return Finding("docker", MISSING, "not installed", "make setup"), None
    try:
        info = connect().info()
    except EnvironmentFailure as error:
        cure = "usermod -aG docker $USER" if "rights" in error.what else "make setup"
        return Finding("docker", MISSING, error.what, cure), None
    version = str(info["ServerVersion"])
    detail = f"{version}, storage {info['Driver']}"
    if _numbers(version) < _DOCKER_MIN:
        return Finding("docker", OLD, f"{detail}; 20.10 is needed", "make setup"), info
    return Finding("docker", OK, detail), info


def python() -> Finding:
    """The Python that runs this."""
    return Finding("python", OK, f"{platform.python_version()} at {sys.executable}")


def java() -> Finding:
    """The Java that Spark would start: JAVA_HOME's, or the first in PATH."""
    home = os.environ.get("JAVA_HOME")
    told = _output([f"{home}/bin/java" if home else "java", "-version"])
    found = re.search(r'version "(\d+)', told or "")
    cure = "apt-get install openjdk-17-jdk-headless"
    if told is None or found is None:
        return Finding("java", MISSING, "Spark needs Java 17", cure)
    detail = told.splitlines()[0].strip()
    if int(found.group(1)) < _JAVA_MIN:
        return Finding("java", OLD, f"{detail}; Spark needs Java 17", cure)
    return Finding("java", OK, detail)


def maven() -> Finding:
    """Maven, by which Kafka's jars come."""
    told = _output(["mvn", "--version"])
    cure = "apt-get install maven"
    if told is None:
        return Finding("maven", MISSING, "Kafka's jars come by it", cure)
    detail = re.sub(r"\x1b\[[0-9;]*m", "", told).splitlines()[0]
    if _numbers(detail) < _MAVEN_MIN:
        return Finding("maven", OLD, f"{detail}; 3.6 is needed", cure)
    return Finding("maven", OK, detail)


def base_maker(*, has_docker: bool) -> Finding:
    """mmdebstrap: only needed where there is neither a base image yet nor the user's own."""
    if base_reference() != made_base():
        return Finding("mmdebstrap", OK, f"not needed, the base image is {base_reference()}")
    if shutil.which("mmdebstrap") is None and has_docker and find(made_base()) is not None:
        return Finding("mmdebstrap", OK, "not needed, the base image is there")
    return _program("mmdebstrap", "the base image is made by it")


def configuration() -> Finding:
    """The user's own configuration, when there is one."""
    try:
        config = user_config()
    except EnvironmentFailure as error:
        return Finding("configuration", MISSING, str(error), "correct the file")
    given = config.model_dump(exclude_none=True)
    return Finding("configuration", OK, ", ".join(f"{k} = {v}" for k, v in given.items()) or "none")


def memory() -> Finding:
    """Memory that is free for nodes: a default cluster of six takes 1.2 GiB, its limit is 3."""
    free = psutil.virtual_memory().available
    if free < MEMORY_FEW_BYTES:
        return Finding("memory", WARN, f"{_gib(free)} available", "end other programs")
    return Finding("memory", OK, f"{_gib(free)} available")


def disk(name: str, folder: Path) -> Finding:
    """Room where something will be written; the folder itself need not be there yet."""
    place = _existing(folder)
    free = shutil.disk_usage(place).free
    detail = f"{_gib(free)} free at {folder}"
    if not os.access(place, os.W_OK):
        return Finding(name, MISSING, f"{detail}, and it is not writable", f"chown it: {place}")
    if free < DISK_MIN_BYTES:
        return Finding(name, MISSING, f"{detail}; a run needs {_gib(DISK_MIN_BYTES)}", "df -h")
    return Finding(name, WARN if free < DISK_FEW_BYTES else OK, detail)


def netem() -> Finding:
    """Whether the kernel can delay packets: asked of its configuration and modules, not tried."""
    release = platform.release()
    lists = [Path(f"/lib/modules/{release}/modules.{kind}") for kind in ("dep", "builtin")]
    known = any(path.exists() and "sch_netem" in path.read_text() for path in lists)
    if known or Path("/sys/module/sch_netem").exists() or _configured("CONFIG_NET_SCH_NETEM"):
        return Finding("netem", OK, f"kernel {release} has it")
    return Finding(
        "netem", WARN, f"kernel {release} seems to lack it: faults that delay packets will say so"
    )


def holder_image() -> Finding:
    """The image that owns the nodes' namespaces."""
    reference = HOLDER.reference(base_reference())
    return made(f"image {reference}", find(reference) is not None, " ".join(HOLDER.packages))


def made(name: str, there: bool, detail: str = "") -> Finding:
    """Something that `ackloss prepare` makes; its absence is no fault, it only costs time later."""
    if there:
        return Finding(name, OK, detail or "is there")
    return Finding(name, WARN, "not made yet", "ackloss prepare")


def require(plan: Plan, *, nodes: int, runs: Path) -> None:
    """Raise EnvironmentFailure when this plan's run would lack Docker, disk or memory."""
    root = Path(connect().info()["DockerRootDir"])
    for name, folder in (("run folders", runs), ("Docker", root)):
        free = shutil.disk_usage(_existing(folder)).free
        if free < DISK_MIN_BYTES:
            raise EnvironmentFailure(
                f"{_gib(free)} are free on the disk of {name}, a run needs {_gib(DISK_MIN_BYTES)}",
                file=str(folder),
                hint="free some, or choose another disk with --out" if folder == runs else None,
            )
    needed = nodes * plan.target.memory_mb << 20
    free = psutil.virtual_memory().available
    if free < needed:
        raise EnvironmentFailure(
            f"{_gib(free)} of memory are available, {nodes} nodes of {plan.target.memory_mb} MiB "
            f"may take {_gib(needed)}",
            key="target.memory_mb",
            hint="end other programs, or ask for fewer or smaller nodes",
        )


def _program(name: str, why: str) -> Finding:
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        return Finding(name, MISSING, why, f"apt-get install {name}")
    return Finding(name, OK, path)


def _output(argv: Sequence[str]) -> str | None:
    """What a program prints; null when it is not there or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


def _numbers(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else (0,)


def _configured(option: str) -> bool:
    try:
        with gzip.open("/proc/config.gz", "rt") as config:
            return any(line.startswith((f"{option}=y", f"{option}=m")) for line in config)
    except OSError:
        return False


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def _gib(count_bytes: int) -> str:
    return f"{count_bytes / (1 << 30):.1f} GiB"

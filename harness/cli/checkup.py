"""Checks what this machine has and lacks for a run. Changes nothing.

Each check is a function that returns a finding with the command that fixes it. `ackloss doctor`
shows all of them; `harness.run.before` checks, just before a run, only what would make the run fail
half-way.
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
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.errors import EnvironmentFailure
from harness.images.building import base_reference, find
from harness.images.daemon import DockerInfo, docker_info
from harness.images.recipe import INFRA, made_base
from harness.machine.paths import cache_dir, state_dir
from harness.machine.space import DISK_MIN_BYTES, existing, free_bytes, gib, memory_available
from harness.machine.user_config import user_config

DISK_LOW_BYTES = 8 << 30
MEMORY_LOW_BYTES = 4 << 30
_DOCKER_MIN = (20, 10)
_JAVA_MIN = 17
_MAVEN_MIN = (3, 6)


class Status(StrEnum):
    """`warn`: runs work, but something is scarce or has not been made yet."""

    OK = "ok"
    MISSING = "missing"
    OLD = "old"
    WARN = "warn"


OK, MISSING, OLD, WARN = Status.OK, Status.MISSING, Status.OLD, Status.WARN


@dataclass(frozen=True)
class Finding:
    """The result of one check; `fix` is the command that corrects what is wrong."""

    name: str
    status: Status
    detail: str
    fix: str | None = None


def examine(runs: Path) -> list[Finding]:
    """All checks of the machine itself; `runs` is where run folders would go."""
    docker, info = docker_daemon()
    checks: list[Callable[[], Finding]] = [
        python,
        java,
        maven,
        lambda: _program("iptables", "Docker needs it for its networks"),
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
        found.append(disk("disk of Docker", info.root))
        found.append(infra_image())
    return found


def docker_daemon() -> tuple[Finding, DockerInfo | None]:
    """The Docker daemon, and what it reports about itself when it answers."""
    if shutil.which("dockerd") is None and "DOCKER_HOST" not in os.environ:
        return Finding("docker", MISSING, "not installed", "make setup"), None
    try:
        info = docker_info()
    except EnvironmentFailure as error:
        fix = "usermod -aG docker $USER" if "may not" in error.what else "make setup"
        return Finding("docker", MISSING, error.what, fix), None
    detail = f"{info.version}, storage {info.storage}"
    if _numbers(info.version) < _DOCKER_MIN:
        return Finding("docker", OLD, f"{detail}; 20.10 is needed", "make setup"), info
    return Finding("docker", OK, detail), info


def python() -> Finding:
    """The Python that runs ackloss."""
    return Finding("python", OK, f"{platform.python_version()} at {sys.executable}")


def java() -> Finding:
    """The Java that Spark would start: that of JAVA_HOME, or the first in PATH."""
    home = os.environ.get("JAVA_HOME")
    printed = _output([f"{home}/bin/java" if home else "java", "-version"])
    found = re.search(r'version "(\d+)', printed or "")
    fix = "apt-get install openjdk-17-jdk-headless"
    if printed is None or found is None:
        return Finding("java", MISSING, "Spark needs Java 17", fix)
    detail = printed.splitlines()[0].strip()
    if int(found.group(1)) < _JAVA_MIN:
        return Finding("java", OLD, f"{detail}; Spark needs Java 17", fix)
    return Finding("java", OK, detail)


def maven() -> Finding:
    """Maven, which fetches the jars of systems that are made of some."""
    printed = _output(["mvn", "--version"])
    fix = "apt-get install maven"
    if printed is None:
        return Finding("maven", MISSING, "needed to fetch jars", fix)
    detail = re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines()[0]
    if _numbers(detail) < _MAVEN_MIN:
        return Finding("maven", OLD, f"{detail}; 3.6 is needed", fix)
    return Finding("maven", OK, detail)


def base_maker(*, has_docker: bool) -> Finding:
    """mmdebstrap: needed only until the base image exists, and not with the user's own."""
    if base_reference() != made_base():
        return Finding("mmdebstrap", OK, f"not needed, the base image is {base_reference()}")
    if shutil.which("mmdebstrap") is None and has_docker and find(made_base()) is not None:
        return Finding("mmdebstrap", OK, "not needed, the base image exists")
    return _program("mmdebstrap", "needed to make the base image")


def configuration() -> Finding:
    """The user's configuration file, when there is one."""
    try:
        config = user_config()
    except EnvironmentFailure as error:
        return Finding("configuration", MISSING, str(error), "correct the file")
    given = config.model_dump(exclude_none=True)
    return Finding("configuration", OK, ", ".join(f"{k} = {v}" for k, v in given.items()) or "none")


def memory() -> Finding:
    """Memory available for nodes: a default cluster of six uses 1.2 GiB and may use 3."""
    free = memory_available()
    if free < MEMORY_LOW_BYTES:
        return Finding("memory", WARN, f"{gib(free)} available", "stop other programs")
    return Finding("memory", OK, f"{gib(free)} available")


def disk(name: str, folder: Path) -> Finding:
    """Free space where something will be written; the folder itself need not exist yet."""
    place, free = existing(folder), free_bytes(folder)
    detail = f"{gib(free)} free at {folder}"
    if not os.access(place, os.W_OK):
        return Finding(name, MISSING, f"{detail}, but it is not writable", f"chown $USER {place}")
    if free < DISK_MIN_BYTES:
        return Finding(name, MISSING, f"{detail}; a run needs {gib(DISK_MIN_BYTES)}", "df -h")
    return Finding(name, WARN if free < DISK_LOW_BYTES else OK, detail)


def netem() -> Finding:
    """Whether the kernel can delay packets, by its configuration and modules; nothing is tried."""
    release = platform.release()
    lists = [Path(f"/lib/modules/{release}/modules.{kind}") for kind in ("dep", "builtin")]
    known = any(path.exists() and "sch_netem" in path.read_text() for path in lists)
    if known or Path("/sys/module/sch_netem").exists() or _configured("CONFIG_NET_SCH_NETEM"):
        return Finding("netem", OK, f"kernel {release} has it")
    return Finding(
        "netem",
        WARN,
        f"kernel {release} seems to lack it: faults that delay packets are unavailable",
    )


def infra_image() -> Finding:
    """The image of infrastructure containers."""
    reference = INFRA.reference(base_reference())
    return prepared(f"image {reference}", find(reference) is not None, " ".join(INFRA.packages))


def prepared(name: str, exists: bool, detail: str = "exists") -> Finding:
    """Something that `ackloss prepare` makes, or else the first run that needs it."""
    if exists:
        return Finding(name, OK, detail)
    return Finding(name, WARN, "not made yet", "ackloss prepare")


def _program(name: str, why: str) -> Finding:
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        return Finding(name, MISSING, why, f"apt-get install {name}")
    return Finding(name, OK, path)


def _output(argv: Sequence[str]) -> str | None:
    """What a program prints; `None` when it is missing or fails."""
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

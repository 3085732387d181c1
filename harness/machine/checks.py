"""What this machine has and lacks for runs, by what needs it: findings, each with the command that
fixes it. They change nothing.

A provider reports what its kind of cluster needs (`Provider.checkup`), with the checks here. What
`examine` adds is needed for all runs, or for judging with Spark, as `ackloss check --master` does.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from harness.errors import EnvironmentFailure
from harness.machine.state import cache_dir, state_dir, user_config
from harness.protocols import Finding, Provider, Status

OK, MISSING, OLD, WARN = Status.OK, Status.MISSING, Status.OLD, Status.WARN

DISK_MIN_BYTES = 2 << 30
"""What a run needs on a disk that it writes to."""


def free_bytes(folder: Path) -> int:
    """Free space where something will be written; the folder itself need not exist yet."""
    return shutil.disk_usage(existing(folder)).free


def existing(folder: Path) -> Path:
    """The folder, or the nearest existing one above it."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def memory_available() -> int:
    """Bytes of memory that programs may still use."""
    return int(psutil.virtual_memory().available)


def gib(count_bytes: int) -> str:
    """A size in words."""
    return f"{count_bytes / (1 << 30):.1f} GiB"


DISK_LOW_BYTES: Final = 8 << 30
_MAVEN_MIN: Final = (3, 6)


def disk(name: str, folder: Path, *, by_us: bool = True) -> Finding:
    """Free space where we, or another's daemon, will write; the folder need not exist yet."""
    place, free = existing(folder), free_bytes(folder)
    detail = f"{gib(free)} free at {folder}"
    if by_us and not os.access(place, os.W_OK):
        return Finding(name, MISSING, f"{detail}, but it is not writable", f"chown $USER {place}")
    if free < DISK_MIN_BYTES:
        return Finding(name, MISSING, f"{detail}; a run needs {gib(DISK_MIN_BYTES)}", "df -h")
    return Finding(name, WARN if free < DISK_LOW_BYTES else OK, detail)


def program(name: str, why: str) -> Finding:
    """Whether a program is installed; `why` it is needed."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        return Finding(name, MISSING, why, f"apt-get install {name}")
    return Finding(name, OK, path)


def maven() -> Finding:
    """Maven, which fetches the jars of systems that are made of some."""
    printed = output(["mvn", "--version"])
    fix = "apt-get install maven"
    if printed is None:
        return Finding("maven", MISSING, "needed to fetch jars", fix)
    detail = re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines()[0]
    if version(detail) < _MAVEN_MIN:
        return Finding("maven", OLD, f"{detail}; 3.6 is needed", fix)
    return Finding("maven", OK, detail)


def prepared(name: str, exists: bool, detail: str = "exists") -> Finding:
    """Something that `ackloss prepare` makes, or else the first run that needs it."""
    if exists:
        return Finding(name, OK, detail)
    return Finding(name, WARN, "not made yet", "ackloss prepare")


def output(argv: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


def version(text: str) -> tuple[int, ...]:
    """The first version in a text, as numbers; (0,) if there is none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else (0,)


ALL_RUNS: Final = "all runs"
SPARK: Final = "judging with Spark"
_JAVA_MIN: Final = 17


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of cluster: what was found for it alone, and the names of all that a run on it needs
    and this machine lacks."""

    name: str
    simulated: bool
    findings: Sequence[Finding]
    lacks: Sequence[str]

    @property
    def possible(self) -> str:
        """Whether runs are possible, for people."""
        if self.lacks:
            return f"not possible: {', '.join(self.lacks)}"
        warnings = [each.name for each in self.findings if each.status == WARN]
        return f"possible, but see {', '.join(warnings)}" if warnings else "possible"

    @property
    def ok(self) -> bool:
        """Whether runs are possible."""
        return not self.lacks


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """All findings, by what needs them."""

    all_runs: Sequence[Finding]
    spark: Sequence[Finding]
    kinds: Sequence[Kind]

    @property
    def ok(self) -> bool:
        """Whether runs are possible on each of the kinds that were examined."""
        return all(kind.ok for kind in self.kinds)

    @property
    def by_need(self) -> dict[str, Sequence[Finding]]:
        """The findings by what needs them: kinds first."""
        of_kinds = {kind.name: kind.findings for kind in self.kinds}
        return {**of_kinds, SPARK: self.spark, ALL_RUNS: self.all_runs}

    def document(self) -> dict[str, Any]:
        """As `ackloss doctor --json` prints it; `cure` is the former name of `fix`."""
        return {
            "schema": 1,
            "ok": self.ok,
            "clusters": [
                {"kind": k.name, "simulated": k.simulated, "ok": k.ok, "lacks": list(k.lacks)}
                for k in self.kinds
            ],
            "findings": [
                {**asdict(each), "cure": each.fix, "needed_for": need}
                for need, findings in self.by_need.items()
                for each in findings
            ],
        }


def examine(providers: Iterable[Provider], runs: Path) -> Checkup:
    """Examine this machine, and hosts, for these kinds of cluster, with run folders in `runs`."""
    all_runs = [
        python(),
        configuration(),
        disk("disk of runs", runs),
        disk("disk of the cache", cache_dir()),
        disk("disk of the state", state_dir()),
    ]
    spark = [java()]
    kinds = []
    for provider in providers:
        findings = [*provider.checkup()]
        lacks = [each.name for each in (*findings, *all_runs) if each.status.prevents_runs]
        name, simulated = provider.plugin, provider.simulated
        kinds.append(Kind(name=name, simulated=simulated, findings=findings, lacks=lacks))
    return Checkup(all_runs=all_runs, spark=spark, kinds=kinds)


def python() -> Finding:
    """The Python that runs ackloss."""
    return Finding("python", OK, f"{platform.python_version()} at {sys.executable}")


def configuration() -> Finding:
    """The user's configuration file, when there is one."""
    try:
        config = user_config()
    except EnvironmentFailure as error:
        return Finding("configuration", MISSING, str(error), "correct the file")
    given = config.model_dump(exclude_none=True)
    return Finding("configuration", OK, ", ".join(f"{k} = {v}" for k, v in given.items()) or "none")


def java() -> Finding:
    """The Java that Spark would start: that of JAVA_HOME, or the first in PATH."""
    home = os.environ.get("JAVA_HOME")
    printed = output([f"{home}/bin/java" if home else "java", "-version"])
    found = re.search(r'version "(\d+)', printed or "")
    fix = "apt-get install openjdk-17-jdk-headless"
    if printed is None or found is None:
        return Finding("java", MISSING, "Spark needs Java 17", fix)
    detail = printed.splitlines()[0].strip()
    if int(found.group(1)) < _JAVA_MIN:
        return Finding("java", OLD, f"{detail}; Spark needs Java 17", fix)
    return Finding("java", OK, detail)

"""What this machine has and lacks for runs, by what needs it; changes nothing.

A provider reports what its kind of cluster needs (`Provider.checkup`). What is here is needed for
all runs, or for judging with Spark, as `ackloss check --master` does.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.errors import EnvironmentFailure
from harness.machine.checks import disk, output
from harness.machine.state import cache_dir, state_dir
from harness.machine.user_config import user_config
from harness.protocols import Finding, Provider, Status

OK, MISSING, OLD = Status.OK, Status.MISSING, Status.OLD

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
        warnings = [each.name for each in self.findings if each.status == Status.WARN]
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
    """Examine this machine, and hosts, for these kinds of cluster. `runs` is where run folders
    would go."""
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

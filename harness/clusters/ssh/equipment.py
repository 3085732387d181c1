"""What a host must have for a node (programs of its distribution's packages, room, free ports), and
what `ackloss doctor --inventory` says that it has and lacks. Tried, not guessed; nothing stays
changed there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from harness.clusters.ssh import scripts
from harness.clusters.ssh.connection import MOST_CHANNELS, PATH
from harness.clusters.ssh.host import Host, hosts_of, side_by_side
from harness.clusters.ssh.inventory import Installed, Inventory
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure, PlanError
from harness.machine.checks import DISK_MIN_BYTES, gib
from harness.protocols import Distribution, Finding, Ingredients, Status

# A system that hosts have already, used as it is installed there: nothing of it is uploaded, and
# nothing below its folders is written, as nodes see them read-only.

_JAVA = "java"


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Where a system is on the hosts of an inventory, and what it has to be there."""

    system: str
    version: str
    paths: Installed
    distribution: Distribution
    file: Path

    @property
    def image(self) -> str:
        """What a run's metadata has in place of an image."""
        return f"{self.system} {self.version} as installed in {self.paths.home}"

    @property
    def programs(self) -> frozenset[str]:
        """Programs that the host need not have in its PATH."""
        return frozenset({_JAVA} if self.paths.java_home else ())

    @property
    def environment(self) -> dict[str, str]:
        """What its process is given so that it finds its Java."""
        java = self.paths.java_home
        return {"JAVA_HOME": java, "PATH": f"{java}/bin:{PATH}"} if java else {}

    @property
    def places(self) -> list[tuple[str, str]]:
        """Folders on the host by where a node sees them, read-only: what contains others first."""
        own = [path for path in (self.paths.home, self.paths.java_home) if path]
        return [*((path, path) for path in own), (self._files, self.distribution.inside)]

    @property
    def _files(self) -> str:
        return f"{self.paths.home}/{self.distribution.folder}"

    def require(self, host: Host) -> None:
        """Raise EnvironmentFailure unless the host has it, in the version of the plan."""
        java = self.paths.java_home
        if java and host.admin(["test", "-x", f"{java}/bin/java"]).exit_code:
            raise self._wrong(host, f"has no {java}/bin/java", "java_home")
        listed = host.admin(["sh", "-c", f"cd {shlex.quote(self._files)} && ls"])
        if listed.exit_code:
            raise self._wrong(host, f"has no folder {self._files}", "home")
        named = re.compile(self.distribution.named)
        found = {
            match[1] for name in listed.output.splitlines() if (match := named.fullmatch(name))
        }
        if not found:
            raise self._wrong(host, f"has no {self.system} in {self._files}", "home")
        if found != {self.version}:
            versions = " and ".join(sorted(found))
            what = f"has {self.system} {versions} in {self.paths.home}, not {self.version}"
            raise self._wrong(
                host, what, "home", hint=f'set target.version = "{sorted(found)[0]}" in the plan'
            )

    def _wrong(
        self, host: Host, what: str, key: str, *, hint: str | None = None
    ) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"{host.where} {what}",
            file=str(self.file),
            key=f"systems.{self.system}.{key}",
            hint=f"{hint}, or correct it" if hint else "correct it",
        )


def installation(
    inventory: Inventory, file: Path, system: str, made: Ingredients
) -> Installation | None:
    """How the plan's system is installed, if the inventory says so. Raises PlanError when this
    version cannot be used as it is installed."""
    paths = inventory.systems.get(system)
    if paths is None or not paths.installed:
        return None
    image = made.image
    if made.distribution is None or image.version is None:
        raise PlanError(
            f"{system} {image.version or ''} cannot be used as it is installed".replace("  ", " "),
            file=str(file),
            key=f"systems.{system}",
            hint="leave it out: then it is uploaded",
        )
    return Installation(
        system=system, version=image.version, paths=paths, distribution=made.distribution, file=file
    )


_PACKAGES: Final = {
    "iptables": ("iptables", "iptables-save", "iptables-restore"),
    "iproute2": ("tc", "ip", "ss"),
    "procps": ("ps", "pgrep", "kill"),
    "iputils-ping": ("ping",),
    "netcat-openbsd": ("nc",),
    "util-linux": ("nsenter", "unshare", "setsid", "setpriv", "flock"),
    "mount": ("mount",),
    "coreutils": ("timeout", "truncate"),
    "findutils": ("find",),
    "tar": ("tar",),
}
PROGRAMS: Final = {program: name for name, has in _PACKAGES.items() for program in has}
"""The programs that levers and a node need, each with the Debian package that has it."""

_LISTENS: Final = re.compile(r"(?m)^LISTEN\s+\d+\s+\d+\s+(\S+):(\d+)\s+\S+(.*)$")


def lacking(host: Host, programs: Collection[str]) -> list[str]:
    """Those of these programs, or packages, that a host has not. Raises HarnessFailure."""
    has = """dpkg-query -Wf '${db:Status-Status}' "$each" 2>&1 | grep -qx installed"""
    script = f'for each; do command -v "$each" >/dev/null || {has} || echo "$each"; done'
    return host.must(host.admin(["sh", "-c", script, "sh", *programs])).split()


def listening(host: Host) -> dict[int, str]:
    """Who listens on a host, by TCP port: the name of a process. Raises HarnessFailure."""
    output = host.admin(["ss", "-ltnpH"]).output
    found = {}
    for _, port, rest in _LISTENS.findall(output):
        process = re.search(r'\(\("([^"]+)",pid=(\d+)', rest)
        found[int(port)] = f"{process[1]} (process {process[2]})" if process else "something"
    return found


def free_bytes(host: Host) -> int:
    """The room where a run's folder would be. Raises HarnessFailure."""
    above = scripts.RUNS.rpartition("/")[0]
    script = 'at=$0; [ -d "$at" ] || at=$1; df -B1 --output=avail "$at"'
    done = host.admin(["sh", "-c", script, scripts.RUNS, above])
    words = done.output.split()
    if done.exit_code or not words or not words[-1].isdigit():
        raise HarnessFailure(f"{host.where}: {done.output.strip()[:300]}")
    return int(words[-1])


def require(host: Host, programs: Mapping[str, str]) -> None:
    """Raise EnvironmentFailure for the first thing that a host lacks for a node: programs (also
    these, with what installs each), or room."""
    wanted = {**PROGRAMS, **programs}
    if missing := lacking(host, wanted):
        packages = " ".join(sorted({wanted[name] for name in missing}))
        raise EnvironmentFailure(
            f"{host.where} has no {', '.join(missing)}", hint=f"apt-get install {packages}"
        )
    if (free := free_bytes(host)) < DISK_MIN_BYTES:
        raise EnvironmentFailure(
            f"{host.where}: {gib(free)} are free on the disk of {scripts.RUNS}, "
            f"but a run needs {gib(DISK_MIN_BYTES)}",
            hint="free some space there",
        )


def require_ports(host: Host, ports: Collection[int]) -> None:
    """Raise EnvironmentFailure when something listens on one of these ports of a host."""
    taken = listening(host)
    for port in sorted(set(ports) & set(taken)):
        raise EnvironmentFailure(
            f"{host.where}: port {port} is taken by {taken[port]}",
            hint="stop it, or use other hosts",
        )


class _Trial(NamedTuple):
    """A command on a host that succeeds if it has something, what `good` and `bad` mean, and what
    corrects it; `needed` for every run."""

    name: str
    script: str
    good: str
    bad: str
    fix: str
    needed: bool = True


_TRIALS: Final = (
    _Trial(
        "java",
        "java -version 2>&1",
        "{}",
        "none; systems that run on it need one",
        "apt-get install openjdk-17-jre-headless",
        needed=False,
    ),
    _Trial(
        "namespaces",
        "unshare --mount --pid --fork --propagation private true",
        "of processes and mounts can be made",
        "{}",
        "in a container: the right CAP_SYS_ADMIN",
    ),
    _Trial(
        "rules",
        "iptables -w 5 -N ACKLOSS-TRIAL && iptables -w 5 -A ACKLOSS-TRIAL -p tcp -m comment "
        "--comment ackloss:trial -j DROP; code=$?; iptables -w 5 -F ACKLOSS-TRIAL; "
        "iptables -w 5 -X ACKLOSS-TRIAL; exit $code",
        "can be made and removed",
        "none can be made: {}",
        "load the modules of iptables",
    ),
    _Trial(
        "libfaketime",
        "ls /usr/lib/*/faketime/libfaketimeMT.so.1",
        "for clock faults",
        "none: clock faults are refused",
        "apt-get install libfaketime",
        needed=False,
    ),
)


def _tried(host: Host, trial: _Trial) -> Finding:
    done = host.admin(["sh", "-c", trial.script], timeout_s=30)
    if done.exit_code:
        detail = trial.bad.format(done.output.strip()[:200])
        return _finding(host, trial.name, detail, fix=trial.fix, missing=trial.needed)
    return _finding(host, trial.name, trial.good.format(*done.output.splitlines()[:1]))


def examine(inventory: Inventory) -> list[Finding]:
    """What each host of an inventory has and lacks."""
    systems = {name: each for name, each in inventory.systems.items() if each.installed}
    found = side_by_side(lambda host: _examined(host, systems), hosts_of(inventory))
    return [finding for findings in found for finding in findings]


def _examined(host: Host, systems: Mapping[str, Installed]) -> list[Finding]:
    """Of a host that cannot be reached, or where we are not root, nothing else is known."""
    try:
        host.admit()
    except AcklossError as error:
        return [_finding(host, "root over SSH", str(error.what), fix=error.hint, missing=True)]
    findings = [_finding(host, "root over SSH", f"as {host.entry.user}, from {host.seen.peer}")]
    tried = [partial(_tried, trial=each) for each in _TRIALS]
    checks: list[Callable[[Host], Finding]] = [_programs, *tried, _sessions, _room, _runs]
    try:
        for check in checks:
            findings.append(check(host))
        findings += [_system(host, name, paths) for name, paths in systems.items()]
    except AcklossError as error:
        findings.append(_finding(host, "connection", str(error), missing=True))
    finally:
        host.close()
    return findings


def _finding(
    host: Host, name: str, detail: str, *, fix: str | None = None, missing: bool = False
) -> Finding:
    status = Status.MISSING if missing else Status.WARN if fix else Status.OK
    return Finding(name=f"{host.name}: {name}", status=status, detail=detail, fix=fix)


def _programs(host: Host) -> Finding:
    missing = lacking(host, PROGRAMS)
    if not missing:
        return _finding(host, "programs", f"all {len(PROGRAMS)}")
    packages = " ".join(sorted({PROGRAMS[name] for name in missing}))
    detail = f"lacks {', '.join(missing)}"
    return _finding(host, "programs", detail, fix=f"apt-get install {packages}", missing=True)


def _sessions(host: Host) -> Finding:
    others = MOST_CHANNELS - 1
    try:
        with ExitStack() as stack:
            for _ in range(others):
                stack.enter_context(host.connection.channel("true"))
    except AcklossError as error:
        fix = "set MaxSessions 10 in /etc/ssh/sshd_config"
        return _finding(host, "sessions", str(error), fix=fix, missing=True)
    return _finding(host, "sessions", f"{MOST_CHANNELS} at once on one connection")


def _room(host: Host) -> Finding:
    free = free_bytes(host)
    if free < DISK_MIN_BYTES:
        detail = f"{gib(free)} free; a run needs {gib(DISK_MIN_BYTES)}"
        return _finding(host, "disk", detail, fix="df -h", missing=True)
    return _finding(host, "disk", f"{gib(free)} free")


def _system(host: Host, name: str, paths: Installed) -> Finding:
    """One that is used as it is installed; its version is compared when a plan names one."""
    java = f"{paths.java_home}/bin/java" if paths.java_home else paths.home
    for path in (paths.home, java):
        if host.admin(["test", "-e", path]).exit_code:
            fix = f"correct systems.{name} in the inventory"
            return _finding(host, name, f"there is no {path}", fix=fix, missing=True)
    return _finding(host, name, f"installed in {paths.home}")


def _runs(host: Host) -> Finding:
    found = host.found()
    if not found:
        ports = ", ".join(map(str, sorted(listening(host)))) or "none"
        return _finding(host, "runs", f"none of ours; TCP ports in use: {ports}")
    words = ", ".join(f"{run.run_id} ({'alive' if run.alive else 'dead'})" for run in found)
    fix = None if all(run.alive for run in found) else "ackloss clean --inventory FILE"
    return _finding(host, "runs", words, fix=fix)

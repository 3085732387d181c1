"""What a host must have: programs of its distribution's packages, room, free ports."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.clusters.ssh import scripts
from harness.clusters.ssh.connection import PATH
from harness.clusters.ssh.host import Host
from harness.clusters.ssh.inventory import Installed, Inventory
from harness.errors import EnvironmentFailure, HarnessFailure, PlanError
from harness.machine.checks import DISK_MIN_BYTES, gib
from harness.protocols import Distribution, Ingredients

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
        system=system,
        version=image.version,
        paths=paths,
        distribution=made.distribution,
        file=file,
    )


PROGRAMS: Final[Mapping[str, str]] = {
    "iptables": "iptables",
    "iptables-save": "iptables",
    "iptables-restore": "iptables",
    "tc": "iproute2",
    "ip": "iproute2",
    "ss": "iproute2",
    "ps": "procps",
    "pgrep": "procps",
    "kill": "procps",
    "ping": "iputils-ping",
    "nc": "netcat-openbsd",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "setpriv": "util-linux",
    "flock": "util-linux",
    "mount": "mount",
    "timeout": "coreutils",
    "truncate": "coreutils",
    "find": "findutils",
    "tar": "tar",
}
"""The programs that levers and a node need, by the Debian package that has each."""

_LISTENS: Final = re.compile(r"(?m)^LISTEN\s+\d+\s+\d+\s+(\S+):(\d+)\s+\S+(.*)$")


def lacking(host: Host, programs: Collection[str]) -> list[str]:
    """Those of these programs that a host has not. Raises HarnessFailure."""
    script = 'for each; do command -v "$each" >/dev/null || echo "$each"; done'
    done = host.admin(["sh", "-c", script, "sh", *programs])
    if done.exit_code:
        raise HarnessFailure(f"{host.where}: {done.output.strip()[:300]}")
    return done.output.split()


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

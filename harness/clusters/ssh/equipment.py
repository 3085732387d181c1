"""What a host must have: programs of its distribution's packages, room, free ports."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from harness.clusters.ssh import scripts
from harness.clusters.ssh.host import Host
from harness.errors import EnvironmentFailure, HarnessFailure
from harness.machine.space import DISK_MIN_BYTES, gib

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

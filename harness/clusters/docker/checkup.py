"""What this machine has and lacks for clusters in containers, for `ackloss doctor`."""

from __future__ import annotations

import gzip
import os
import platform
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness import registry
from harness.errors import EnvironmentFailure
from harness.images.building import base_reference, find
from harness.images.daemon import DockerInfo, docker_info
from harness.images.recipe import INFRA, made_base
from harness.machine.checks import disk, gib, maven, memory_available, prepared, program, version
from harness.protocols import Finding, Status

OK, MISSING, OLD, WARN = Status.OK, Status.MISSING, Status.OLD, Status.WARN

_MEMORY_LOW_BYTES: Final = 4 << 30
_DOCKER_MIN: Final = (20, 10)
_CGROUPS: Final = Path("/sys/fs/cgroup")
_WEIGHTS: Final = {"cpu/docker/cpu.shares": 1024, "docker/cpu.weight": 100}
"""Of all containers together where systemd does not manage them, and what one session has."""


def examine() -> Sequence[Finding]:
    """All checks."""
    docker, info = docker_daemon()
    found = [
        docker,
        maven(),
        program("iptables", "Docker needs it for its networks"),
        base_maker(has_docker=info is not None),
        memory(),
        netem(),
    ]
    if info is not None:
        found += [
            disk("disk of Docker", info.root, by_us=False),
            rights(),
            *weight(),
            infra_image(),
            *made_beforehand(),
        ]
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
    if version(info.version) < _DOCKER_MIN:
        return Finding("docker", OLD, f"{detail}; 20.10 is needed", "make setup"), info
    return Finding("docker", OK, detail), info


def rights() -> Finding:
    """What root may do that a user of Docker may not: rules of iptables and processes are changed
    in containers, by Docker, which needs no root here."""
    if os.geteuid() == 0:
        return Finding("rights", OK, "root")
    lacks = "of all faults, only power loss needs root, which mounts the disks of nodes"
    detail = f"a user of Docker; {lacks}. Commands in nodes take longer: docker exec, no nsenter"
    return Finding("rights", OK, detail)


def weight() -> list[Finding]:
    """Whether nodes get the processors of a busy machine. Linux shares them among sessions and
    groups first, and one group may hold all containers."""
    for name, session in _WEIGHTS.items():
        file = _CGROUPS / name
        with suppress(OSError, ValueError):
            if (has := int(file.read_text())) > session:
                return [Finding("weight", OK, f"of all containers: {has}, a session has {session}")]
            detail = "of all containers together: that of one session, so nodes wait for others"
            return [Finding("weight", WARN, detail, f"echo {4 * session} > {file}")]
    return []


def base_maker(*, has_docker: bool) -> Finding:
    """mmdebstrap: needed only until the base image exists, and not with the user's own."""
    if base_reference() != made_base():
        return Finding("mmdebstrap", OK, f"not needed, the base image is {base_reference()}")
    if shutil.which("mmdebstrap") is None and has_docker and find(made_base()) is not None:
        return Finding("mmdebstrap", OK, "not needed, the base image exists")
    return program("mmdebstrap", "needed to make the base image")


def memory() -> Finding:
    """Memory available for nodes: a default cluster of six uses 1.2 GiB and may use 3."""
    free = memory_available()
    if free < _MEMORY_LOW_BYTES:
        return Finding("memory", WARN, f"{gib(free)} available", "stop other programs")
    return Finding("memory", OK, f"{gib(free)} available")


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


def made_beforehand() -> list[Finding]:
    """What targets need made, by default."""
    targets = [registry.target_named(name) for name in registry.usable("targets")]
    return [
        prepared(name, exists)
        for target in targets
        for name, exists in target.made(target.default_version).items()
    ]


def _configured(option: str) -> bool:
    try:
        with gzip.open("/proc/config.gz", "rt") as config:
            return any(line.startswith((f"{option}=y", f"{option}=m")) for line in config)
    except OSError:
        return False

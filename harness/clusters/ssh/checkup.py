"""What a host has and lacks for a node, for `ackloss doctor --inventory`. Tried, not guessed;
nothing stays changed there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from harness.clusters.ssh import equipment
from harness.clusters.ssh.cluster import side_by_side
from harness.clusters.ssh.connection import MOST_CHANNELS
from harness.clusters.ssh.host import Host, hosts_of
from harness.clusters.ssh.inventory import Installed, read_inventory
from harness.errors import AcklossError
from harness.machine.checks import DISK_MIN_BYTES, gib
from harness.protocols import Finding, Status


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


def examine(inventory: Path) -> list[Finding]:
    """What each host of an inventory has and lacks. Raises PlanError for a wrong file."""
    content = read_inventory(inventory)
    systems = {name: each for name, each in content.systems.items() if each.installed}
    found = side_by_side(lambda host: _examined(host, systems), hosts_of(content))
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
    missing = equipment.lacking(host, equipment.PROGRAMS)
    if not missing:
        return _finding(host, "programs", f"all {len(equipment.PROGRAMS)}")
    packages = " ".join(sorted({equipment.PROGRAMS[name] for name in missing}))
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
    free = equipment.free_bytes(host)
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
        ports = ", ".join(map(str, sorted(equipment.listening(host)))) or "none"
        return _finding(host, "runs", f"none of ours; TCP ports in use: {ports}")
    words = ", ".join(f"{run.run_id} ({'alive' if run.alive else 'dead'})" for run in found)
    fix = None if all(run.alive for run in found) else "ackloss clean --inventory FILE"
    return _finding(host, "runs", words, fix=fix)

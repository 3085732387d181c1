"""`cluster.kind = "ssh"`: nodes on hosts of the user's, over SSH.

A plan names no host: the inventory comes from the command line. What imports paramiko is imported
when it is first needed: plans are validated with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from harness import registry
from harness.clusters.ssh import equipment
from harness.clusters.ssh.cluster import (
    KIND,
    HostsOfRun,
    host_levers,
    side_by_side,
    take_down,
)
from harness.clusters.ssh.connection import MOST_CHANNELS
from harness.clusters.ssh.equipment import installation
from harness.clusters.ssh.host import Found, Host, hosts_of
from harness.clusters.ssh.inventory import HostEntry, Installed, Inventory, read_inventory
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure, PlanError
from harness.machine import reach
from harness.machine.checks import DISK_MIN_BYTES, gib, maven
from harness.protocols import (
    Cost,
    Finding,
    NodeOutline,
    Order,
    Provider,
    RunCluster,
    Status,
    Target,
)
from harness.protocols.clusters import example_addresses, outlined

# What a host has and lacks for a node, for `ackloss doctor --inventory`. Tried, not guessed;
# nothing stays changed there.


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


# Removes what dead runs left on hosts: by the inventory that is on each host itself.


def remove_run(run_id: str, *, dry_run: bool) -> list[str]:
    """Remove everything of a run of this machine from the hosts of its inventory. A host that
    cannot be reached keeps the run listed: raises HarnessFailure."""
    entry = reach.remembered(KIND, run_id)
    if entry is None:
        return []
    path = Path(entry["inventory"])
    return remove_from(hosts_of(read_inventory(path)), run_id, dry_run=dry_run)


def remove_from(hosts: Sequence[Host], run_id: str, *, dry_run: bool) -> list[str]:
    """Remove everything of a run from these hosts. Raises HarnessFailure."""
    try:
        if dry_run:
            found = runs_on(hosts)
            return [f"{host.name}: run {run_id}" for host in hosts if run_id in found[host.name]]
        removed, failures = take_down(hosts, run_id)
        if failures:
            raise HarnessFailure(
                f"not everything of run {run_id} could be removed: {'; '.join(failures)}",
                hint="run `ackloss clean` again once the host is back",
            )
        reach.forget(KIND, run_id)
        return removed
    finally:
        for host in hosts:
            host.close()


def runs_on(hosts: Sequence[Host]) -> dict[str, dict[str, Found]]:
    """The runs of which something is on each host, by the host's name and the run's id. Raises the
    first failure."""

    def ask(host: Host) -> dict[str, Found]:
        host.admit()
        return {found.run_id: found for found in host.found()}

    return dict(zip([host.name for host in hosts], side_by_side(ask, hosts), strict=True))


def clean_inventory(path: Path, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
    """Remove what dead runs of any machine left on an inventory's hosts: what was removed, and
    what was left and why. `known` are runs that this machine has in its own register.

    Raises, after having tried all hosts, the first failure.
    """
    hosts = hosts_of(read_inventory(path))

    def clean(host: Host) -> tuple[list[str], list[str]] | AcklossError:
        try:
            host.admit()
            return _clean_host(host, known, dry_run=dry_run)
        except AcklossError as error:
            return error
        finally:
            host.close()

    removed: list[str] = []
    left: list[str] = []
    failures = []
    for outcome in side_by_side(clean, hosts):
        if isinstance(outcome, AcklossError):
            failures.append(outcome)
        else:
            removed += outcome[0]
            left += outcome[1]
    if failures:
        raise failures[0]
    return removed, left


def _clean_host(host: Host, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
    removed: list[str] = []
    left: list[str] = []
    for found in host.found():
        if found.run_id in known:
            continue
        if found.alive:
            left.append(f"{host.name}: run {found.run_id} is alive: left alone")
        elif dry_run:
            removed.append(f"{host.name}: run {found.run_id}")
        else:
            removed += host.down(found.run_id)
    return removed, left


# Beside its workload: uploads are kept, a JVM starts without class data.
_KEPT_S, _NEW_S = 5.0, 30.0


@dataclass(frozen=True)
class Ssh(Provider):
    """Real processes on hosts of an inventory (`--inventory FILE`), over SSH."""

    plugin: ClassVar[str] = KIND
    outlives: ClassVar[bool] = True
    named_by: ClassVar[str] = "inventory"

    def with_file(self, file: Path) -> Ssh:
        """This kind of cluster on the hosts of a file. Raises PlanError for a wrong one."""
        content = read_inventory(file)
        for name in content.systems:
            registry.check_name("targets", name, key=f"systems.{name}", file=str(file))
        return _OnHosts(file, content)

    def gateways(self, order: Order) -> frozenset[str]:
        """The nodes on hosts that are jump hosts of others."""
        if self.inventory is None or not self._hosts().jumps:
            return frozenset()
        assigned = self._assigned(order)
        hosts = self._hosts().gateways({host.name for host in assigned.values()})
        return frozenset(node for node, host in assigned.items() if host.name in hosts)

    @property
    def levers(self) -> Sequence[str]:
        return tuple(host_levers({}))

    def runs(self, target: type[Target[Any]]) -> bool:
        """A target that says what a host needs to run it."""
        return target.does("for_hosts")

    def outline(self, order: Order) -> list[NodeOutline]:
        hosts = self._assigned(order)
        addresses = {name: host.cluster_address or host.address for name, host in hosts.items()}
        return outlined(order, addresses)

    def cost(self, order: Order, *, kept: bool) -> Cost:
        seconds = order.plan.workload.duration_s + (_KEPT_S if kept else _NEW_S)
        return Cost(memory_mb=0, seconds=seconds)

    def reach(self) -> None:
        hosts = hosts_of(self._hosts())
        try:
            side_by_side(lambda host: host.admit(), hosts)
        finally:
            for host in hosts:
                host.close()

    def require(self, order: Order) -> None:
        """A host for every node. What a host lacks is found when it is claimed."""
        self._assigned(order)

    def checkup(self) -> Sequence[Finding]:
        """What fetches the jars of systems, and what the hosts have and lack for nodes."""
        if self.inventory is None:
            fix = "ackloss doctor --inventory FILE"
            return maven(), Finding("hosts", Status.WARN, "none named, none examined", fix)

        return maven(), *examine(self.inventory)

    def prepare(self, order: Order, say: Callable[[str], None]) -> None:
        """What the target needs on hosts, on this machine."""
        order.target.for_hosts(order.plan, say)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        """Nodes that are not started yet; what is uploaded to their hosts is here."""

        assigned, inventory, file = self._assigned(order), self._hosts(), self.inventory
        assert file is not None
        made = order.target.for_hosts(order.plan, say)
        by_name = {host.name: host for host in hosts_of(inventory)}
        hosts = {node: by_name[entry.name] for node, entry in assigned.items()}
        installed = installation(inventory, file, order.plan.target.system, made)
        return HostsOfRun(
            run_id, hosts, order.needs, installed, order=order, ingredients=made, file=file
        )

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """Processes, mounts, rules and folders, by the run's id, on the hosts that it used."""

        return remove_run(run_id, dry_run=dry_run)

    def clean_hosts(self, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
        """Remove what dead runs of any machine left on these hosts."""

        self._hosts()
        assert self.inventory is not None
        return clean_inventory(self.inventory, known, dry_run=dry_run)

    def _hosts(self) -> Inventory:
        content: Inventory | None = self.content
        if content is None:
            raise PlanError(
                "a cluster of kind 'ssh' needs to know its hosts",
                key="cluster.kind",
                hint="name them with --inventory FILE",
            )
        return content

    def _assigned(self, order: Order) -> dict[str, HostEntry]:
        """The host of each node: the first that is free and takes its role."""
        target, hosts = order.target, list(self._hosts().hosts)
        names = target.names(order.plan)
        if len(names) > len(hosts):
            raise EnvironmentFailure(
                f"the plan has {len(names)} nodes ({', '.join(names)}), "
                f"but the inventory has {len(hosts)} hosts",
                file=str(self.inventory),
                hint="add hosts, or make the plan's cluster smaller",
            )
        outline = outlined(order, example_addresses(order))
        roles = {node.name: node.roles for node in outline}
        assigned = {}
        for name in names:
            takes = [h for h in hosts if not h.roles or set(h.roles) & roles[name]]
            if not takes:
                raise EnvironmentFailure(
                    f"no host is left for {name} ({', '.join(sorted(roles[name]))})",
                    file=str(self.inventory),
                    key="hosts.roles",
                    hint="add a host, or another role to one",
                )
            # a host that takes few roles is of no use to other nodes
            assigned[name] = chosen = min(takes, key=lambda h: (not h.roles, hosts.index(h)))
            hosts.remove(chosen)
        return assigned


@dataclass(frozen=True)
class _OnHosts(Ssh):
    """The kind `ssh` with an inventory: not a separate plug-in."""

    inventory: Path
    content: Inventory

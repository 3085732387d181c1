"""The nodes of one run on hosts of an inventory, one node on each."""

from __future__ import annotations

import hashlib
import shlex
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from harness.clusters.ssh import equipment, scripts
from harness.clusters.ssh.equipment import Installation
from harness.clusters.ssh.host import Host, SshNode, hosts_of, side_by_side
from harness.clusters.ssh.inventory import KIND, Inventory, read_inventory
from harness.clusters.ssh.scripts import UPLOADS
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.levers import all_levers, prepared
from harness.levers.process import PowerLever
from harness.machine import state
from harness.machine.files import packed, scratch
from harness.protocols import ImageRef, Ingredients, Lever, Node, NodeSpec, Order, RunCluster
from harness.protocols.clusters import specs_of


def uploaded(host: Host, source: Path, run_id: str) -> str:
    """Where a local file or folder is on a host; uploaded unless it is kept there. What was begun
    and not finished has the run's id in its name and goes with it. Raises EnvironmentFailure."""
    kept = f"{UPLOADS}/{digest(source)}"
    inside = f"{kept}/{source.name}"
    if host.admin(["test", "-e", inside]).exit_code == 0:
        return inside
    unpack = (
        'mkdir -p "$0" "$1.part" && tar -x --no-same-owner -C "$1.part" -f - && '
        'chmod -R a+rX "$1.part" && '  # the system may change its user
        '{ mv -T "$1.part" "$2" 2>/dev/null || rm -rf "$1.part"; }'
    )
    command = shlex.join(["sh", "-c", unpack, UPLOADS, f"{kept}.{run_id}", kept])
    with scratch() as folder:
        packed = Path(folder) / "upload.tar"
        with tarfile.open(packed, "w") as archive:
            archive.add(source, source.name)
        with packed.open("rb") as content:
            code, output, errors = host.execute(command, content)
    if code:
        why = (errors or output).decode(errors="replace").strip()[:300]
        raise EnvironmentFailure(
            f"{host.where}: files cannot be uploaded: {why}",
            hint="`ackloss doctor --inventory` shows the room on its disk",
        )
    return inside


@lru_cache(maxsize=64)
def digest(source: Path) -> str:
    """A hash of the names and contents of a file, or of all files of a folder."""
    total = hashlib.sha256()
    files = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
    for path in files:
        with path.open("rb") as content:
            total.update(str(path.relative_to(source.parent)).encode())
            total.update(hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()[:24]


_HOLD_S: Final = 10
_LIBRARY: Final = 'for each in /usr/lib/*/faketime/libfaketimeMT.so.1; do cat "$each"; done'


@dataclass
class SshCluster:
    """Nodes on hosts; `start_nodes` claims the hosts, `down` gives them back. `installed`: how the
    system is there already."""

    run_id: str
    hosts: Mapping[str, Host]
    needs: frozenset[str] = frozenset()
    installed: Installation | None = None
    nodes: dict[str, SshNode] = field(default_factory=dict)
    tell_lost: Callable[[str], None] = field(default=lambda _: None)
    _claimed: dict[str, Host] = field(default_factory=dict)
    _leases: dict[str, Lease] = field(default_factory=dict)

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        levers = all_levers(self.nodes)
        return {name: lever for name, lever in levers.items() if name != PowerLever.name}

    def when_lost(self, tell: Callable[[str], None]) -> None:
        self.tell_lost = tell

    def admit(self) -> dict[str, str]:
        """Be root on all hosts; the nodes' addresses. Raises EnvironmentFailure."""
        side_by_side(Host.admit, self.hosts.values())
        return {name: host.address for name, host in self.hosts.items()}

    def start_nodes(
        self, specs: Sequence[NodeSpec], *, folders: Mapping[Path, str], programs: Mapping[str, str]
    ) -> None:
        """Claim the hosts, make the nodes and start their processes. `folders`, as local folders by
        where a process sees them, are what an image would hold; `programs` are needed besides.

        Raises EnvironmentFailure for what a host lacks.
        """
        side_by_side(lambda host: self._require(host, programs), self.hosts.values())
        try:
            for node in side_by_side(lambda spec: self._start(spec, folders), specs):
                self.nodes[node.name] = node
        except HarnessFailure as error:
            raise EnvironmentFailure(f"a node could not be started: {error}") from error

    def _require(self, host: Host, programs: Mapping[str, str]) -> None:
        installed = self.installed
        own = installed.programs if installed else frozenset()
        equipment.require(host, {name: programs[name] for name in programs if name not in own})
        if installed:
            installed.require(host)

    def _start(self, spec: NodeSpec, folders: Mapping[Path, str]) -> SshNode:
        host = self._claimed[spec.name] = self.hosts[spec.name]
        try:
            host.claim(self.run_id)
        except EnvironmentFailure:  # another run has it: it is left alone when this one ends
            del self._claimed[spec.name]
            raise
        self._leases[spec.name] = Lease(host, lambda why: self.tell_lost(why))
        equipment.require_ports(host, spec.ports)
        spec = self._prepared(spec, host)
        places = self._places(spec, host, folders)
        host.write(scripts.CLAIM, packed(_scripts(spec)), in_node=False)
        host.enter(_hold(host, self.run_id, spec, places))
        node = SshNode(spec.name, spec.roles, host.address, host)
        node.put(spec.files)
        if spec.beside:
            node.start_beside(spec.beside)
        node.start()
        return node

    def _prepared(self, spec: NodeSpec, host: Host) -> NodeSpec:
        """The node with what the plan's faults, and its own Java, need from its start."""
        if self.installed:
            spec = replace(spec, env={**spec.env, **self.installed.environment})

        def library() -> bytes:
            code, content, _ = host.execute(f"sh -c {shlex.quote(_LIBRARY)}")
            if code or not content:
                raise EnvironmentFailure(
                    f"{host.where} has no libfaketime, which the plan's clock faults need",
                    hint="apt-get install libfaketime",
                )
            return content

        return prepared(spec, self.needs, library)

    def _places(
        self, spec: NodeSpec, host: Host, folders: Mapping[Path, str]
    ) -> list[tuple[str, str]]:
        """Files and folders on the host, and where the node is to see each."""
        places = self.installed.places if self.installed else []
        there = {inside for _, inside in places}
        for source, inside in {**folders, **spec.mounts}.items():
            if inside not in there:
                places.append((uploaded(host, source, self.run_id), inside))
        return places

    def keep(self) -> None:
        """Have the lease go on without us."""
        for lease in self._leases.values():
            lease.host.admin(["touch", f"{scripts.CLAIM}/kept"])
            lease.end()

    def output(self, node: Node) -> bytes:
        return self.nodes[node.name].console()

    def down(self) -> list[str]:
        """Remove everything of this run from every host that it has claimed."""
        for lease in self._leases.values():
            lease.end()
        try:
            return take_down(
                self._claimed.values(),
                self.run_id,
                hint="a host removes it by itself within "
                f"{scripts.LEASE_S} s; `ackloss clean --inventory` removes it too",
            )
        finally:
            for host in self.hosts.values():
                host.close()


@dataclass
class HostsOfRun(SshCluster, RunCluster):
    """The nodes of a target, prepared for the faults of a plan, on hosts of the inventory
    `file`."""

    order: Order = field(kw_only=True)
    ingredients: Ingredients = field(kw_only=True)
    file: Path = field(kw_only=True)

    @property
    def image(self) -> ImageRef:
        image, installed = self.ingredients.image, self.installed
        return replace(image, reference=installed.image) if installed else image

    def start(self) -> None:
        made, addresses = self.ingredients, self.admit()
        state.remember_cluster(KIND, self.run_id, {"inventory": str(self.file.resolve())})
        specs = specs_of(self.order, made, addresses)
        self.start_nodes(specs, folders=made.folders, programs=made.programs)


@dataclass(eq=False)
class Lease:
    """Says to a host that we are here, until it is ended; a lost connection is made again.

    A host that has not answered for as long as the lease lasts is lost: it removes the run by
    itself, or has done so. It is given up and `tell_lost` is called, or else a run would go on
    until its end and then wait for every command to that host.
    """

    host: Host
    tell_lost: Callable[[str], None]
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        name = f"lease-{self.host.name}"
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Say so no more."""
        self._ended.set()
        self._thread.join(timeout=scripts.LEASE_S)

    def _keep(self) -> None:
        # where the claim is gone, the redirection ends the loop
        loop = shlex.quote(f"while read -r _; do : >{scripts.CLAIM}/beat; echo; done")
        command = self.host.as_root(f"sh -c {loop}")
        answered_at = time.monotonic()
        while not self._ended.is_set():
            try:
                with self.host.connection.channel(command) as channel:
                    channel.settimeout(scripts.LEASE_S / 2)
                    while not self._ended.is_set():
                        channel.sendall(b"\n")
                        if not channel.recv(64):
                            raise EOFError
                        answered_at = time.monotonic()
                        self._ended.wait(scripts.LEASE_S / 10)
            except (AcklossError, OSError, EOFError):
                if (silent_s := time.monotonic() - answered_at) >= scripts.LEASE_S:
                    if not self._ended.is_set():
                        why = f"it was not reached for {silent_s:.0f} s"
                        self.host.connection.give_up(why)
                        self.tell_lost(self.host.connection.lost(why))
                    return
                self._ended.wait(1)


def take_down(hosts: Iterable[Host], run_id: str, *, hint: str) -> list[str]:
    """Remove everything of a run from hosts; what was removed. Raises HarnessFailure, after having
    tried everywhere, that says where something stays; else it is on no host any more."""

    def down(host: Host) -> tuple[list[str], str | None]:
        try:
            return host.down(run_id), None
        except AcklossError as error:
            return [], str(error)
        finally:
            host.close()

    results = side_by_side(down, hosts)
    if failures := [why for _, why in results if why is not None]:
        what = f"not everything of run {run_id} could be removed: {'; '.join(failures)}"
        raise HarnessFailure(what, hint=hint)
    state.forget_cluster(KIND, run_id)
    return [name for names, _ in results for name in names]


def _scripts(spec: NodeSpec) -> dict[str, bytes]:
    """The scripts of a node, in the run's inventory on its host."""
    environment = [shlex.quote(f"{name}={value}") for name, value in spec.env.items()]
    values = {
        "ENVIRONMENT": " ".join(environment),
        "ARGV": shlex.join(spec.argv),
        "RIGHTS": scripts.rights(spec.capabilities),
    }
    texts = {
        "hold.sh": scripts.text(scripts.HOLD),
        "process.sh": scripts.text(scripts.PROCESS, values),
        "command.sh": scripts.text(scripts.COMMAND, values),
    }
    return {name: text.encode() for name, text in texts.items()}


def _hold(host: Host, run_id: str, spec: NodeSpec, places: Sequence[tuple[str, str]]) -> int:
    """Make a node's namespaces; their first process. Raises EnvironmentFailure."""
    words = [run_id, str(spec.data_mb or 0), *(word for place in places for word in place)]
    begin = (
        'cd "$0" && setsid unshare --mount --pid --fork --propagation private '
        'sh hold.sh "$@" </dev/null >hold.log 2>&1 & '
        f'for _ in $(seq {_HOLD_S * 10}); do [ ! -s "$0/holder" ] || break; sleep 0.1; done; '
        'cat "$0/holder" || { cat "$0/hold.log"; exit 1; }'
    )
    done = host.admin(["sh", "-c", begin, scripts.CLAIM, *words], timeout_s=_HOLD_S + 5)
    if done.exit_code:
        raise EnvironmentFailure(
            f"{host.where}: namespaces for a node cannot be made: {done.output.strip()[-300:]}"
        )
    return int(done.output.split()[0])


# Removes what dead runs left on hosts: by the inventory that is on each host itself.


def remove_run(run_id: str, *, dry_run: bool) -> list[str]:
    """Remove everything of a run of this machine from the hosts of its inventory. A host that
    cannot be reached keeps the run listed: raises HarnessFailure."""
    entry = state.remembered_cluster(KIND, run_id)
    if entry is None:
        return []
    hosts = hosts_of(read_inventory(Path(entry["inventory"])))
    if not dry_run:
        return take_down(hosts, run_id, hint="run `ackloss clean` again once the host is back")

    def found_on(host: Host) -> list[str]:
        with closing(host):
            host.admit()
            return [f"{host.name}: run {run_id}" for each in host.found() if each.run_id == run_id]

    return [line for lines in side_by_side(found_on, hosts) for line in lines]


def clean_inventory(
    inventory: Inventory, known: set[str], *, dry_run: bool
) -> tuple[list[str], list[str]]:
    """Remove what dead runs of any machine left on an inventory's hosts: what was removed, and
    what was left and why. `known` are runs that this machine has in its own register.

    Raises, after having tried all hosts, the first failure.
    """

    def clean(host: Host) -> tuple[list[str], list[str]]:
        removed, left = list[str](), list[str]()
        with closing(host):
            host.admit()
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

    results = side_by_side(clean, hosts_of(inventory))
    removed = [each for of_host, _ in results for each in of_host]
    return removed, [each for _, of_host in results for each in of_host]

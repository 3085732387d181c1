"""A simulated node: a process that can be paused, killed and started again, and its disk; and the
levers of such nodes: the names and undo records of the real ones, other mechanisms.

A node satisfies `harness.protocols.Node`, but no command can be run on it: what commands do on real
nodes, its levers do to it directly. A target installs a program on it, which is made again whenever
the process starts: volatile state is the program's own, what outlives it lies on the disk.

The same nemeses, the same journal and the same rules of proof hold. An undo record that another
process left behind needs no undoing: a simulated cluster ends with the process that made it.
"""

from __future__ import annotations

import json
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, ClassVar, Final, NoReturn, Protocol, TypeVar

from harness.clusters.memory.simulation import Host, Network, Rule, Simulation
from harness.errors import EnvironmentFailure
from harness.faults.records import (
    CLIENTS,
    DiskRecord,
    NetRecord,
    PauseRecord,
    PowerRecord,
    ProcessRecord,
)
from harness.levers.disk import matching
from harness.levers.net import Direction, directions
from harness.levers.process import Ends, ended, not_running, runs_again
from harness.protocols import STORED, Completed, Lever, Node, ProcessState, Proof

# A simulated disk: files of records, of which only what was fsynced survives a loss of power.
#
# Files lie in folders below the node's data folder, by the same names as a real node's would
# (`data/log-0/records`), so that the patterns of the disk nemesis fit. A process that dies leaves
# everything it has written (the page cache survives), a machine that loses power only what it has
# fsynced.

RECORD_BYTES: Final = 32
"""What one record takes: every one the same."""


@dataclass
class File:
    """Records in the order in which they were appended; the first `synced` are safe."""

    records: list[Any] = field(default_factory=list)
    synced: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.records) * RECORD_BYTES

    def sync(self) -> None:
        """Make all of it safe."""
        self.synced = len(self.records)

    def cut(self, count: int) -> None:
        """Keep the first `count` records."""
        del self.records[count:]
        self.synced = min(self.synced, count)


@dataclass
class Disk:
    """The files of one node by path."""

    files: dict[str, File] = field(default_factory=dict)

    def open(self, path: str) -> File:
        """The file of that path, made when it is missing."""
        return self.files.setdefault(path, File())

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in self.files

    def below(self, folder: str) -> list[str]:
        """The files in a folder or below it."""
        return sorted(path for path in self.files if path.startswith(f"{folder}/"))

    def sizes(self) -> dict[str, int]:
        """Every file with its size."""
        return {path: file.size_bytes for path, file in sorted(self.files.items())}

    def wipe(self, folder: str) -> None:
        """Delete a folder."""
        for path in self.below(folder):
            del self.files[path]

    def lose_power(self, folder: str, keep_share: float) -> dict[str, int]:
        """Drop what was not fsynced in a folder, but for the first `keep_share` of it; how many
        records each file has lost."""
        lost = {}
        for path in self.below(folder):
            file = self.files[path]
            loose = len(file.records) - file.synced
            kept = file.synced + int(keep_share * loose)
            if kept < len(file.records):
                lost[path] = len(file.records) - kept
                file.cut(kept)
            file.sync()
        return lost

    def shorten(self, folder: str, cut_bytes: int) -> dict[str, int]:
        """Cut the last bytes off the longest file of a folder: a record that was cut is gone."""
        paths = [path for path in self.below(folder) if self.files[path].records]
        if not paths:
            return {}
        path = max(paths, key=lambda each: len(self.files[each].records))
        file = self.files[path]
        lost = min(len(file.records), -(-cut_bytes // RECORD_BYTES))
        file.cut(len(file.records) - lost)
        return {path: lost}


EXIT_CODES: Final = {"KILL": 137, "TERM": 143}


class Process(Protocol):
    """What a program does on a node, from one start to the next death."""

    def start(self) -> None:
        """Read the disk, begin to send and to wait."""

    def receive(self, source: str, message: Any) -> None:
        """A message has come from a host."""


Program = Callable[["MemoryNode"], Process]
"""Makes the process of a node, each time it starts."""


@dataclass(eq=False)
class MemoryNode(Node):
    """One simulated node. `stored` are the files that commands of the harness see (`put`, `get`);
    what the process itself stores lies on `disk`; `printed` are the lines that all its processes
    have logged. `kept_dead_by` are the faults that ended the last life of its process; none while
    it runs."""

    host: Host
    network: Network
    roles: frozenset[str]
    address: str
    disk: Disk = field(default_factory=Disk)
    process_now: Process | None = None
    paused_by: list[str] = field(default_factory=list)
    kept_dead_by: list[str] = field(default_factory=list)
    damage: dict[str, list[str]] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    _program: Program | None = None
    _pid: int = 0
    _state: ProcessState = field(default_factory=lambda: ProcessState(running=False))

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def starts(self) -> int:
        """How often its process was started, the present one included."""
        return self._pid

    def install(self, program: Program) -> None:
        """The program that runs here from the next start on."""
        self._program = program

    def send(self, target: str, message: Any) -> None:
        """Send a message from here to a host."""
        self.network.send(self.host, target, message)

    def note(self, event: str, **facts: Any) -> None:
        """Log an event of now."""
        line = {"at_ns": self.host.now_ns(), "event": event, **facts}
        self.printed.append(json.dumps(line))

    def start(self) -> None:
        if self.process_now is not None:
            return
        if self._program is None:
            raise EnvironmentFailure(f"{self.name}: no program is installed on this simulated node")
        self._pid += 1
        self.kept_dead_by.clear()
        self.host.running = True
        self.process_now = process = self._program(self)
        self._state = ProcessState(running=True, started_at=self._now())
        self.host.receive = process.receive
        process.start()

    def kill(self, signal: str = "KILL") -> None:
        """End the process, paused or not; nothing when there is none."""
        if self.process_now is None:
            return
        self.host.die()
        self.process_now = None
        self.paused_by.clear()
        code = EXIT_CODES[signal]
        self._state = replace(self._state, running=False, exit_code=code, finished_at=self._now())

    def pause(self, fault: str) -> None:
        """Stop the process where it is, on behalf of a fault."""
        if self.process_now is not None and fault not in self.paused_by:
            self.paused_by.append(fault)
            self.host.pause()

    def resume(self, fault: str) -> None:
        """Let it go on, unless another fault wants it stopped; nothing when this one does not."""
        if fault in self.paused_by:
            self.paused_by.remove(fault)
            if not self.paused_by:
                self.host.resume()

    def pid(self) -> int | None:
        """Which process of this node it is, from 1 on; None when none runs."""
        return self._pid if self.process_now is not None else None

    def process(self) -> ProcessState:
        return self._state

    def answers(self) -> bool:
        """Whether the harness would get an answer now: it runs, is not paused, and no fault cuts
        it from where the clients and the harness are."""
        return (
            self.process_now is not None
            and not self.host.paused
            and self.network.cut(CLIENTS, self.name) is None
            and self.network.cut(self.name, CLIENTS) is None
        )

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        self._no_commands(argv)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        self._no_commands(argv)

    def put(self, files: Mapping[str, bytes]) -> None:
        self.stored.update(files)

    def get(self, name: str) -> dict[str, bytes]:
        """A file, or all files of a folder, that were put here."""
        if name in self.stored:
            return {name.rpartition("/")[2]: self.stored[name]}
        folder = f"{name}/"
        return {
            path.removeprefix(folder): content
            for path, content in self.stored.items()
            if path.startswith(folder)
        }

    def _now(self) -> str:
        return f"{self.host.now_ns() / 1e9:.6f} s"

    def _no_commands(self, argv: Sequence[str]) -> NoReturn:
        """There is nothing on which a command could run."""
        raise EnvironmentFailure(
            f"{self.name} is simulated and runs no commands: {' '.join(argv)[:80]}",
            hint="use what cluster.kind = 'memory' offers, or another kind of cluster",
        )


@dataclass(frozen=True, eq=False)
class World:
    """What the levers act on: nodes, the network between them, and time."""

    simulation: Simulation
    network: Network
    nodes: dict[str, MemoryNode] = field(default_factory=dict)


@dataclass(frozen=True)
class MemoryPauseLever(Lever[PauseRecord]):
    """Stops a node's process where it is: what arrives for it waits until it resumes."""

    world: World
    name: ClassVar[str] = "pause"

    def unavailable(self, node: Node, record: PauseRecord) -> str | None:
        return not_running(node)

    def apply(self, record: PauseRecord) -> None:
        node = self.world.nodes[record.node]
        with self.world.simulation.held():
            if record.pid is not None and node.pid() == record.pid:
                node.pause(record.fault)

    def undo(self, record: PauseRecord) -> None:
        node = self.world.nodes.get(record.node)
        if node is not None and node.pid() == record.pid:
            with self.world.simulation.held():
                node.resume(record.fault)

    def probe(self, record: PauseRecord, *, applied: bool) -> Proof:
        """In force: it is stopped by this fault. Undone: it runs, or another fault stops it."""
        node, fault = self.world.nodes[record.node], record.fault
        same = node.pid() is not None and node.pid() == record.pid
        ours = same and fault in node.paused_by
        others = [each for each in node.paused_by if each != fault]
        state = "is stopped" if node.paused_by else "runs"
        if not same:
            state = "is not there"
        also = f", also paused by {', '.join(others)}" if others else ""
        waits = f", {len(node.host.backlog):,} events wait for it" if node.paused_by else ""
        evidence = [f"{node.name}: process {record.pid} {state}{waits}{also}"]
        return Proof(ours if applied else same and not ours, evidence)

    def leftover_state(self, node: Node) -> list[str]:
        by = self.world.nodes[node.name].paused_by
        return [f"{node.name}: its process is stopped by {', '.join(by)}"] if by else []


@dataclass(frozen=True)
class MemoryProcessLever(Lever[ProcessRecord]):
    """Ends a node's process; undone by starting it again."""

    world: World
    name: ClassVar[str] = "process"

    def unavailable(self, node: Node, record: ProcessRecord) -> str | None:
        return not_running(node)

    def apply(self, record: ProcessRecord) -> None:
        end_process(self.world, record)

    def undo(self, record: ProcessRecord) -> None:
        start_again(self.world, record)

    def probe(self, record: ProcessRecord, *, applied: bool) -> Proof:
        """In force: it ended with the signal's exit code and was not started since. Undone: another
        process runs, or another fault keeps it dead."""
        node = self.world.nodes[record.node]
        by = node.kept_dead_by
        return ended(node, record, by) if applied else runs_again(node, record, by)

    def leftover_state(self, node: Node) -> list[str]:
        return [why] if (why := not_running(node)) else []


def end_process(world: World, record: Ends) -> None:
    """End the process of a record by its signal, if it still runs, and note which fault it was."""
    node = world.nodes[record.node]
    with world.simulation.held():
        if record.pid is not None and node.pid() == record.pid:
            node.kill(record.signal)
            node.kept_dead_by.append(record.fault)


def start_again(world: World, record: Ends) -> None:
    """Start the process of a record's node, unless it was dead before or another fault keeps it
    dead; nothing when it runs, or when the node is gone."""
    node = world.nodes.get(record.node)
    if node is None:
        return
    with world.simulation.held():
        node.kept_dead_by = [fault for fault in node.kept_dead_by if fault != record.fault]
        if record.pid is not None and not node.kept_dead_by:
            node.start()


# The net lever of simulated nodes: rules that drop or reset messages between a node and its peers.
#
# `met` counts messages of the system that a fault's rules have dropped or reset, and never what a
# probe has sent to look.

_TRIES: Final = 400
"""Packets that a probe sends to see what share of them is dropped."""


@dataclass(frozen=True)
class MemoryNetLever(Lever[NetRecord]):
    """Drops or resets messages between a node and named peers; see `harness.levers.net`."""

    world: World
    name: ClassVar[str] = "net"

    def apply(self, record: NetRecord) -> None:
        """Add the record's rules; those that stand already are not added twice."""
        with self.world.simulation.held():
            if self._rules(record):
                return
            for peer in record.peers:
                for way in directions(record):
                    rule = Rule(
                        fault=record.fault,
                        peer=peer.name,
                        direction=way,
                        share=record.share,
                        reset=record.action == "reset",
                        ports=record.ports,
                    )
                    self.world.network.add(record.node, rule)

    def undo(self, record: NetRecord) -> None:
        with self.world.simulation.held():
            peers = {peer.name for peer in record.peers}
            self.world.network.remove(record.node, record.fault, peers)

    def probe(self, record: NetRecord, *, applied: bool) -> Proof:
        """In force: packets of our own are dropped, all or the share. Undone: no rule of this fault
        stands and packets pass, or another fault stops them."""
        with self.world.simulation.held():
            rules = self._rules(record)
            if not applied:
                return self._undone(record, len(rules))
            proofs = [self._in_force(record, peer.name, rules) for peer in record.peers]
        return Proof(
            bool(proofs) and all(proof.proven for proof in proofs),
            [sentence for proof in proofs for sentence in proof.evidence],
            sum(proof.met or 0 for proof in proofs),
        )

    def leftover_state(self, node: Node) -> list[str]:
        rules = self.world.network.rules.get(node.name, ())
        return [f"{node.name}: a rule of {rule.fault} against {rule.peer}" for rule in rules]

    def _in_force(self, record: NetRecord, peer: str, rules: list[Rule]) -> Proof:
        share = record.share
        ours = [rule for rule in rules if rule.peer == peer]
        before = sum(rule.own_met for rule in ours)
        tried = _TRIES if share < 1 else 1
        passed = sum(self._try(record, peer, way, tried) for way in directions(record))
        met, hit = sum(rule.met for rule in ours), sum(rule.own_met for rule in ours)
        evidence = _of_system(record, peer, met)
        if share < 1:
            seen = sum(rule.seen + rule.own_seen for rule in ours)
            far = 4 * sqrt(share * (1 - share) / max(seen, 1)) + share / 20
            proven = met + hit > 0 and abs((met + hit) / max(seen, 1) - share) <= far
            evidence += f"; with our own {met + hit:,} of {seen:,}, for a share of {share:.1%}"
            return Proof(proven, [evidence], met)
        came = "passed" if passed else "got no answer"
        evidence += f", and {hit:,} of our own; a packet of our own {came}"
        return Proof(hit > before and not passed, [evidence], met)

    def _try(self, record: NetRecord, peer: str, way: Direction, count: int) -> int:
        node = record.node
        source, target = (peer, node) if way == "in" else (node, peer)
        draw = self.world.simulation.random(f"probe/{record.fault}/{source}/{target}")
        return self.world.network.try_often(source, target, draw, count=count)

    def _undone(self, record: NetRecord, left: int) -> Proof:
        node, evidence = record.node, []
        for peer in record.peers:
            ends = (node, peer.name)
            other = self.world.network.cut(*ends) or self.world.network.cut(*reversed(ends))
            outcome = f"still cut by {other}" if other else "packets pass"
            evidence.append(f"{peer.name}: {outcome}")
        sentence = f"{node}: {left} rules of this fault left; {'; '.join(evidence)}"
        return Proof(left == 0, [sentence])

    def _rules(self, record: NetRecord) -> list[Rule]:
        peers = {peer.name for peer in record.peers}
        return [
            rule
            for rule in self.world.network.rules.get(record.node, ())
            if rule.fault == record.fault and rule.peer in peers
        ]


def _of_system(record: NetRecord, peer: str, met: int) -> str:
    way = {"in": "from", "out": "to", "both": "from and to"}[record.direction]
    who = "the workload's clients" if peer == CLIENTS else peer
    done = {"drop": "dropped", "reset": "answered with a reset"}[record.action]
    return f"{record.node}: {met:,} messages of the system {way} {who} {done} by our rules"


DISK_FORMS: Final = ("unsynced", "wipe", "truncate")


Damages = TypeVar("Damages", bound=DiskRecord | PowerRecord)


@dataclass(frozen=True)
class _DamagingLever(Lever[Damages]):
    """Damages what a node has stored, under a process that was killed first. Undoing starts that
    again; what was lost stays lost."""

    world: World

    @abstractmethod
    def damage(self, disk: Disk, record: Damages) -> list[str]:
        """Damage the disk; in sentences, what changed."""

    def unavailable(self, node: Node, record: Damages) -> str | None:
        return not_running(node)

    def apply(self, record: Damages) -> None:
        """Kill the process and damage its files; applied before: only the first."""
        node = self.world.nodes[record.node]
        end_process(self.world, record)
        with self.world.simulation.held():
            if record.fault not in node.damage:
                node.damage[record.fault] = self.damage(node.disk, record)

    def undo(self, record: Damages) -> None:
        """Start it again, unless it was dead or another fault keeps it dead; forget the damage."""
        start_again(self.world, record)
        if (node := self.world.nodes.get(record.node)) is not None:
            node.damage.pop(record.fault, None)

    def probe(self, record: Damages, *, applied: bool) -> Proof:
        """In force: the process is dead and the disk was damaged. Undone: another process runs, or
        another fault keeps it dead."""
        node = self.world.nodes[record.node]
        if not applied:
            return runs_again(node, record, node.kept_dead_by)
        changes = node.damage.get(record.fault, [])
        process = ended(node, record, node.kept_dead_by)
        evidence = changes or ["there was nothing to change"]
        lines = [*process.evidence, *(f"{node.name}: {each}" for each in evidence)]
        return Proof(process.proven and bool(changes), lines)

    def leftover_state(self, node: Node) -> list[str]:
        faults = self.world.nodes[node.name].damage
        return [f"{node.name}: files were damaged by {fault}" for fault in faults]


class MemoryDiskLever(_DamagingLever[DiskRecord]):
    """Damages files of a node in one of some forms."""

    name: ClassVar[str] = "disk"

    def unavailable(self, node: Node, record: DiskRecord) -> str | None:
        """For forms that need bytes, and under a running process."""
        if record.form not in DISK_FORMS or record.alive:
            known = ", ".join(DISK_FORMS)
            return f"{node.name}: a simulated disk has only the forms {known}, under a dead process"
        return super().unavailable(node, record)

    def damage(self, disk: Disk, record: DiskRecord) -> list[str]:
        """The folders that the record names."""
        changes = []
        for folder in matching(disk.sizes(), record.folders):
            if record.form == "wipe":
                sizes = [disk.files[path].size_bytes for path in disk.below(folder)]
                disk.wipe(folder)
                count = f"{len(sizes)} files with {sum(sizes):,} bytes before, 0 now"
                changes.append(f"{folder}: {count}")
            elif record.form == "unsynced":
                changes += _gone(disk.lose_power(folder, _kept_share(record, folder)))
            else:
                changes += _gone(disk.shorten(folder, record.cut_bytes))
        return changes


class MemoryPowerLever(_DamagingLever[PowerRecord]):
    """Takes the power away: the disk keeps only what was fsynced."""

    name: ClassVar[str] = "power"

    def damage(self, disk: Disk, record: PowerRecord) -> list[str]:
        return _gone(disk.lose_power(STORED, 0)) or ["everything was fsynced"]


def _gone(lost: Mapping[str, int]) -> list[str]:
    return [f"{path}: its last {count:,} records are gone" for path, count in lost.items()]


def _kept_share(record: DiskRecord, folder: str) -> float:
    if record.keep_share != "random":
        return record.keep_share
    return random.Random(f"{record.seed}/{record.fault}/{record.node}/{folder}").random()


def memory_levers(world: World) -> dict[str, Lever[Any]]:
    """Every lever over simulated nodes by name."""
    levers: list[Lever[Any]] = [
        MemoryNetLever(world),
        MemoryPauseLever(world),
        MemoryProcessLever(world),
        MemoryDiskLever(world),
        MemoryPowerLever(world),
    ]
    return {lever.name: lever for lever in levers}

"""Levers of simulated nodes: the names and undo records of the real ones, other mechanisms.

So the same nemeses, the same journal and the same rules of proof hold. An undo record that another
process left behind needs no undoing: a simulated cluster ends with the process that made it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, ClassVar, Final

from harness.clusters.memory.node import Disk, MemoryNode
from harness.clusters.memory.simulation import Network, Rule, Simulation
from harness.faults.records import CLIENTS, DiskRecord, NetRecord, PauseRecord, ProcessRecord
from harness.levers.disk import matching
from harness.levers.net import Direction, directions
from harness.levers.process import ended, runs_again
from harness.protocols import Lever, Node, Proof, UndoRecord


@dataclass(frozen=True, eq=False)
class World:
    """What the levers act on: nodes, the network between them, and time."""

    simulation: Simulation
    network: Network
    nodes: dict[str, MemoryNode] = field(default_factory=dict)


Ends = ProcessRecord | DiskRecord
"""The records of the levers that end a process."""


@dataclass(frozen=True)
class MemoryPauseLever(Lever[PauseRecord]):
    """Stops a node's process where it is: what arrives for it waits until it resumes."""

    world: World
    name: ClassVar[str] = "pause"
    record_type: ClassVar[type[UndoRecord]] = PauseRecord

    def unavailable(self, node: Node, record: PauseRecord) -> str | None:
        return not_running(node)

    def capture_prior_state(self, record: PauseRecord) -> PauseRecord:
        return replace(record, stopped=False)

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
    record_type: ClassVar[type[UndoRecord]] = ProcessRecord

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
        return [] if node.process().running else [f"{node.name}: its process does not run"]


def not_running(node: Node) -> str | None:
    """None, or that no process runs on a node."""
    return None if node.process().running else f"{node.name}: its process does not run"


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
    record_type: ClassVar[type[UndoRecord]] = NetRecord

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


# The disk lever of simulated nodes: a loss of power, a lost disk, a file that lost its end.
#
# The process is killed first; undoing starts it again. What was lost stays lost.

DISK_FORMS: Final = ("unsynced", "wipe", "truncate")


@dataclass(frozen=True)
class MemoryDiskLever(Lever[DiskRecord]):
    """Damages what a node has stored, under a dead process."""

    world: World
    name: ClassVar[str] = "disk"
    record_type: ClassVar[type[UndoRecord]] = DiskRecord

    def unavailable(self, node: Node, record: DiskRecord) -> str | None:
        """For forms that need bytes, and under a running process."""
        if record.form not in DISK_FORMS or record.alive:
            known = ", ".join(DISK_FORMS)
            return f"{node.name}: a simulated disk has only the forms {known}, under a dead process"
        return not_running(node)

    def apply(self, record: DiskRecord) -> None:
        """Kill the process and damage its files; applied before: only the first."""
        node = self.world.nodes[record.node]
        end_process(self.world, record)
        with self.world.simulation.held():
            if record.fault not in node.damage:
                node.damage[record.fault] = damaged(node.disk, record)

    def undo(self, record: DiskRecord) -> None:
        """Start the process again, unless it was dead before or another fault keeps it dead, and
        forget the damage."""
        start_again(self.world, record)
        if (node := self.world.nodes.get(record.node)) is not None:
            node.damage.pop(record.fault, None)

    def probe(self, record: DiskRecord, *, applied: bool) -> Proof:
        """In force: the process is dead and something was lost. Undone: another process runs,
        or another fault keeps it dead."""
        node = self.world.nodes[record.node]
        if not applied:
            return runs_again(node, record, node.kept_dead_by)
        changes = node.damage.get(record.fault, [])
        process = ended(node, record, node.kept_dead_by)
        evidence = [f"{node.name}: {change}" for change in changes]
        if not changes:
            evidence = [f"{node.name}: there was nothing to change ({record.form})"]
        return Proof(process.proven and bool(changes), [*process.evidence, *evidence])

    def leftover_state(self, node: Node) -> list[str]:
        faults = self.world.nodes[node.name].damage
        return [f"{node.name}: files were damaged by {fault}" for fault in faults]


def damaged(disk: Disk, record: DiskRecord) -> list[str]:
    """Damage the folders that the record names; in sentences, what changed."""
    changes = []
    for folder in matching(disk.sizes(), record.folders):
        if record.form == "wipe":
            sizes = [disk.files[path].size_bytes for path in disk.below(folder)]
            disk.wipe(folder)
            changes.append(f"{folder}: {len(sizes)} files with {sum(sizes):,} bytes before, 0 now")
            continue
        if record.form == "unsynced":
            lost = disk.lose_power(folder, _kept_share(record, folder))
        else:
            lost = disk.shorten(folder, record.cut_bytes)
        for path, count in lost.items():
            changes.append(f"{path}: its last {count:,} records are gone")
    return changes


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
    ]
    return {lever.name: lever for lever in levers}

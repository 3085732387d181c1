"""The complete reference system: its nodes, what each reports, and what its replicas hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from harness.clusters.memory.cluster import MemoryCluster
from harness.clusters.memory.node import MemoryNode, Process
from targets.memory.clients import Requests
from targets.memory.controller import Controller
from targets.memory.log import Entry
from targets.memory.replica import Replica
from targets.memory.settings import CONTROLLER, Settings

REPLICA_ROLE: Final = "replica"
CONTROLLER_ROLE: Final = "controller"


class Seen(NamedTuple):
    """What one node reports about one partition. `end` and `committed` are offsets of its own log;
    the controller has none."""

    node: str
    partition: int
    leader: str | None
    epoch: int
    members: tuple[str, ...]
    end: int | None = None
    committed: int | None = None
    authority: bool = False


_SYSTEMS: WeakKeyDictionary[MemoryCluster, System] = WeakKeyDictionary()


def system_of(cluster: MemoryCluster) -> System:
    """The system that was created on a cluster."""
    return _SYSTEMS[cluster]


def roles(settings: Settings) -> dict[str, frozenset[str]]:
    """The nodes of the system by name, with their roles."""
    replicas = dict.fromkeys(settings.names, frozenset({REPLICA_ROLE}))
    return {**replicas, CONTROLLER: frozenset({CONTROLLER_ROLE})}


class System:
    """The reference system on a simulated cluster. With several `settings`, each has its own
    partitions, one after the other; nodes and times are those of the first. After them is a
    partition for each group of consumers: what its members have committed."""

    def __init__(
        self,
        cluster: MemoryCluster,
        settings: Settings,
        *others: Settings,
        groups: Sequence[Settings] = (),
    ) -> None:
        self.cluster, self.settings = cluster, settings
        data = [each for each in (settings, *others) for _ in range(each.partitions)]
        self.of_part = [*data, *groups]
        self.requests = Requests(cluster, settings)
        _SYSTEMS[cluster] = self

    def start(self) -> None:
        """Create the nodes, unless they exist, and start their processes; no leader yet."""
        if not self.cluster.nodes:
            self.cluster.create(roles(self.settings))
        programs = dict.fromkeys(self.settings.names, self._replica)
        self.cluster.start_programs({**programs, CONTROLLER: self._controller})

    def observe(self, name: str) -> list[Seen] | None:
        """A node's own view of every partition; None when it does not answer."""
        return seen_by(self.cluster.nodes[name])

    def fully_replicated(self) -> bool:
        """Whether every partition has a leader, and every replica has all of its log committed."""
        views = [self.observe(name) for name in self.settings.names]
        if any(view is None for view in views):
            return False
        decided = self.observe(CONTROLLER)
        for number in range(len(self.of_part)):
            seen = [view[number] for view in views if view is not None]
            if len({(one.leader, one.epoch, one.end, one.committed) for one in seen}) != 1:
                return False
            first = seen[0]
            if first.leader is None or first.end != first.committed:
                return False
            members = decided[number].members if decided is not None else ()
            if set(members) != set(self.settings.names):
                return False
        return True

    def held(self, name: str, partition: int) -> list[tuple[int, str | None, int | None]] | None:
        """What one replica holds and knows to be committed: (offset, key, value) of what clients
        have written; None when it does not answer."""
        node = self.cluster.nodes[name]
        process = node.process_now
        if not node.answers() or not isinstance(process, Replica):
            return None
        return list(process.parts[partition].stored.read("read-all", None))

    def another(self, partition: int, leader: str | None, behind: int) -> list[Entry] | None:
        """The entries below an offset as another replica than the leader holds them (the leader,
        where it is alone); `None` while it has not all of them committed."""
        names = [name for name in self.settings.names if name != leader] or list(
            self.settings.names
        )
        node = self.cluster.nodes[names[partition % len(names)]]
        process = node.process_now
        if not node.answers() or not isinstance(process, Replica):
            return None
        stored = process.parts[partition].stored
        return stored.log.entries[:behind] if stored.commit >= behind else None

    def _replica(self, node: MemoryNode) -> Process:
        return Replica(node, self.of_part)

    def _controller(self, node: MemoryNode) -> Process:
        return Controller(node, self.of_part)


def seen_by(node: MemoryNode) -> list[Seen] | None:
    """A node's own view of every partition; None when it does not answer."""
    if not node.answers():
        return None
    process = node.process_now
    if isinstance(process, Controller):
        return [
            Seen(node.name, number, state.leader, state.epoch, state.isr, authority=True)
            for number, state in enumerate(process.states)
        ]
    assert isinstance(process, Replica)
    return [
        Seen(
            node=node.name,
            partition=part.number,
            leader=part.state.leader,
            epoch=part.state.epoch,
            members=part.leading.isr if part.leading is not None else part.state.isr,
            end=part.stored.log.end,
            committed=part.stored.commit,
        )
        for part in process.parts
    ]

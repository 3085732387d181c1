"""The complete reference system: its nodes, the process of a replica, what each node reports, and
what its replicas hold.

A replica has its partitions, its session with the controller and its lease. The controller treats a
replica as dead only when it has not heard from it for a session's length, and a replica counts
three quarters of that from when it *sent* the report that was answered. Until then no other replica
can have become leader, so it may answer reads alone. All clocks run at the same rate; a process
that was paused finds its lease expired.

One partition on one replica follows a leader, or leads (see `targets.memory.leading`). Replication
is Raft's: a leader's entries come with the offset and the epoch of the entry before them, and a
follower that has another entry there discards what differs. Who leads is decided by the controller;
a replica obeys the highest epoch that it has seen and stores it on its disk.

A replica whose disk was wiped is *blank*: it may have acknowledged what it no longer has. It does
not take part in elections until it has caught up with a leader.

The words of the reference system in plans are those of Kafka, with replicas for brokers: selectors
`controller`, `leader`, `followers`, `one-follower`, `leader(P)`, `follower(P)`, `replica(N)`,
`coordinator`, `coordinator-followers`, and conditions `fully replicated`, `leader moved`,
`no leader`, `coordinator alone`, `coordinator moved`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from harness.clusters.memory import MemoryCluster
from harness.clusters.memory.node import MemoryNode
from harness.faults import leaders
from harness.faults.leaders import PARTITION, on_partitions
from harness.protocols.faults import Vocabulary
from targets.memory.clients import Requests
from targets.memory.leading import Controller, Leading, State
from targets.memory.log import ENDS, Entry, Stored
from targets.memory.plan import CONTROLLER, FORGETFUL, NO_EPOCHS, READS, STALE_READS, Settings

UNKNOWN, BEYOND, OTHERS = "not known to be committed", "beyond the leader's", "of another epoch"
"""What a replica discards."""


class Part:
    """One partition on one replica, from the start of its process on."""

    def __init__(
        self, node: MemoryNode, settings: Settings, number: int, has_lease: Callable[[], bool]
    ) -> None:
        self.node, self.settings = node, settings
        self.number, self.has_lease = number, has_lease
        formatted = node.disk.exists(f"data/log-{number}/meta")
        self._meta = node.disk.open(f"data/log-{number}/meta")
        fresh = (0, node.starts > 1)  # not the first start: there was a disk, now wiped
        epoch, blank = self._meta.records[-1] if formatted else fresh
        self.blank: bool = blank
        self.instructed = not self.blank  # a blank one has forgotten what it promised
        synced, defects = settings.fsync == "always", settings.defects
        self.stored = Stored(node.disk, number, synced=synced, defects=defects)
        self.state = State(epoch, None, (), 0)
        self._booted_epoch, self._promised = epoch, 0
        self.leading: Leading | None = None
        self._from_new_leader = True
        self._note("starts")
        self._remember()

    def _note(self, event: str, **facts: Any) -> None:
        """Log what became of this log: where it ends, and where the entries of each epoch begin."""
        log = self.stored.log
        self.node.note(event, partition=self.number, end=log.end, epochs=log.epochs(), **facts)

    def _cut(self, offset: int, why: str) -> None:
        """Discard entries from an offset on, and log it."""
        if offset < self.stored.log.end:
            self._note("cuts", at=offset, why=why)
            self.stored.truncate(offset)

    def instruct(self, state: State) -> None:
        """The controller's decision, from itself."""
        self.instructed = True
        self.adopt(state)

    def adopt(self, state: State) -> None:
        """Obey what the controller has decided, unless something newer was heard."""
        mine = self.state
        if state.epoch < mine.epoch:
            return
        if state.epoch == mine.epoch and mine.leader is not None:
            if state.leader == mine.leader and state.version > mine.version:
                self.state = state
                if self.leading is not None:
                    self.leading.confirmed(state)
            return
        if state.leader == self.node.name and not self._may_lead(state.epoch):
            return  # meant for this node's earlier process: the controller will decide again
        self.step_down()
        self.state = state
        self._from_new_leader = True
        self._remember()
        if state.leader == self.node.name:
            if FORGETFUL in self.settings.defects:
                self._cut(self.stored.commit, UNKNOWN)
            self._note("leads", epoch=state.epoch)
            self.leading = Leading(self.node, self.settings, self.stored, state, self.has_lease)

    def fence(self, epoch: int) -> tuple[Any, ...] | None:
        """Promise to accept nothing of an older epoch; how far this log goes. None: too late."""
        mine = self.state
        if epoch < mine.epoch or (epoch == mine.epoch and mine.leader is not None):
            return None
        if epoch > mine.epoch:
            self.step_down()
            self.state = State(epoch, None, mine.isr, 0)
            self._remember()
        self._promised = epoch
        life, log = self.node.starts, self.stored.log
        last_epoch = log.epoch_before(log.end)
        return ("fenced", self.number, epoch, life, last_epoch, log.end, self.blank)

    def _may_lead(self, epoch: int) -> bool:
        """Whether it was this process that was chosen, and not one that has died since."""
        return not self.blank and (epoch > self._booted_epoch or epoch == self._promised)

    def step_down(self) -> None:
        """Lead no more; what waits for its commit may still be committed, or never."""
        leading, self.leading = self.leading, None
        if leading is not None:
            leading.give_up()

    def on_append(self, source: str, message: tuple[Any, ...]) -> None:
        """A leader's entries, from an offset on: what it has before them, and up to where it has
        committed."""
        _, number, epoch, start, epoch_before, entries, commit = message
        mine, node = self.state, self.node
        if not self.instructed:
            return
        if epoch < mine.epoch:
            node.send(source, ("stale", number, mine.epoch))
            return
        if epoch > mine.epoch or mine.leader is None:
            self.adopt(State(epoch, source, mine.isr, 0))
        stored, log, end = self.stored, self.stored.log, start + len(entries)
        careless = NO_EPOCHS in self.settings.defects
        if careless and self._from_new_leader and log.end > end:
            self._cut(end, BEYOND)
        if start > log.end:
            node.send(source, ("behind", number, epoch, log.end))
            return
        if not careless and log.epoch_before(start) != epoch_before:
            node.send(source, ("behind", number, epoch, log.run_start(start)))
            return
        self._from_new_leader = False
        if entries:
            self._take(start, entries, careless=careless)
        if self.blank and log.end and log.entries[-1].epoch == epoch:
            self.blank = False
            self._remember()
        if commit > stored.commit:
            stored.commit_to(min(commit, end))
        node.send(source, ("acked", number, epoch, end))

    def _take(self, start: int, entries: list[Entry], *, careless: bool) -> None:
        """Append what is new; where an entry is of another epoch, all from there on is replaced."""
        log = self.stored.log
        known = min(log.end - start, len(entries))
        if not careless:
            for place in range(known):
                if log.entries[start + place].epoch != entries[place].epoch:
                    self._cut(start + place, OTHERS)
                    known = place
                    break
        log.extend(entries[known:] if known else entries)

    def _remember(self) -> None:
        """Keep epoch and blankness on the disk, safe at once."""
        self._meta.records[:] = [(self.state.epoch, self.blank)]
        self._meta.sync()


MS: Final = 1_000_000
_TICK_NS: Final = 20 * MS
_NOTE_EVERY: Final = 10


class Replica:
    """One process, from its start to its death; `settings` of each of its partitions."""

    def __init__(self, node: MemoryNode, settings: Sequence[Settings]) -> None:
        self.node, self.settings = node, settings[0]
        self.parts = [
            Part(node, of_part, number, self.has_lease) for number, of_part in enumerate(settings)
        ]
        self._lease_until_ns = -1
        self._reported_ns = -1
        self._ticks = 0

    def start(self) -> None:
        """Report to the controller, and begin to tick at a moment of this node's own."""
        self._report()
        self.node.host.after(int(self.node.host.random.random() * _TICK_NS), self._tick)

    def receive(self, source: str, message: Any) -> None:
        """A message from another replica, the controller or a client."""
        kind = message[0]
        if kind == "session":
            self._on_session(message)
            return
        part = self.parts[message[1]]
        leading = part.leading
        if kind == "append":
            part.on_append(source, message)
        elif kind == "op":
            self._on_request(part, source, message)
        elif kind == "state":
            part.instruct(message[2])
        elif kind == "fence":
            if (promise := part.fence(message[2])) is not None:
                self.node.send(source, promise)
        elif kind == "stale":
            part.adopt(State(message[2], None, part.state.isr, 0))
        elif kind == "acked" and leading is not None:
            leading.on_acked(source, message)
        elif kind == "behind" and leading is not None:
            leading.on_behind(source, message)
        elif kind == "mark" and leading is not None:
            leading.on_mark(source, message)
        elif kind == "marked" and leading is not None and leading.transactions is not None:
            leading.transactions.on_marked(message)

    def has_lease(self) -> bool:
        """Whether it is certain that no other replica leads what this one leads."""
        return self.node.host.now_ns() < self._lease_until_ns

    def _tick(self) -> None:
        now_ns = self.node.host.now_ns()
        for part in self.parts:
            if part.leading is not None:
                part.leading.tick()
        if now_ns - self._reported_ns >= self.settings.heartbeat_ms * MS:
            self._report()
        self._ticks += 1
        if self._ticks % _NOTE_EVERY == 0:
            for part in self.parts:
                part.stored.log.sync_note()
        self.node.host.after(_TICK_NS, self._tick)

    def _report(self) -> None:
        """Report to the controller that this process lives, and what it knows."""
        self._reported_ns = now_ns = self.node.host.now_ns()
        known = tuple((part.state.epoch, part.state.version) for part in self.parts)
        blank = tuple(part.blank for part in self.parts)
        self.node.send(CONTROLLER, ("report", self.node.starts, now_ns, known, blank))

    def _on_session(self, message: tuple[Any, ...]) -> None:
        _, sent_ns, states = message
        for number, state in states:
            self.parts[number].adopt(state)
        for part in self.parts:
            part.instructed = True
        lease_ns = sent_ns + self.settings.session_ms * MS * 3 // 4
        self._lease_until_ns = max(self._lease_until_ns, lease_ns)

    def _on_request(self, part: Part, source: str, message: Any) -> None:
        f, key = message[5], message[6]
        if f in READS and STALE_READS in part.settings.defects:
            answer: tuple[Any, ...] = ("ok", _read(part.stored, f, key, *message[7:9]), None)
        elif part.leading is not None:
            part.leading.on_request(source, message)
            return
        else:
            answer = ("refused", "not-leader", part.state.leader)
        self.node.send(source, ("reply", message[2], message[3], message[4], *answer))


def _read(stored: Stored, f: str, key: str | None, offset: int, limit: int) -> Any:
    """What a replica answers without checking whether it leads."""
    if f == "fetch":
        return stored.fetch(offset, limit, stored.commit, key)
    return stored.ends() if f == ENDS else stored.read(f, key)


REPLICA_ROLE: Final = "replica"
CONTROLLER_ROLE: Final = "controller"


class Seen(NamedTuple):
    """What one node reports about one partition. `end` and `committed` are offsets of its own log;
    the controller has none."""

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
        replica, controller = (partial(of, settings=self.of_part) for of in (Replica, Controller))
        programs = dict.fromkeys(self.settings.names, replica)
        self.cluster.start_programs({**programs, CONTROLLER: controller})

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
        stored = self._stored(name, partition)
        return None if stored is None else list(stored.read("read-all", None))

    def another(self, partition: int, leader: str | None, behind: int) -> list[Entry] | None:
        """The entries below an offset as another replica than the leader holds them (the leader,
        where it is alone); `None` while it has not all of them committed."""
        every = self.settings.names
        names = [name for name in every if name != leader] or every
        stored = self._stored(names[partition % len(names)], partition)
        if stored is None or stored.commit < behind:
            return None
        return stored.log.entries[:behind]

    def _stored(self, name: str, partition: int) -> Stored | None:
        """What a replica stores of a partition; None when it does not answer."""
        node = self.cluster.nodes[name]
        process = node.process_now
        if not node.answers() or not isinstance(process, Replica):
            return None
        return process.parts[partition].stored


def seen_by(node: MemoryNode) -> list[Seen] | None:
    """A node's own view of every partition; None when it does not answer."""
    if not node.answers():
        return None
    process = node.process_now
    if isinstance(process, Controller):
        return [
            Seen(number, state.leader, state.epoch, state.isr, authority=True)
            for number, state in enumerate(process.states)
        ]
    assert isinstance(process, Replica)
    return [
        Seen(
            partition=part.number,
            leader=part.state.leader,
            epoch=part.state.epoch,
            members=part.leading.isr if part.leading is not None else part.state.isr,
            end=part.stored.log.end,
            committed=part.stored.commit,
        )
        for part in process.parts
    ]


VOCABULARY: Final = Vocabulary(
    owner="memory",
    member_roles=frozenset({REPLICA_ROLE}),
    words={
        "controller": leaders.controller,
        "leader": leaders.leading_most,
        "followers": leaders.followers,
        "one-follower": leaders.one_follower,
        "coordinator": leaders.coordinator,
        "coordinator-followers": leaders.coordinator_followers,
    },
    numbered={
        "leader": leaders.leader_of,
        "follower": leaders.followers_of,
        "replica": leaders.nth_member,
    },
    conditions=(
        on_partitions(
            "fully replicated", rf"fully replicated{PARTITION}", leaders.replicated, of_all=True
        ),
        leaders.LEADER_MOVED,
        leaders.NO_LEADER,
        leaders.COORDINATOR_ALONE,
        leaders.COORDINATOR_MOVED,
    ),
)
"""The reference system's words."""

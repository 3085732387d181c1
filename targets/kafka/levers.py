"""Kafka's own levers: what a fault needs that only Kafka can do.

The leadership lever moves the target's leaders, as planned work does. A move gives partitions their
replicas in another order, with the leader last, and then requests the election of the preferred
leaders: so another in-sync replica leads, and no data moves. The undo makes the old leader lead
again and restores the order. An old leader that is not in the ISR by then cannot lead, and the
evidence says so. A plain election changes no order, so it has no undo.

The partitions are looked up before the act, and their state is in the undo record, one for all
nodes of a fault. A partition whose order another fault has changed since is left to that fault:
faults that move the same partition must not overlap, or the earlier one is not proven.

The members lever: takes controllers out of the set of voters, and back in (KIP-853, 3.9).

A controller that is taken out keeps running, without a vote; its directory id, by which the others
know it, is in the undo record. Requests go to one controller after the other until the active one
has answered; a request that is repeated changes nothing.

The features lever raises the level of `metadata.version`. What else an upgrade is, from one version
of Kafka to another while it runs: which paths there are, and what a node runs.

KRaft    from 3.3 on every newer version may take the place of an older one, broker by broker and
         controller by controller, in any order. What is new on the wire and in the metadata is used
         only once the level of `metadata.version` is raised. An older version may come back as long
         as it knows that level; what one does that does not, the run shows.
ZooKeeper  up to 3.9: brokers speak the protocol of the version that they come from
         (`inter.broker.protocol.version`), as Kafka's own instructions for a rolling upgrade have
         it.
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from harness.errors import AcklossError, HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer, first_answer
from harness.faults.records import (
    DiskRecord,
    FeaturesRecord,
    LeadershipRecord,
    Level,
    MembersRecord,
    Move,
)
from harness.levers.commands import poll_until
from harness.levers.disk import Change, DiskLever, Read, Sizes, Storage, check_size
from harness.levers.protocol import ProtocolLever
from harness.plan import number_of
from harness.protocols import CLIENT_ROLE, NODE_DATA, Cluster, Lever, Node, PartitionView, Proof
from targets.kafka import kraft, migration, proxy, wire
from targets.kafka.brokers import (
    Ask,
    Leadership,
    ask,
    ask_of,
    features,
    finalized_and_highest,
    metadata,
)
from targets.kafka.configuration import CONTROLLER_PORT, LOGS, node_ids
from targets.kafka.definitions import of_topic
from targets.kafka.migration import StageLever
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.record_sets import batches
from targets.kafka.versions import (
    FIRST_SNAPSHOT,
    KRAFT,
    ZOOKEEPER,
    metadata_of,
    release_line,
    version_of,
)

T = TypeVar("T")

_SEEN_S = 5
_ASK_S: Final = 5.0


@dataclass(frozen=True)
class LeadershipLever(Lever[LeadershipRecord]):
    """Moves leaders by reassignment or election; undone by moving them back."""

    leadership: Leadership
    nodes: Mapping[str, Node] = field(default_factory=dict)
    name: ClassVar[str] = "leadership"

    def unavailable(self, node: Node, record: LeadershipRecord) -> str | None:
        """Where no other broker could lead."""
        brokers = [each for each in self.nodes.values() if "broker" in each.roles]
        return None if len(brokers) > 1 else "there is only one broker"

    def capture_prior_state(self, record: LeadershipRecord) -> LeadershipRecord:
        """The partitions concerned: their state now, and the order that is wanted."""
        try:
            placements = self.leadership.placements()
        except AcklossError as error:
            return replace(record, partitions=(), unseen=str(error))
        chosen = record.node.split(",")
        moves = record.form == "move"
        concerned = tuple(
            Move(
                partition=view.partition,
                leader=view.leader,
                epoch=view.leader_epoch,
                before=view.replicas,
                wanted=_away(view, chosen) if moves else view.replicas,
            )
            for view in placements.values()
            if (view.leader if moves else view.replicas[0]) in chosen
        )
        return replace(record, partitions=concerned, unseen=None)

    def apply(self, record: LeadershipRecord) -> None:
        if record.unseen is not None:
            raise HarnessFailure(record.unseen)
        if not record.partitions:
            return  # the probe says so
        wanted = {move.partition: move.wanted for move in record.partitions}
        if record.form == "move":
            self.leadership.reorder(wanted)
        if refused := self.leadership.elect(list(wanted)):
            reasons = ", ".join(f"partition {number}: {why}" for number, why in refused.items())
            raise HarnessFailure(f"the election was refused: {reasons}")

    def undo(self, record: LeadershipRecord) -> None:
        if record.form != "move":
            return
        now = self.leadership.placements()
        ours = [  # whose order is one that this fault found or made
            move
            for move in record.partitions
            if (view := now.get(move.partition))
            and view.replicas in (move.before, move.wanted, move.leading_first)
        ]
        orders = {move.partition: tuple(now[move.partition].replicas) for move in ours}
        led = [move for move in ours if now[move.partition].leader != move.leader]
        if led:
            self._reorder(orders, {move.partition: move.leading_first for move in led})
            self.leadership.elect([move.partition for move in led])
        self._reorder(orders, {move.partition: move.before for move in ours})

    def _reorder(
        self, orders: dict[int, tuple[str, ...]], wanted: Mapping[int, tuple[str, ...]]
    ) -> None:
        """Request the orders that differ from those so far, and note them there."""
        due = {n: order for n, order in wanted.items() if orders[n] != order}
        if due:
            self.leadership.reorder(due)
            orders.update(due)

    def probe(self, record: LeadershipRecord, *, applied: bool) -> Proof:
        """In force: every preferred leader leads, in the order that was wanted, and leaders have
        changed. Undone: as before; after a plain election, every partition has a leader."""
        shows = _in_force if applied else _as_before
        proof = Proof(False, [_nothing(record)])

        def seen() -> bool:
            nonlocal proof
            proof = shows(record, self.leadership.placements())
            return proof.proven

        if record.partitions:
            poll_until(seen, within_s=_SEEN_S)
        return proof


def _away(view: PartitionView, chosen: Sequence[str]) -> tuple[str, ...]:
    """The replicas with an in-sync one that was not chosen in front and the leader last; unchanged
    when there is none."""
    others = [name for name in view.replicas if name != view.leader]
    able = [name for name in others if name in view.members and name not in chosen]
    if not able or view.leader is None:
        return view.replicas
    return (*able, *(name for name in others if name not in able), view.leader)


def _nothing(record: LeadershipRecord) -> str:
    if record.unseen is not None:
        return f"{record.node}: {record.unseen}"
    what = "leads" if record.form == "move" else "is the preferred leader of"
    return f"{record.node}: {what} no partition: nothing to move"


def _in_force(record: LeadershipRecord, now: Mapping[int, PartitionView]) -> Proof:
    evidence, changed, as_wanted = [], [], []
    for move in record.partitions:
        view = now.get(move.partition)
        leader = view.leader if view else None
        changed.append(leader not in (None, move.leader))
        as_wanted.append(leader == move.wanted[0] and _order(view) == move.wanted)
        before = f"led by {move.leader} (epoch {move.epoch}, {_replicas(move.before)})"
        evidence.append(f"partition {move.partition}: {before} before, {_led(view)} now")
    if not any(changed):
        evidence.append("no leader has changed")
    enough = all(changed) if record.form == "move" else any(changed)
    return Proof(all(as_wanted) and enough, evidence)


def _as_before(record: LeadershipRecord, now: Mapping[int, PartitionView]) -> Proof:
    evidence, proven = [], True
    for move in record.partitions:
        view = now.get(move.partition)
        sentence = f"partition {move.partition}: {_led(view)}"
        if record.form == "move":
            again = view is not None and view.leader == move.leader
            again = again and _order(view) == move.before
            sentence += " again" if again else f", not as before: {_why(move, view)}"
            proven = proven and again
        else:
            proven = proven and view is not None and view.leader is not None
        evidence.append(sentence)
    return Proof(proven, evidence)


def _why(move: Move, view: PartitionView | None) -> str:
    if view is None or view.replicas != move.before:
        return f"{_replicas(move.before)} are not back"
    in_sync = "is" if move.leader in view.members else "is not"
    return f"{move.leader} {in_sync} in the ISR"


def _led(view: PartitionView | None) -> str:
    if view is None:
        return "unknown"
    return f"led by {view.leader} (epoch {view.leader_epoch}, {_replicas(view.replicas)})"


def _order(view: PartitionView | None) -> tuple[str, ...]:
    return view.replicas if view else ()


def _replicas(names: Sequence[str]) -> str:
    return f"replicas {','.join(names)}"


# The id of a topic, by which requests name it from Fetch 13 (Kafka 3.1) and Produce 13 (4.1) on
# (KIP-516): queried from the brokers when a rule that names the topic begins.


def topic_ids(ask: Ask, nodes: Mapping[str, Node], topic: str) -> tuple[str, ...]:
    """Its id, as Kafka writes it; none where there is no such topic, or it has none (ZooKeeper mode
    before 2.8). Raises HarnessFailure if no broker answers."""
    brokers = (node for node in nodes.values() if "broker" in node.roles)

    def asked(node: Node) -> Any:
        return metadata(ask, node.name, [topic], timeout_s=_ASK_S)

    try:
        answer = first_answer(brokers, asked, kind="broker")
    except NoAnswer as error:
        what = f"no broker reports the id of the topic {topic}: {error}"
        raise HarnessFailure(what) from error
    found = [each.topic_id for each in answer.topics if not each.error_code]
    encoded = [base64.urlsafe_b64encode(each.bytes).decode() for each in found if each.int]
    return tuple(each.rstrip("=") for each in encoded)


# How Kafka stores a log, and therefore what a power loss or a new disk leaves of it.
#
# A folder `TOPIC-PARTITION` holds segments, each named by its first offset and made of record
# batches or messages. Beside the folders is `recovery-point-offset-checkpoint`, the offset up to
# which each log was fsynced when Kafka last wrote that file, which it does once a minute. Without
# settings that flush, Kafka leaves fsync to the kernel, and nothing above need survive a power
# loss. With them more survives than the file says, so `check_flushes` refuses to cut there.

CHECKPOINT = "recovery-point-offset-checkpoint"
_FLUSH = {"flush.messages", "flush.ms"}
_NEVER = 2**63 - 1
"""How Kafka says that it does not flush."""

_SEGMENT = re.compile(r"\d{20}\.log$")
_META = "data/meta.properties"
_KEPT_BY_FORMAT = (_META, "data/bootstrap.checkpoint", f"data/{FIRST_SNAPSHOT}")


@dataclass(frozen=True)
class KafkaStorage(Storage):
    """See `harness.levers.disk.Storage`."""

    def segments(self, folder: str, sizes: Sizes) -> list[str]:
        found = [path for path in sizes if path.rpartition("/")[0] == folder]
        return sorted(path for path in found if _SEGMENT.match(path.rpartition("/")[2]))

    def unsynced(
        self, folder: str, record: DiskRecord, sizes: Sizes, read: Read, draw: random.Random
    ) -> list[Change]:
        """A log as a power loss could leave it: everything below its checkpoint, and of the batches
        above only the first ones, `keep_share` of them."""
        above, name = folder.rpartition("/")[::2]
        if name.startswith("__cluster_metadata"):
            return []  # each of its writes is fsynced
        synced = recovery_points(read(f"{above}/{CHECKPOINT}")).get(name, 0)
        logs = self.segments(folder, sizes)
        ends = [*(_base(path) for path in logs[1:]), None]
        logs = [path for path, end in zip(logs, ends, strict=True) if end is None or end > synced]
        check_size({path: sizes[path] for path in logs})
        loose = [(path, b) for path in logs for b in batches(read(path)) if b.first >= synced]
        share = draw.random() if record.keep_share == "random" else record.keep_share
        kept = int(share * len(loose))
        if kept == len(loose):
            return []
        path, lost = loose[kept]
        summary = (
            f"cut at offset {lost.first:,}, its end was {loose[-1][1].last + 1:,}, "
            f"checkpointed up to {synced:,}"
        )
        torn = draw.randint(1, lost.size_bytes - 1) if record.tail == "torn" else 0
        return [
            Change(
                how="zero" if record.tail == "zeros" else "resize",
                path=path,
                summary=summary,
                size_bytes=lost.place + torn,
            ),
            *_deleted([later for later in logs if _base(later) > _base(path)], sizes),
        ]

    def reformatted(self, record: DiskRecord, sizes: Sizes, read: Read) -> list[Change]:
        """Only what formatting writes, with another directory id. It is made from the old one and
        the fault, so both are known afterwards."""
        kept = {path for path in _KEPT_BY_FORMAT if path in sizes}
        folders = {path.rpartition("/")[0] for path in kept}
        deleted = {
            path if path.rpartition("/")[0] in folders else "/".join(path.split("/")[:2])
            for path in sizes
            if path.startswith("data/") and path not in kept
        }
        old = read(_META).decode()
        if not old:
            return []
        digest = hashlib.sha256(f"{record.seed}/{record.fault}/{old}".encode()).digest()
        new_id = base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")
        return [
            *(Change(how="delete", path=path, summary="deleted") for path in sorted(deleted)),
            Change(
                how="write",
                path=_META,
                summary=f"written again with directory.id {new_id}",
                content=re.sub(r"(?m)^directory\.id=.*$", f"directory.id={new_id}", old),
            ),
        ]


def check_flushes(plan: KafkaPlan) -> None:
    """Refuse to cut logs at their checkpoint where Kafka itself flushes what is above."""
    settings: dict[str, tuple[str, Any]] = {}
    for name, value in plan.target.settings.items():
        if (of := of_topic(name, str(value))) and of[0] in _FLUSH:
            settings[of[0]] = (name, value)
    settings |= {
        name: (name, plan.topic.settings[name]) for name in _FLUSH & plan.topic.settings.keys()
    }
    flushing = [f"{name} = {value}" for name, value in settings.values() if int(value) < _NEVER]
    for key, options in plan.faults_of("disk") if flushing else ():
        if options.get("form", "unsynced") == "unsynced":
            raise PlanError(
                "cuts logs at a checkpoint that Kafka writes once a minute, and with "
                f"{flushing[0]} more than that is fsynced",
                key=f"{key}.form",
                hint='use nemesis = "power-loss", or leave that setting out',
            )


def recovery_points(checkpoint: bytes) -> dict[str, int]:
    """The offset up to which each log was checkpointed, by folder name; empty while there is no
    file."""
    rows = (line.rsplit(" ", 2) for line in checkpoint.decode().splitlines()[2:])
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}


def _deleted(logs: Sequence[str], sizes: Sizes) -> list[Change]:
    """Segments that are entirely above a cut, with their indexes and snapshots."""
    stems = {path.rpartition(".")[0] for path in logs}
    return [
        Change(how="delete", path=path, summary="deleted, it began above the cut")
        for path in sorted(sizes)
        if path.rpartition(".")[0] in stems
    ]


def _base(segment: str) -> int:
    return int(segment.rpartition("/")[2].partition(".")[0])


def own_levers(cluster: Cluster, plan: KafkaPlan) -> Mapping[str, Lever[Any]]:
    """The lever that moves leaders and the one that meets requests; and the cluster's lever of
    disks, which learns how Kafka stores."""
    nodes = cluster.nodes
    ids = partial(topic_ids, ask_of(nodes, plan), nodes)
    found: list[Lever[Any]] = [
        LeadershipLever(mode_of(plan).leadership(nodes, plan), nodes),
        MembersLever(nodes, plan),
        FeaturesLever(nodes, plan),
        StageLever(nodes, plan),
        ProtocolLever(nodes, proxy.requests(ids)),
    ]
    if isinstance(disk := cluster.levers.get(DiskLever.name), DiskLever):
        found.append(replace(disk, storage=KafkaStorage()))
    return {lever.name: lever for lever in found}


_VOTERS_SEEN_S: Final = 10
_WITHIN_S: Final = 25.0
_AGAIN_S: Final = 0.3
_THERE, _GONE = 126, 127
"""DUPLICATE_VOTER, VOTER_NOT_FOUND: nothing is left to do."""
_LATER: Final = frozenset({3, 5, 6, 7, 41})
"""No leader yet, another one, or not yet: a change is not committed, or the voter is behind."""


@dataclass(frozen=True)
class MembersLever(Lever[MembersRecord]):
    """Removes voters from the quorum of controllers; undone by adding them again."""

    nodes: Mapping[str, Node]
    plan: KafkaPlan
    name: ClassVar[str] = "members"

    def capture_prior_state(self, record: MembersRecord) -> MembersRecord:
        """The chosen voters, with their directory ids."""
        try:
            voters = self._voters()
        except NoAnswer as error:
            return replace(record, unseen=str(error))
        chosen = [(name, voters.get(self._number(name))) for name in record.node.split(",")]
        return replace(record, entries=tuple(f"{name}:{has}" for name, has in chosen if has))

    def apply(self, record: MembersRecord) -> None:
        """Remove one after the other: a quorum changes by one voter at a time."""
        if record.unseen is not None:
            raise HarnessFailure(record.unseen)
        for name, directory in _entries(record):
            request = wire.RemoveRaftVoterRequest(
                version=0,
                cluster_id=None,
                voter_id=self._number(name),
                voter_directory_id=directory,
            )
            self._request(request, done=_GONE, what=f"remove {name}")

    def undo(self, record: MembersRecord) -> None:
        """Add those that are none."""
        listener = wire.AddRaftVoterRequest.Listener
        for name, directory in _entries(record):
            at = listener(name="CONTROLLER", host=self.nodes[name].address, port=CONTROLLER_PORT)
            request = wire.AddRaftVoterRequest(
                version=0,
                cluster_id=None,
                timeout_ms=round(_ASK_S * 1000),
                voter_id=self._number(name),
                voter_directory_id=directory,
                listeners=[at],
            )
            self._request(request, done=_THERE, what=f"add {name}")

    def probe(self, record: MembersRecord, *, applied: bool) -> Proof:
        """Whether the active controller no longer counts them among the voters, or does again."""
        numbers = {self._number(name) for name, _ in _entries(record)}
        shown: list[int] = []

        def seen() -> bool:
            try:
                shown[:] = sorted(self._voters())
            except NoAnswer:
                return False
            return numbers.isdisjoint(shown) if applied else numbers <= {*shown}

        proven = poll_until(seen, within_s=_VOTERS_SEEN_S) and bool(numbers)
        names = {number: name for name, number in node_ids(self.plan).items()}
        voters = ", ".join(names.get(number, str(number)) for number in shown)
        return Proof(proven, [f"{record.node}: the voters are {voters or 'not known'}"])

    def _number(self, name: str) -> int:
        return node_ids(self.plan)[name]

    def _voters(self) -> dict[int, uuid.UUID]:
        """The directory ids of the voters by number, as the active controller reports them. Raises
        NoAnswer."""

        def voters(answer: Any) -> dict[int, uuid.UUID]:
            found = answer.topics[0].partitions[0] if answer.topics else None
            if found is None or found.error_code:
                raise NoAnswer("no controller is active")
            return {each.replica_id: each.replica_directory_id for each in found.current_voters}

        return self._asked(kraft.describe_quorum(2), voters)

    def _request(self, request: Any, *, done: int, what: str) -> None:
        def accept(answer: Any) -> None:
            if (code := answer.error_code) not in (0, done):
                why = f"{wire.for_code(code).__name__}: {answer.error_message}"
                if code in _LATER:
                    raise NoAnswer(why)
                raise HarnessFailure(f"the request was refused: {what}: {why}")

        deadline = time.monotonic() + _WITHIN_S
        while True:
            try:
                return self._asked(request, accept)
            except NoAnswer as error:  # a leader that is removed resigns
                if time.monotonic() > deadline:
                    why = f"it was not done within {_WITHIN_S:g} s: {what}: {error}"
                    raise HarnessFailure(why) from error
            time.sleep(_AGAIN_S)

    def _asked(self, request: Any, use: Callable[[Any], T]) -> T:
        """What is made of the first controller's answer that can be used. Raises NoAnswer when none
        can."""

        def asked(node: Node) -> T:
            return use(ask(node.address, CONTROLLER_PORT, request, timeout_s=_ASK_S))

        controllers = (node for node in self.nodes.values() if "controller" in node.roles)
        return first_answer(controllers, asked, kind="controller")


def check_members(plan: KafkaPlan) -> None:
    """Refuse to remove voters from a quorum that cannot be changed."""
    for key, options in plan.faults_of("membership"):
        if options.get("form") == "remove" and not kraft.can_change(plan):
            raise PlanError(
                "the voters of this quorum cannot be changed",
                key=f"{key}.form",
                hint=f'set target.features."{kraft.FEATURE}" = 1 (Kafka 3.9 or later)',
            )


def _entries(record: MembersRecord) -> Sequence[tuple[str, uuid.UUID]]:
    """The names of the removed voters, with their directory ids."""
    pairs = (entry.split(":", 1) for entry in record.entries)
    return [(name, uuid.UUID(directory)) for name, directory in pairs]


_SPOKEN: Final = "inter.broker.protocol.version"
_REPORTED: Final = r"Kafka version ?: ?[0-9.]+"
METADATA_VERSION: Final = "metadata.version"
_RAISE, _SAFE, _UNSAFE = 1, 2, 3
_CHANGE_MS, _FINALIZED_S = 10_000, 10.0


def programs(plan: KafkaPlan) -> dict[str, KafkaPlan]:
    """The plan of each version or stage that its nodes are to have, by the words of the step.
    Raises PlanError where no path leads there."""
    versions = {to: _on_same_metadata(plan, later, key=key) for key, to, later in plan.upgrades()}
    return {**versions, **migration.stages(plan)}


def _on_same_metadata(plan: KafkaPlan, later: KafkaPlan, *, key: str) -> KafkaPlan:
    mode, version = metadata_of(plan), later.target.version or ""
    if mode not in release_line(version, key=key).metadata:
        last = "3.9 is the last that has it, and what migrates to KRaft"
        raise PlanError(
            f"no path leads from {version_of(plan)} with {mode} to {version}, which has no {mode} "
            "mode",
            key=key,
            hint=last if mode == ZOOKEEPER else "KRaft is run from 3.3 on",
        )
    own = plan.target.version
    older = own and number_of(version)[:2] < number_of(own)[:2]
    level_said = METADATA_VERSION in plan.target.features or any(plan.faults_of("features"))
    if mode == KRAFT and older and not level_said:
        raise PlanError(
            f"no path leads from {own} back to {version}, which does not know the metadata.version "
            f"that {own} stores",
            key=key,
            hint="give target.features a lower one, or lower it by a step before",
        )
    changes: dict[str, object] = {"metadata": mode}
    if mode != KRAFT and plan.target.version:
        low = ".".join(map(str, number_of(plan.target.version)[:2]))
        changes["settings"] = {_SPOKEN: low, **plan.target.settings}
    return later.model_copy(update={"target": later.target.model_copy(update=changes)})


@dataclass(frozen=True)
class FeaturesLever(Lever[FeaturesRecord]):
    """Changes the levels of features as `kafka-features` does: any broker passes the request on to
    the active controller."""

    nodes: Mapping[str, Node]
    plan: KafkaPlan
    name: ClassVar[str] = "features"

    def unavailable(self, node: Node, record: FeaturesRecord) -> str | None:
        """With ZooKeeper there are none."""
        kraft = metadata_of(self.plan) == KRAFT
        return None if kraft else f"{node.name}: levels of features are KRaft's"

    def capture_prior_state(self, record: FeaturesRecord) -> FeaturesRecord:
        """The levels now; without any in the plan, those of `metadata.version` and, in versions
        that need it, nothing else: the highest level that every node supports."""
        try:
            answers = [finalized_and_highest(self._ask, node.name) for node in self._servers]
        except NoAnswer:
            return record  # `apply` raises
        highest = min(answer[1].get(METADATA_VERSION, 0) for answer in answers)
        wanted = record.levels or (Level(feature=METADATA_VERSION, level=highest),)
        found = tuple(Level(feature=name, level=n) for name, n in sorted(answers[0][0].items()))
        return replace(record, levels=wanted, found=found)

    def apply(self, record: FeaturesRecord) -> None:
        if not record.found:
            raise HarnessFailure("not every node has reported the levels of its features")
        had = {each.feature: each.level for each in record.found}
        kind = wire.UpdateFeaturesRequest.FeatureUpdateKey
        lower = _UNSAFE if record.unsafe else _SAFE
        updates = [
            kind(
                feature=each.feature,
                max_version_level=each.level,
                upgrade_type=_RAISE if each.level > had.get(each.feature, 0) else lower,
            )
            for each in record.levels
        ]
        request = wire.UpdateFeaturesRequest[1](
            timeout_ms=_CHANGE_MS, feature_updates=updates, validate_only=False
        )
        answer = self._ask(
            next(n.name for n in self._servers if "broker" in n.roles),
            request,
            timeout_s=_CHANGE_MS / 1000,
        )
        for each in (answer, *(answer.results or ())):
            if each.error_code:
                why = each.error_message or wire.for_code(each.error_code).__name__
                raise HarnessFailure(f"the change of levels was refused: {why}")

    def undo(self, record: FeaturesRecord) -> None:
        """Nothing: they stay."""

    def probe(self, record: FeaturesRecord, *, applied: bool) -> Proof:
        """In force: every node reports the levels, and some have changed."""
        if not applied:
            return Proof(True, [])  # nothing was to be undone
        wanted = {each.feature: each.level for each in record.levels}
        had = {each.feature: each.level for each in record.found}
        shown: dict[str, dict[str, int]] = {}

        def seen() -> bool:
            for node in self._servers:
                with suppress(NoAnswer):
                    shown[node.name] = features(self._ask, node.name)
            return len(shown) == len(self._servers) and all(
                levels.get(name, 0) == n for levels in shown.values() for name, n in wanted.items()
            )

        reached, changed = poll_until(seen, within_s=_FINALIZED_S), wanted.items() - had.items()
        evidence = [
            f"{node}: {name} {levels.get(name, 0)} (before: {had.get(name, 0)})"
            for node, levels in shown.items()
            for name in wanted
        ]
        return Proof(reached and bool(changed), evidence)

    @property
    def _servers(self) -> list[Node]:
        return [node for node in self.nodes.values() if CLIENT_ROLE not in node.roles]

    @property
    def _ask(self) -> Ask:
        return ask_of(self.nodes, self.plan)


def has_program(node: Node, plan: KafkaPlan) -> tuple[bool, str]:
    """Whether a node's process has reported the plan's version as it started (the last such line
    of its log), and answers requests."""
    if plan.migrates:
        return migration.has_program(node, plan)
    if "zookeeper" in node.roles:
        return True, "its jars are those of Kafka"
    log = node.admin(["grep", "-rhoE", rf"^\[.*{_REPORTED}", f"{NODE_DATA}/{LOGS}"]).output
    if not (lines := sorted(log.splitlines())):
        return False, "its log states no version"
    version = re.split(" ?: ?", lines[-1])[-1]
    try:
        levels = features(ask_of({node.name: node}, plan), node.name)
    except NoAnswer as error:
        return False, f"its log states Kafka {version}, but it does not answer: {error}"
    level = "".join(f", {name} {n}" for name, n in levels.items() if name == METADATA_VERSION)
    return version == plan.target.version, f"reports Kafka {version}{level}"

"""Kafka's own levers: what a fault needs that only Kafka can do.

The leadership lever moves the target's leaders, as planned work does. A move gives partitions their
replicas in another order, with the leader last, and then requests the election of the preferred
leaders: so another in-sync replica leads, and no data moves. The undo makes the old leader lead
again and restores the order. An old leader that is not in the ISR by then cannot lead, and the
evidence says so. A plain election changes no order, so it has no undo.

The partitions are looked up before the act, and their state is in the undo record, one for all
nodes of a fault. A partition whose order another fault has changed since is left to that fault:
faults that move the same partition must not overlap, or the earlier one is not proven.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from harness.errors import AcklossError, HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.faults.records import LeadershipRecord, Move
from harness.levers.commands import poll_until
from harness.levers.disk import DiskLever
from harness.levers.protocol import ProtocolLever
from harness.protocols import Cluster, Lever, Node, PartitionView, Proof, UndoRecord
from targets.kafka import proxy
from targets.kafka.brokers import Ask, ask_of, metadata
from targets.kafka.modes import Leadership, mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.storage import KafkaStorage

_SEEN_S = 5
_ASK_S: Final = 5.0


@dataclass(frozen=True)
class LeadershipLever(Lever[LeadershipRecord]):
    """Moves leaders by reassignment or election; undone by moving them back."""

    leadership: Leadership
    nodes: Mapping[str, Node] = field(default_factory=dict)
    name: ClassVar[str] = "leadership"
    record_type: ClassVar[type[UndoRecord]] = LeadershipRecord

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
    why = "there is no broker"
    for node in nodes.values():
        if "broker" in node.roles:
            try:
                answer = metadata(ask, node.name, [topic], timeout_s=_ASK_S)
            except NoAnswer as error:
                why = str(error)
                continue
            found = [each.topic_id for each in answer.topics if not each.error_code]
            encoded = [base64.urlsafe_b64encode(each.bytes).decode() for each in found if each.int]
            return tuple(each.rstrip("=") for each in encoded)
    raise HarnessFailure(f"no broker reports the id of the topic {topic}: {why}")


def own_levers(cluster: Cluster, plan: KafkaPlan) -> Mapping[str, Lever[Any]]:
    """The lever that moves leaders and the one that meets requests; and the cluster's lever of
    disks, which learns how Kafka stores."""
    leadership = mode_of(plan).leadership(cluster.nodes, plan)
    found: dict[str, Lever[Any]] = {
        LeadershipLever.name: LeadershipLever(leadership, cluster.nodes)
    }
    ids = partial(topic_ids, ask_of(cluster.nodes, plan), cluster.nodes)
    found[ProtocolLever.name] = ProtocolLever(cluster.nodes, proxy.requests(ids))
    if isinstance(disk := cluster.levers.get(DiskLever.name), DiskLever):
        found[DiskLever.name] = replace(disk, storage=KafkaStorage())
    return found

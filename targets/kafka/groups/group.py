"""All consumers of one group on Kafka, and how far they are."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from harness.levers.process import kept_dead_by
from harness.protocols import OK, Node, RunCluster, with_role
from harness.protocols.groups import (
    KINDS,
    Action,
    Consumers,
    ConsumerState,
    Delivery,
    GroupSettings,
    Record,
    consumer_name,
    why_unassigned,
    why_unread,
)
from targets.kafka import brokers
from targets.kafka.clients.java.lines import JAVA
from targets.kafka.clients.library import bootstrap
from targets.kafka.groups import offsets
from targets.kafka.groups.java import nodes
from targets.kafka.groups.java.member import JavaMember
from targets.kafka.groups.life import Life
from targets.kafka.groups.process import ConsumerProcess
from targets.kafka.groups.settings import consumer_settings, named
from targets.kafka.plan import KafkaPlan

_LEAVE_S: Final = 10.0
_AWAY_S: Final = 0.5
"""How often a node whose process has ended is checked, until it runs again."""
_ASK_S: Final = 0.5
"""How often brokers are queried for the ends of partitions: each time on its own connection.
"""


class KafkaConsumers(Consumers):
    """The processes of one group. What they report is recorded, and says who owns what."""

    def __init__(
        self, cluster: RunCluster, plan: KafkaPlan, group: GroupSettings, record: Record
    ) -> None:
        self._cluster, self._plan, self._group, self._record = cluster, plan, group, record
        self._lock = threading.Lock()
        self._acting, self._closing = threading.RLock(), threading.Event()
        self._lives: dict[int, list[Life]] = {}
        self._owner: dict[int, tuple[str, int]] = {}
        self._known: dict[int, int | None] = {}
        self._ask_s = 0.0
        self._uncommitted: str | None = None

    def start(self) -> None:
        """See `Consumers`."""
        for number in range(1, self._group.members_count + 1):
            self._begin(number)

    def assigned(self) -> str | None:
        """See `Consumers`."""
        with self._lock:
            members = self._group.members_count
            return why_unassigned(self._owner, self._plan.topic.partitions, members)

    def drained(self) -> str | None:
        """See `Consumers`."""
        with self._lock:
            if (why := why_unread(self._owner, self._plan.topic.partitions)) is not None:
                return why
        if time.monotonic() >= self._ask_s:
            self._uncommitted = self._behind()
            self._ask_s = time.monotonic() + _ASK_S
        return self._uncommitted

    def _behind(self) -> str | None:
        for partition in range(self._plan.topic.partitions):
            end = self._end_of(partition)
            with self._lock:
                known = self._known.get(partition)
            if end is None or (known or 0) != end:
                return f"partition {partition} ends at {end}, the last commit is {known}"
        return None

    def act(self, number: int, action: Action) -> None:
        """See `Consumers`."""
        if action == "join":
            self._begin(number)
        elif (life := self._life(number)) is not None:
            if action == "crash":
                life.kill()
            elif action == "pause":
                life.send(signal.SIGSTOP)
            else:
                life.send(signal.SIGTERM)

    def undo(self, number: int, action: Action) -> None:
        """See `Consumers`."""
        life = self._life(number)
        if action == "pause" and life is not None:
            life.send(signal.SIGCONT)
        elif action == "join" and life is not None:
            life.send(signal.SIGTERM)
        elif action in ("crash", "leave"):
            self._begin(number)

    def state(self, number: int) -> ConsumerState:
        """See `Consumers`."""
        lives, life = self._lives.get(number, []), self._life(number)
        ended = [each for each in lives if not each.alive]
        last = f"life {ended[-1].life} has ended" if ended else "none has ended"
        if life is None:
            node = self._node(number)
            by = tuple(kept_dead_by(node)) if node is not None else ()
            return ConsumerState(life=None, ended=last, node_kept_dead_by=by)
        return ConsumerState(life=life.life, paused=life.paused, ended=last)

    def close(self, timeout_s: float) -> None:
        """See `Consumers`."""
        self._closing.set()
        running = [each for lives in self._lives.values() for each in lives if each.alive]
        for life in running:
            life.send(signal.SIGCONT)
            life.send(signal.SIGTERM if timeout_s else signal.SIGKILL)
        deadline = time.monotonic() + timeout_s
        for life in running:
            life.wait(deadline)

    def committed(self, timeout_s: float) -> list[Delivery]:
        """See `Consumers`."""
        return offsets.committed(self._cluster, self._plan, timeout_s)

    def _begin(self, number: int) -> None:
        with self._acting:
            if (life := self._life(number)) is not None:
                if not life.leaving:
                    return
                life.wait(time.monotonic() + _LEAVE_S)
            if (node := self._node(number)) is not None and kept_dead_by(node):
                again = threading.Thread(target=self._return, args=[number, node], daemon=True)
                again.start()
                return
            lives = self._lives.setdefault(number, [])
            lives.append(self._new_life(number, len(lives) + 1))

    def _new_life(self, number: int, nth: int) -> Life:
        setup, library = self._setup(number, nth), self._plan.workload.consumer_client
        if (node := self._node(number)) is not None:

            def lost() -> None:
                self._return(number, node)

            return JavaMember(node, setup, number=number, life=nth, take=self._take, lost=lost)
        return ConsumerProcess(
            library,
            setup,
            run_id=self._cluster.run_id,
            number=number,
            life=nth,
            take=self._take,
        )

    def _node(self, number: int) -> Node | None:
        """Where a consumer runs; None for a process of this machine."""
        if self._plan.workload.consumer_client != JAVA:
            return None
        return self._cluster.nodes[nodes.name(self._plan, number)]

    def _return(self, number: int, node: Node) -> None:
        """A consumer whose node was killed begins its next life when the node runs again."""
        while not self._closing.wait(_AWAY_S):
            if node.process().running:
                self._begin(number)
                return

    def _setup(self, number: int, life: int) -> dict[str, Any]:
        group, plan = self._group, self._plan
        settings = {
            **consumer_settings(plan, group),
            "bootstrap.servers": bootstrap(self._cluster),
            "client.id": f"{consumer_name(number)}.{life}",
        }
        settings = named(settings, plan.workload.consumer_client)
        manual = range(number - 1, plan.topic.partitions, group.members_count)
        return {
            "settings": settings,
            "topic": plan.topic.name,
            "partitions": list(manual) if group.protocol == "manual" else None,
            "commit": group.commit,
            "commit_partitions": group.commit_partitions,
            "batch_count": group.batch_count,
            "process_ms": group.process_ms,
        }

    def _life(self, number: int) -> Life | None:
        lives = self._lives.get(number)
        return lives[-1] if lives and lives[-1].alive else None

    def _take(self, rows: Sequence[Delivery]) -> None:
        with self._lock:
            for row in rows:
                self._note(row)
        self._record(rows)

    def _note(self, row: Delivery) -> None:
        """Who owns what, and what is known to be committed."""
        who = (row.consumer or "", row.life or 0)
        if row.f == KINDS.stop:
            self._owner = {p: owner for p, owner in self._owner.items() if owner != who}
        if row.partition is None:
            return
        if row.f == KINDS.assign:
            self._owner[row.partition] = who
        elif row.f == KINDS.revoke and self._owner.get(row.partition) == who:
            del self._owner[row.partition]
        elif row.f in (KINDS.commit, KINDS.committed) and row.type == OK:
            self._known[row.partition] = row.offset

    def _end_of(self, partition: int) -> int | None:
        """Where the log ends, as its leader says."""
        for node in with_role(self._cluster, "broker"):
            if (end := brokers.offset(node, self._plan, partition, brokers.LATEST)) is not None:
                return end
        return None

"""All consumers of one group on Kafka: each life of one, as the harness holds it, and how far they
are: what each broker reports about the group's committed offsets, queried raw, and who coordinates
it.

A life is a process of this machine, or a connection to a JVM in a node of the cluster, which does
what `Member.java` explains.

librdkafka's admin call is not used: it ends the process when a broker answers NOT_COORDINATOR
(librdkafka issue 5040). A broker that was cut off may go on answering, beside the one that took
over: both answers are kept.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.clusters.cleaning import MARK
from harness.faults.own_traffic import NoAnswer
from harness.levers.commands import poll_until
from harness.levers.process import kept_dead_by
from harness.protocols import FAIL, INFO, OK, Node, PartitionView, RunCluster, with_role
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
from targets.kafka import brokers, wire
from targets.kafka.brokers import ask
from targets.kafka.clients.java import Lost, connected
from targets.kafka.clients.library import bootstrap
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.definitions import JAVA
from targets.kafka.groups.loop import parsed
from targets.kafka.groups.settings import MEMBER_PORT, consumer_settings, group_id, named, node_name
from targets.kafka.plan import KafkaPlan

Take = Callable[[list[Delivery]], None]
"""Takes rows as they come, from a thread of the life's own."""


class Life(ABC):
    """A consumer from its start to its end. `leaving`: it was asked to leave; `stopped`: it has
    reported itself that it has ended."""

    def __init__(self, number: int, life: int, take: Take) -> None:
        self.number, self.life, self._take = number, life, take
        self.leaving = self.stopped = False

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it runs, stopped or not."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Whether the kernel says that its process is stopped."""

    @abstractmethod
    def send(self, number: signal.Signals) -> None:
        """Send its process a signal, if it is there; SIGTERM: have the consumer leave."""

    @abstractmethod
    def kill(self) -> None:
        """End its process at once, and wait until it has ended."""

    @abstractmethod
    def wait(self, deadline_s: float) -> None:
        """Wait until it has ended by itself, until a time of the monotonic clock; else kill it."""

    @abstractmethod
    def ending(self) -> str:
        """How it ended, where it has not reported so itself."""

    def hear(self, lines: Iterable[bytes]) -> None:
        """Make rows of its lines to their end, and one of its own where it was cut short."""
        for line in lines:
            if (report := parsed(line)) is not None:
                self.stopped = self.stopped or report.f == KINDS.stop
                self._take(list(report.rows(consumer_name(self.number), self.life)))
        if not self.stopped:
            error, now_ns = self.ending(), time.monotonic_ns()
            row = Delivery(KINDS.stop, now_ns, now_ns, INFO, life=self.life, error=error)
            self._take([row._replace(consumer=consumer_name(self.number))])


def is_stopped(stat: str) -> bool:
    """What a process's file `stat` says of its state."""
    words = stat.rpartition(")")[2].split()
    return bool(words) and words[0] in "Tt"


MODULES: Final[Mapping[str, str]] = {
    "librdkafka": "targets.kafka.groups.librdkafka",
    "kafka-python": "targets.kafka.groups.kafka_python",
}
_KILLED_S: Final = 5.0
_TAIL_BYTES: Final = 4000
_ROOT: Final = Path(__file__).parents[3]


class ConsumerProcess(Life):
    """A process that consumes; its lines become rows as they come, in its own thread."""

    def __init__(
        self,
        library: str,
        setup: Mapping[str, Any],
        *,
        run_id: str,
        number: int,
        life: int,
        take: Take,
    ) -> None:
        super().__init__(number, life, take)
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (it is open as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULES[library], json.dumps(setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, MARK: run_id, "PYTHONPATH": path},
        )
        self._thread = threading.Thread(target=self._read, name=f"consumer-{number}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def paused(self) -> bool:
        try:
            return is_stopped(Path(f"/proc/{self._process.pid}/stat").read_text())
        except OSError:
            return False

    def send(self, number: signal.Signals) -> None:
        self.leaving = self.leaving or number == signal.SIGTERM
        if self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait(_KILLED_S)
        self._thread.join(_KILLED_S)

    def wait(self, deadline_s: float) -> None:
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(_KILLED_S)

    def ending(self) -> str:
        self._process.wait()
        code = self._process.returncode
        return self._last_words(code) if code >= 0 else signal.Signals(-code).name

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.hear(self._process.stdout)
        self._process.wait()
        self._process.stdout.close()
        self._log.close()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _last_words(self, code: int) -> str:
        """How it ended by itself, with the last line that it wrote to stderr."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _TAIL_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"it ended with {code}" + (f": {lines[-1]}" if lines else "")


START_S: Final = 60.0
"""How long its JVM may take until it listens: eight of them start while brokers do."""

_JVM_KILLED_S: Final = 10.0
_GONE_S: Final = 2.0
_SIGNALLED: Final = 128
_NAMES: Final = {signal.SIGSTOP: "STOP", signal.SIGCONT: "CONT", signal.SIGKILL: "KILL"}


class JavaMember(Life):
    """A consumer in a node; the JVM outlives it, but for a crash. `lost` is called, in a thread of
    its own, when it has ended without a request from here: its node was killed."""

    def __init__(
        self,
        node: Node,
        setup: Mapping[str, Any],
        *,
        number: int,
        life: int,
        take: Take,
        lost: Callable[[], None],
        port: int = MEMBER_PORT,
    ) -> None:
        super().__init__(number, life, take)
        self._node, self._lost, self._port = node, lost, port
        self._killed = False
        self._socket: socket.socket | None = None
        self._error = "its node was killed, or the connection to it was lost"
        node.start()
        name = f"consumer-{number}"
        self._thread = threading.Thread(target=self._live, args=[setup], name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def paused(self) -> bool:
        pid = self._node.pid()
        if pid is None:
            return False
        return is_stopped(self._node.admin(["cat", f"/proc/{pid}/stat"]).output)

    def send(self, number: signal.Signals) -> None:
        if number == signal.SIGTERM:
            self.leaving = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.sendall(b"leave\n")
        elif self.alive and (pid := self._node.pid()) is not None:
            self._killed = self._killed or number == signal.SIGKILL
            self._node.admin(["kill", f"-{_NAMES[number]}", str(pid)])

    def kill(self) -> None:
        self._killed = True

        def is_gone() -> bool:  # signalled again: what has just begun may not have its pid yet
            self.send(signal.SIGKILL)
            return not self._node.process().running

        poll_until(is_gone, within_s=_JVM_KILLED_S)
        self._end(_JVM_KILLED_S)

    def wait(self, deadline_s: float) -> None:
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        if self.alive:
            self.kill()

    def ending(self) -> str:
        """See `Life`; Docker says a moment later than the connection that a process has ended."""
        poll_until(lambda: not self._node.process().running, within_s=_GONE_S)
        code = self._node.process().exit_code
        if code is None:
            return self._error
        if code > _SIGNALLED:
            return signal.Signals(code - _SIGNALLED).name
        return f"it ended with {code}"

    def _end(self, within_s: float) -> None:
        """Wait until everything that it has written was read; where nothing comes any more, not."""
        self._thread.join(within_s)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(within_s)

    def _live(self, setup: Mapping[str, Any]) -> None:
        self.hear(self._said(setup))
        if not (self.leaving or self._killed or self.stopped):
            threading.Thread(target=self._lost, name="lost", daemon=True).start()

    def _said(self, setup: Mapping[str, Any]) -> Iterator[bytes]:
        try:
            at = (self._node.address, self._port)
            self._socket = connection = connected(at, time.monotonic() + START_S)
        except Lost as error:
            self._error = str(error)
            return
        with connection, suppress(OSError):  # killed, it may not have read what was sent to it
            connection.settimeout(None)
            connection.sendall(_lines(setup))
            if self.leaving:
                connection.sendall(b"leave\n")
            with connection.makefile("rb") as lines:
                yield from lines


def _lines(setup: Mapping[str, Any]) -> bytes:
    lines = [
        f"topic {setup['topic']}",
        f"commit {setup['commit']}",
        f"commit_partitions {setup['commit_partitions']}",
        f"process_ns {round(setup['process_ms'] * 1e6)}",
    ]
    if (own := setup["partitions"]) is not None:
        lines.append(f"partitions {','.join(map(str, own))}")
    settings = {**setup["settings"], "max.poll.records": setup["batch_count"]}
    lines += [f"set {key}={value}" for key, value in settings.items()]
    return "\n".join([*lines, "begin", ""]).encode()


_VERSION: Final = 1
"""Of OffsetFetch: spoken from 0.8.2 to 4.x."""
_COMMITTED_S: Final = 3.0
_AGAIN_S: Final = 0.5
_NONE: Final = -1


def _asked(node: Node, plan: KafkaPlan) -> list[Delivery]:
    kind = wire.OffsetFetchRequest[_VERSION]
    partitions = list(range(plan.topic.partitions))
    topic = kind.OffsetFetchRequestTopic(name=plan.topic.name, partition_indexes=partitions)
    request = kind(group_id=group_id(plan), topics=[topic])
    begun_ns = time.monotonic_ns()
    try:
        answer = ask(node.address, BROKER_PORT, request, timeout_s=_COMMITTED_S)
    except NoAnswer as error:
        now_ns = time.monotonic_ns()
        return [Delivery(KINDS.final, begun_ns, now_ns, FAIL, node=node.name, error=str(error))]
    now_ns = time.monotonic_ns()
    return [
        _row(node.name, part, begun_ns, now_ns)
        for each in answer.topics
        for part in each.partitions
    ]


def _row(node: str, part: Any, begun_ns: int, now_ns: int) -> Delivery:
    row = Delivery(KINDS.final, begun_ns, now_ns, node=node, partition=int(part.partition_index))
    if part.error_code:
        return row._replace(type=FAIL, error=brokers.error_name(part.error_code))
    offset = int(part.committed_offset)
    return row._replace(offset=None if offset == _NONE else offset)


def coordination(plan: KafkaPlan, partitions: tuple[PartitionView, ...]) -> PartitionView | None:
    """The partition of that topic in which the plan's group is kept; `None` while there is none."""
    if not partitions:
        return None
    number = partition_of(group_id(plan), len(partitions))
    return next((each for each in partitions if each.partition == number), None)


def partition_of(group: str, partitions: int) -> int:
    """In which of so many a group is kept: the magnitude of Java's hash of its id, as Kafka takes
    it (`Utils.abs`, 31 bits)."""
    number = 0
    for character in group:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    signed = number - (1 << 32) if number & (1 << 31) else number
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


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
        for number in range(1, self._group.members_count + 1):
            self._begin(number)

    def assigned(self) -> str | None:
        with self._lock:
            members = self._group.members_count
            return why_unassigned(self._owner, self._plan.topic.partitions, members)

    def drained(self) -> str | None:
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
        if action == "join":
            self._begin(number)
        elif (life := self._life(number)) is not None:
            if action == "crash":
                life.kill()
            else:
                life.send(signal.SIGSTOP if action == "pause" else signal.SIGTERM)

    def undo(self, number: int, action: Action) -> None:
        if action in ("crash", "leave"):
            self._begin(number)
        elif (life := self._life(number)) is not None:
            life.send(signal.SIGCONT if action == "pause" else signal.SIGTERM)

    def state(self, number: int) -> ConsumerState:
        lives, life = self._lives.get(number, []), self._life(number)
        ended = [each for each in lives if not each.alive]
        last = f"life {ended[-1].life} has ended" if ended else "none has ended"
        if life is None:
            node = self._node(number)
            by = tuple(kept_dead_by(node)) if node is not None else ()
            return ConsumerState(life=None, ended=last, node_kept_dead_by=by)
        return ConsumerState(life=life.life, paused=life.paused, ended=last)

    def close(self, timeout_s: float) -> None:
        self._closing.set()
        running = [each for lives in self._lives.values() for each in lives if each.alive]
        for life in running:
            life.send(signal.SIGCONT)
            life.send(signal.SIGTERM if timeout_s else signal.SIGKILL)
        deadline = time.monotonic() + timeout_s
        for life in running:
            life.wait(deadline)

    def committed(self, timeout_s: float) -> list[Delivery]:
        """What each broker says, once one at least has an answer."""
        deadline = time.monotonic() + timeout_s
        while True:
            nodes = with_role(self._cluster, "broker")
            rows = [row for node in nodes for row in _asked(node, self._plan)]
            if any(row.type != FAIL for row in rows) or time.monotonic() >= deadline:
                return rows
            time.sleep(_AGAIN_S)

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
            library, setup, run_id=self._cluster.run_id, number=number, life=nth, take=self._take
        )

    def _node(self, number: int) -> Node | None:
        if self._plan.workload.consumer_client != JAVA:
            return None
        return self._cluster.nodes[node_name(self._plan, number)]

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
        ask = brokers.ask_of(self._cluster.nodes, self._plan)
        for node in with_role(self._cluster, "broker"):
            end = brokers.offset(ask, node.name, self._plan.topic.name, partition, brokers.LATEST)
            if end is not None:
                return end
        return None

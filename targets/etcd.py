"""etcd, a replicated key-value store: its servers are those of the distribution's package.

Clients speak the JSON gateway of its API, so that no client library is needed: a register is a key,
and an element of the set is a key below `set/`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from harness.images.recipe import Debian, GoModule, Source
from harness.models.micro_ops import Read, Step
from harness.plan import Plan, Slug
from harness.protocols import FAIL, NODE_DATA, NULL, STORED
from harness.protocols.explanations import LogRow
from harness.servers import (
    CLIENT_KEYS,
    DIFFERS,
    ErrorAnswer,
    ErrorRow,
    JsonOverHttp,
    KeyValueClient,
    Report,
    Server,
    ServerPlan,
    ServerSystem,
    ServerTargetPlan,
    ServerWorkloadPlan,
    ask_json,
    scraped,
    setting_text,
)

CLIENT_PORT, PEER_PORT = 2379, 2380


class EtcdTargetPlan(ServerTargetPlan):
    """etcd's servers: n1, n2 ..."""

    system: Slug = Field("etcd", description="The system under test, a plug-in in targets/.")


class EtcdWorkloadPlan(ServerWorkloadPlan):
    """The workload and the clients that run it."""

    read: Literal["linearizable", "serializable"] = Field(
        "linearizable",
        description="How values are read: confirmed by a majority, or as one server has them.",
    )


class EtcdPlan(ServerPlan):
    """A plan whose target is etcd."""

    target: EtcdTargetPlan = Field(default_factory=lambda: EtcdTargetPlan())
    workload: EtcdWorkloadPlan = Field(default_factory=lambda: EtcdWorkloadPlan())


ERRORS: Final = (
    ErrorRow(
        "etcdserver: too many requests",
        "TooManyRequests",
        FAIL,
        "the server counts what is not applied yet before it proposes a request",
    ),
    ErrorRow(
        "etcdserver: request is too large",
        "RequestTooLarge",
        FAIL,
        "the size is checked before the request is proposed",
    ),
    ErrorRow(
        DIFFERS,
        DIFFERS,
        FAIL,
        "a key was changed between a transaction's reads and its comparison: nothing is put",
    ),
)
"""Errors that prove that nothing was changed. All others, above all `request timed out` and `leader
changed`, leave it open: the request may have been replicated, or may be yet."""


_EVENTS: Final = b'"events":'
"""What a stream of changes has in it once there was one."""
_NUMBERS: Final = count()


def _encoded(word: object) -> str:
    return b64encode(str(word).encode()).decode()


def _decoded(word: str) -> str:
    return b64decode(word).decode()


class EtcdClient(KeyValueClient):
    """A connection to one server."""

    errors: ClassVar[Sequence[ErrorRow]] = ERRORS

    def __init__(self, address: str, plan: EtcdPlan) -> None:
        self._limit_s = plan.workload.request_ms / 1000
        self._connected = partial(JsonOverHttp, address, CLIENT_PORT, timeout_s=self._limit_s)
        self._http = self._connected()
        self._serializable = plan.workload.read == "serializable"
        self._object = plan.target.object
        self._watches, self._number = dict[str, tuple[int, JsonOverHttp]](), next(_NUMBERS)

    def _post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._http.post(f"/v3/kv/{path}", document)
        except ErrorAnswer as refused:
            raise ErrorAnswer(refused.code, json.loads(refused.text)["message"]) from refused

    def _name(self, key: object) -> str:
        return _encoded(f"{self._object}/{key}")

    def _range(self, **keys: str) -> list[dict[str, Any]]:
        found = self._post("range", {**keys, "serializable": self._serializable})
        return list(found.get("kvs", ()))

    def read(self, key: str) -> int | None:
        found = self._range(key=self._name(key))
        return int(_decoded(found[0]["value"])) if found else None

    def write(self, key: str, value: int) -> int:
        done = self._post("put", {"key": self._name(key), "value": _encoded(value)})
        return int(done["header"]["revision"])

    def _look(self, key: str) -> tuple[int, int]:
        (found,) = self._range(key=self._name(key)) or [{}]
        return int(found.get("mod_revision", 0)), int(_decoded(found["value"])) if found else NULL

    def watch(self, key: str) -> tuple[int, tuple[int, ...]]:
        """A change and its event come by two connections, in no order. So a client that has read a
        change waits for the event: once the server has answered again after the time limit of a
        request, and there is still none, there will be none."""
        since, before = self._watches.get(key, (NULL, None))
        notified = before.came(_EVENTS, 0) if before else NULL
        revision, value = self._look(key)
        if before and revision > since:
            if not before.came(_EVENTS, self._limit_s):
                self._look(key)
            notified = before.came(_EVENTS, self._limit_s)
        if before:
            before.close()
        wanted = {"key": self._name(key), "start_revision": revision + 1}
        self._watches[key] = revision, self._connected()
        self._watches[key][1].begin("/v3/watch", {"create_request": wanted})
        return revision, (value, notified, self._number)

    def delete(self, key: str) -> None:
        self._post("deleterange", {"key": self._name(key)})

    def compare_and_set(self, key: str, expected: int, value: int) -> bool:
        name = self._name(key)
        is_expected = {"key": name, "target": "VALUE", "value": _encoded(expected)}
        change = {"requestPut": {"key": name, "value": _encoded(value)}}
        answer = self._post("txn", {"compare": [is_expected], "success": [change]})
        return bool(answer.get("succeeded"))

    def add(self, value: int) -> int:
        return self.write(f"set/{value}", value)

    def read_all(self) -> Iterable[int]:
        found = self._range(key=self._name("set/"), range_end=self._name("set0"))  # after "set/"
        return [int(_decoded(each["value"])) for each in found]

    def transact(self, steps: Sequence[Step]) -> Sequence[Read]:
        """Reads of all keys, then one `txn` that puts what follows from them if none was changed
        since; of reads alone, the first is everything. A list is its key's value, as JSON."""
        names = {key: self._name(f"txn/{key}") for _, key, _ in steps}
        kept = {"serializable": self._serializable}
        ranges = [{"requestRange": {"key": name, **kept}} for name in names.values()]
        seen = [
            each["response_range"].get("kvs", [{}])[0]
            for each in self._post("txn", {"success": ranges})["responses"]
        ]
        held = {
            key: json.loads(_decoded(found["value"])) if found else None
            for key, found in zip(names, seen, strict=True)
        }
        reads, puts = list[Read](), dict[str, str]()
        for f, key, value in steps:
            if f == "r":
                reads.append(held[key])
                continue
            held[key] = [*(held[key] or []), value] if f == "append" else value
            puts[key] = _encoded(json.dumps(held[key]))
        if puts:
            same = [
                {"key": name, "target": "MOD", "modRevision": found.get("mod_revision", "0")}
                for name, found in zip(names.values(), seen, strict=True)
            ]
            changes = [{"requestPut": {"key": names[k], "value": v}} for k, v in puts.items()]
            if not self._post("txn", {"compare": same, "success": changes}).get("succeeded"):
                raise ErrorAnswer(DIFFERS)
        return reads

    def close(self) -> None:
        for connection in (self._http, *(watch for _, watch in self._watches.values())):
            connection.close()


EVENTS: Final = (
    LogRow("begins", r"starting (?:local )?member", "started"),
    LogRow(
        "ends",
        r" \[logterm: (\d+), index: (?P<end>\d+)[^]]*\] \w.* at term (?!\1\b)",
        "index {end:,}",
    ),
    LogRow("leads", r" became leader at term (?P<epoch>\d+)", "was elected in term {epoch}"),
)
"""A server's first vote tells with which log it was started, unless the leader had already sent it
more: then that is of the same term. A revision is lower than the index of its entry."""

_METRICS: Final = re.compile(
    r"etcd_server_(?!\w+_bucket)|etcd_network_peer_sent_failures_total|etcd_disk_\w+_(?:count|sum)\b"
)


@dataclass(frozen=True)
class Etcd(ServerSystem[EtcdPlan]):
    """etcd: servers n1, n2 ..., which agree by Raft."""

    plugin: ClassVar[str] = "etcd"
    plan: ClassVar[type[Plan]] = EtcdPlan
    models: ClassVar[frozenset[str]] = ServerSystem.models | {"watch", "list-append", "rw-register"}
    cell_keys: ClassVar[tuple[str, ...]] = ("workload.read", *CLIENT_KEYS)
    source: ClassVar[Source] = Debian(
        "etcd-server",
        program="etcd",
        others=(
            GoModule(
                "go.etcd.io/etcd/server/v3", "etcd", {"3.7.3": "", "3.6.16": "", "3.5.35": ""}
            ),
        ),
    )
    ports: ClassVar[tuple[int, ...]] = (CLIENT_PORT, PEER_PORT)
    settings: ClassVar[Sequence[str]] = (
        "heartbeat-interval",
        "election-timeout",
        "pre-vote",
        "snapshot-count",
        "unsafe-no-fsync",
    )
    synced: ClassVar[tuple[str, Any]] = ("target.settings.unsafe-no-fsync", False)
    alarms: ClassVar[Path | None] = Path(__file__).parent / "etcd_alarms.toml"
    events: ClassVar[Sequence[LogRow]] = EVENTS
    connect = EtcdClient
    metrics = scraped(CLIENT_PORT, _METRICS)
    starters: ClassVar[Mapping[str, str]] = {
        "safe": """
nodes = 3

[workload]
name = "register"
read = "linearizable"            # or "serializable": as one server has it
""",
    }

    def argv(self, server: Server, plan: EtcdPlan) -> list[str]:
        """etcd knows its members by the URLs of their peers."""
        members = [f"{name}=http://{ip}:{PEER_PORT}" for name, ip in server.addresses.items()]
        client, peer = (f"http://{server.address}:{port}" for port in (CLIENT_PORT, PEER_PORT))
        return [
            self.source.of(plan.target.version).command,
            f"--name={server.name}",
            f"--data-dir={NODE_DATA}/{STORED}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={','.join(members)}",
            *(f"--{name}={setting_text(value)}" for name, value in plan.target.settings.items()),
        ]

    def report(self, address: str, *, timeout_s: float) -> Report | None:
        """A server reports its leader by a number, of which the list of members has the name."""
        ask = partial(ask_json, address, CLIENT_PORT, timeout_s=timeout_s)
        status, members = ask("/v3/maintenance/status", {}), ask("/v3/cluster/member/list", {})
        if status is None or members is None:
            return None
        names = {each["ID"]: each.get("name") for each in members["members"]}
        return Report(
            leader=names.get(status.get("leader")),
            epoch=int(status["raftTerm"]),
            position=int(status["raftAppliedIndex"]),
        )

"""The files a Kafka node starts with, and which settings a plan may not touch."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from typing import Any

from harness.errors import PlanError
from harness.plan import Plan
from harness.protocols import NODE_DATA, STORED

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
DATA = f"{NODE_DATA}/{STORED}"

# What ackloss sets unless the plan says otherwise: short time-outs, so that a run takes a minute,
# and a leader that stays where it is unless a fault moves it.
DEFAULTS: Mapping[str, Any] = {
    "num.network.threads": 2,
    "num.io.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2097152,
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 3000,
    "auto.leader.rebalance.enable": False,
    "auto.create.topics.enable": False,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}

_OWNED = "ackloss sets it itself"
_CODE = "it loads code or reads files, and a plan may do neither"
_REFUSED: tuple[tuple[str, str], ...] = (
    (r"(controller\.)?listener.*|listeners|advertised\..*|.*\.listener\.names?", _OWNED),
    (r"listener\.security\.protocol\.map|security\..*|port|host\.name", _OWNED),
    (r"node\.id|broker\.id(\..*)?|reserved\.broker\.max\.id|broker\.rack", _OWNED),
    (r"process\.roles|log\.dirs?|metadata\.log\.dir", _OWNED),
    (r"controller\.quorum\.(?!.*\.ms$).*", _OWNED),
    (r"zookeeper\.(?!(session|connection)\.timeout\.ms$).*", _OWNED),
    (r"ssl\..*|sasl\..*|.*\.sasl\..*|.*\.ssl\..*|password\..*|delegation\..*", _OWNED),
    (r".*\.class(\.name|\.path|es)?|.*\.reporters|config\.providers.*|.*\.location", _CODE),
)


def why_refused(key: str) -> str | None:
    """Why a plan may not set this broker setting; null when it may."""
    for pattern, reason in _REFUSED:
        if re.fullmatch(pattern, key):
            return reason
    return None


def check_settings(settings: Mapping[str, Any], *, where: str) -> None:
    """Raise PlanError for the first setting that a plan may not touch."""
    for key in settings:
        if reason := why_refused(key):
            raise PlanError(
                f"this setting is refused: {reason}", key=f'{where}."{key}"', hint="remove it"
            )


def text(value: Any) -> str:
    """A setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def new_cluster_id() -> str:
    """A random id as Kafka makes them: 16 bytes in URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def node_ids(plan: Plan) -> dict[str, int]:
    """Kafka's id of each node by name: brokers b1 ... are 1 ..., controllers c1 ... are 101 ..."""
    ids = {f"b{n}": n for n in range(1, plan.target.brokers + 1)}
    if not plan.target.combined:
        ids |= {f"c{n}": 100 + n for n in range(1, plan.target.controllers + 1)}
    return ids


def node_roles(name: str, plan: Plan) -> frozenset[str]:
    """A node's roles: in a combined cluster the first brokers are the controllers too."""
    if name.startswith("c"):
        return frozenset({"controller"})
    if plan.target.combined and int(name[1:]) <= plan.target.controllers:
        return frozenset({"broker", "controller"})
    return frozenset({"broker"})


def rack_of(name: str, plan: Plan) -> str | None:
    """The rack of a node: its number's turn among the plan's racks; null where there are none."""
    racks = plan.target.racks
    return racks[(int(name[1:]) - 1) % len(racks)] if racks else None


def server_properties(name: str, plan: Plan, addresses: Mapping[str, str]) -> bytes:
    """server.properties of one node: our defaults, the plan's settings, what ackloss owns."""
    roles, ids = node_roles(name, plan), node_ids(plan)
    voters = [n for n in ids if "controller" in node_roles(n, plan)]
    owned: dict[str, Any] = {
        "process.roles": ",".join(sorted(roles)),
        "node.id": ids[name],
        "controller.quorum.voters": ",".join(
            f"{ids[n]}@{addresses[n]}:{CONTROLLER_PORT}" for n in voters
        ),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": DATA,
        "listeners": ",".join(_listeners(roles)),
    }
    if "broker" in roles:
        owned["advertised.listeners"] = f"PLAINTEXT://{addresses[name]}:{BROKER_PORT}"
        owned["inter.broker.listener.name"] = "PLAINTEXT"
        if rack := rack_of(name, plan):
            owned["broker.rack"] = rack
    defaults = {k: v for k, v in DEFAULTS.items() if k != "offsets.topic.replication.factor"}
    defaults["offsets.topic.replication.factor"] = min(3, plan.target.brokers)
    merged = {**defaults, **plan.target.settings, **owned}
    return "".join(f"{key}={_escaped(text(value))}\n" for key, value in merged.items()).encode()


def _listeners(roles: frozenset[str]) -> list[str]:
    ports = {
        "broker": f"PLAINTEXT://:{BROKER_PORT}",
        "controller": f"CONTROLLER://:{CONTROLLER_PORT}",
    }
    return [ports[role] for role in sorted(roles)]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


def formatted(name: str, plan: Plan, cluster_id: str, checkpoint: bytes) -> dict[str, bytes]:
    """The files of a formatted log directory, made without starting a JVM.

    `checkpoint` is the bootstrap.checkpoint that the version's own StorageTool wrote once.
    """
    meta = (
        f"version=1\ncluster.id={cluster_id}\nnode.id={node_ids(plan)[name]}\n"
        f"directory.id={new_cluster_id()}\n"
    )
    return {"data/meta.properties": meta.encode(), "data/bootstrap.checkpoint": checkpoint}

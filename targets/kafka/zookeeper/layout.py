"""The nodes of a cluster with ZooKeeper, and the files they start with.

ZooKeeper runs from the very jars that the version of Kafka brings: 3.3.4 with 0.8.0, 3.8.4 with
3.9, so that what an old server does can be seen with the brokers that had it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.plan import number_of
from harness.protocols import NODE_DATA, Ingredients, NodeSpec
from targets.kafka.configuration import (
    BROKER_PORT,
    DATA,
    LOGS,
    node_ids,
    properties,
    rack_of,
    with_rack,
)
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, ReleaseLine, release_line
from targets.zookeeper.configuration import CLIENT_PORT, PORTS, Server, server_files

# What ackloss sets unless the plan says otherwise, and the version from which Kafka knows it: short
# timeouts, so that a run takes a minute, and a leader that stays where it is.
DEFAULTS: Final[tuple[tuple[str, Any, tuple[int, ...]], ...]] = (
    ("num.network.threads", 2, (0, 8, 0)),
    ("num.io.threads", 2, (0, 8, 0)),
    ("zookeeper.session.timeout.ms", 4000, (0, 8, 0)),
    ("zookeeper.connection.timeout.ms", 15000, (0, 8, 0)),
    ("replica.lag.time.max.ms", 3000, (0, 8, 0)),
    ("replica.fetch.wait.max.ms", 200, (0, 8, 0)),
    ("replica.socket.timeout.ms", 3000, (0, 8, 0)),
    ("controller.socket.timeout.ms", 3000, (0, 8, 0)),
    ("auto.create.topics.enable", False, (0, 8, 0)),
    ("auto.leader.rebalance.enable", False, (0, 8, 1)),
    ("log.cleaner.dedupe.buffer.size", 2097152, (0, 8, 1)),
    ("offsets.topic.num.partitions", 3, (0, 8, 2)),
    ("replica.fetch.backoff.ms", 200, (0, 8, 3)),
    ("request.timeout.ms", 3000, (0, 9)),
    ("group.initial.rebalance.delay.ms", 0, (0, 11)),
    ("delete.topic.enable", True, (0, 11)),
)
# Sessions may be two to twenty ticks long.
_TICK_MS: Final = 500
_ZOOKEEPER: Final[Mapping[str, Any]] = {
    "tickTime": _TICK_MS,
    "initLimit": 20,
    "syncLimit": 6,
    "maxClientCnxns": 0,
    "admin.enableServer": False,
}
# Until 3.4 a server wants log4j's JMX beans, and reload4j has none.
_NO_LOG4J_BEANS: Final = ("-Dzookeeper.jmx.log4j.disable=true",)


def specs(plan: KafkaPlan, made: Ingredients, addresses: Mapping[str, str]) -> list[NodeSpec]:
    """Every node with its files."""
    version = made.image.version or plan.target.version or DEFAULT_VERSION
    return [
        _spec(name, plan, made, version, addresses)
        for name in sorted(node_ids(plan), key=lambda name: (name[0] != "z", name))
    ]


def _spec(
    name: str, plan: KafkaPlan, made: Ingredients, version: str, addresses: Mapping[str, str]
) -> NodeSpec:
    release = release_line(version)
    if name.startswith("z"):
        role, main, config = "zookeeper", release.zookeeper_class, "zoo.cfg"
        files = zookeeper_files(name, plan, addresses)
    else:
        role, main, config = "broker", release.broker_class, "server.properties"
        files = {config: server_properties(name, plan, release, version, addresses)}
    ports = {"zookeeper": PORTS, "broker": (BROKER_PORT,)}[role]
    return NodeSpec(
        name=name,
        roles=with_rack(frozenset({role}), name, plan),
        argv=release.process(
            main,
            config=f"{NODE_DATA}/{config}",
            log_config=f"{NODE_DATA}/{release.log_file}",
            log_folder=f"{NODE_DATA}/{LOGS}",
            heap_mb=plan.target.memory_mb // 2,
            flags=_NO_LOG4J_BEANS if role == "zookeeper" else (),
        ),
        files={**files, release.log_file: release.log_config.encode(), f"{LOGS}/server.log": b""},
        mounts=made.mounts,
        memory_mb=plan.target.memory_mb,
        ports=ports,
    )


def server_properties(
    name: str, plan: KafkaPlan, release: ReleaseLine, version: str, addresses: Mapping[str, str]
) -> bytes:
    """server.properties of one broker: our defaults, the plan's settings, what ackloss owns."""
    number, address = number_of(version), addresses[name]
    servers = [addresses[n] for n in node_ids(plan) if n.startswith("z")]
    owned: dict[str, Any] = {
        "broker.id": node_ids(plan)[name],
        "log.dirs": DATA,
        "zookeeper.connect": ",".join(f"{server}:{CLIENT_PORT}" for server in servers),
    }
    if release.host_keys:
        owned |= {"host.name": address, "port": BROKER_PORT}
    else:
        here = f"PLAINTEXT://{address}:{BROKER_PORT}"
        owned |= {"listeners": here, "advertised.listeners": here}
    if (rack := rack_of(name, plan)) and number >= (0, 10):
        owned["broker.rack"] = rack
    return properties({**defaults(plan, version), **plan.target.settings, **owned})


def defaults(plan: KafkaPlan, version: str) -> dict[str, Any]:
    """What ackloss sets in this version unless the plan does."""
    number = number_of(version)
    known = {key: value for key, value, since in DEFAULTS if number >= since}
    if "offsets.topic.num.partitions" in known:
        known["offsets.topic.replication.factor"] = min(3, plan.target.brokers)
    return known


def zookeeper_files(name: str, plan: KafkaPlan, addresses: Mapping[str, str]) -> dict[str, bytes]:
    """zoo.cfg of one server, and its number if there are several."""
    servers = [n for n in node_ids(plan) if n.startswith("z")]
    ensemble = [Server(number=int(n[1:]), address=addresses[n]) for n in servers]
    return server_files(int(name[1:]), ensemble, _ZOOKEEPER)

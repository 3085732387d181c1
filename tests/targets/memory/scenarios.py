"""Faults at random instants, by name: each a function of a world that has just been loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.faults.records import DiskRecord, NetRecord, PauseRecord, Peer, ProcessRecord
from harness.protocols import Act
from targets.memory.plan import CONTROLLER
from tests.targets.memory.world import LOAD_FROM_NS, LOAD_UNTIL_NS, MS, World

Scenario = Callable[[World], None]


def calm(world: World) -> None:
    """No fault."""


def pauses(world: World) -> None:
    _often(world, _pause)


def kills(world: World) -> None:
    _often(world, _kill)


def partitions(world: World) -> None:
    _often(world, _cut)


def lossy(world: World) -> None:
    """All links of all replicas lose messages for a while, and a leader is paused meanwhile."""
    for name in world.settings.names:
        peers = [*world.settings.names, CONTROLLER, "clients"]
        act = _net(name, [peer for peer in peers if peer != name], share=0.15, direction="in")
        world.at(600 * MS, world.fault, act, 600 * MS, 1_400 * MS)
    _often(world, _pause)


def power(world: World) -> None:
    _often(world, _lose_power)


def wipe(world: World) -> None:
    """One replica loses its disk, and others die before and after."""
    at_ns = world.draw.randrange(LOAD_FROM_NS + 300 * MS, LOAD_UNTIL_NS - 300 * MS)
    world.at(at_ns, _wipe, world)
    _often(world, _kill)


def reachable_leader(world: World) -> None:
    """A leader that its peers and the controller do not reach; clients do."""
    _often(world, _isolate_leader)


def lagging(world: World) -> None:
    """A follower that its leader does not reach, and soon the leader dies."""
    _often(world, _let_lag_then_kill)


def storm(world: World) -> None:
    """All of it, overlapping, the controller too."""
    for _ in range(2):
        _often(world, lambda world: world.draw.choice([_pause, _kill, _cut, _lose_power])(world))
    at_ns = world.draw.randrange(LOAD_FROM_NS, LOAD_UNTIL_NS)
    act = Act("process", ProcessRecord(node=CONTROLLER, signal="KILL", pid=1))
    world.at(at_ns, world.fault, act, at_ns, 200 * MS)


SCENARIOS: dict[str, Scenario] = {
    "calm": calm,
    "pauses": pauses,
    "kills": kills,
    "partitions": partitions,
    "lossy": lossy,
    "power": power,
    "wipe": wipe,
    "reachable-leader": reachable_leader,
    "lagging": lagging,
    "storm": storm,
}


def _often(world: World, fault: Callable[[World], None]) -> None:
    """A fault every 0.35 to 0.75 s: by then the last one has mostly led to a new leader."""
    at_ns = LOAD_FROM_NS + world.draw.randrange(50, 300) * MS
    while at_ns < LOAD_UNTIL_NS:
        world.at(at_ns, fault, world)
        at_ns += world.draw.randrange(350, 750) * MS


def _for_ns(world: World) -> int:
    return world.draw.randrange(100, 700) * MS


def _victim(world: World) -> str:
    """Mostly the leader."""
    return world.leader() if world.draw.random() < 0.7 else world.draw.choice(world.settings.names)


def _now(world: World) -> int:
    return world.cluster.simulation.now_ns


def _pause(world: World) -> None:
    node = world.cluster.nodes[_victim(world)]
    act = Act("pause", PauseRecord(node=node.name, pid=node.pid()))
    world.fault(act, _now(world), _for_ns(world))


def _kill(world: World) -> None:
    act = _killed(world, _victim(world))
    world.fault(act, _now(world), _for_ns(world))


def _killed(world: World, name: str) -> Act:
    pid = world.cluster.nodes[name].pid()
    return Act("process", ProcessRecord(node=name, signal="KILL", pid=pid))


def _lose_power(world: World) -> None:
    _damage(world, "unsynced", _for_ns(world))


def _wipe(world: World) -> None:
    _damage(world, "wipe", world.draw.randrange(20, 300) * MS)


def _damage(world: World, form: Any, for_ns: int) -> None:
    node = world.cluster.nodes[_victim(world)]
    record = DiskRecord(
        node=node.name,
        signal="KILL",
        pid=node.pid(),
        form=form,
        folders=("data/[!_]*-[0-9]*",),
        keep_share="random",
    )
    world.fault(Act("disk", record), _now(world), for_ns)


def _cut(world: World) -> None:
    name, draw = _victim(world), world.draw
    everybody = [*world.settings.names, CONTROLLER]
    peers = [peer for peer in everybody if peer != name]
    if draw.random() < 0.3:
        peers = draw.sample(peers, draw.randrange(1, len(peers) + 1))
    direction = draw.choice(["in", "out", "both", "both"])
    world.fault(_net(name, peers, direction=direction), _now(world), _for_ns(world))


def _isolate_leader(world: World) -> None:
    name = world.leader()
    peers = [peer for peer in [*world.settings.names, CONTROLLER] if peer != name]
    for_ns = world.draw.randrange(400, 800) * MS
    world.fault(_net(name, peers), _now(world), for_ns)


def _let_lag_then_kill(world: World) -> None:
    leader, now_ns = world.leader(), _now(world)
    name = world.draw.choice([name for name in world.settings.names if name != leader])
    others = [other for other in world.settings.names if other != name]
    world.fault(_net(name, others), now_ns, 330 * MS)
    act = _killed(world, leader)
    world.at(now_ns + 250 * MS, world.fault, act, now_ns + 250 * MS, 450 * MS)


def _net(name: str, peers: list[str], **how: Any) -> Act:
    return Act("net", NetRecord(node=name, peers=tuple(Peer(name=peer) for peer in peers), **how))

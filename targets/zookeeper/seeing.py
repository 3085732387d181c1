"""Who leads, as one server alone shows it.

A server reports by `srvr` whether it leads, follows or observes, and has its epoch on its disk
(`currentEpoch`). No word names its leader, or the followers of a leader. But a follower holds one
connection to port 2888 of its leader, so the node's table of connections names them. A leader also
counts the followers that are in sync (`mntr`): if that differs from the number of connected
followers, it is not known which they are, and only the leader itself is shown as a member. A
follower does not know how many are in sync, nor does a leader that does not report it.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.faults.own_traffic import NoAnswer
from harness.protocols import NODE_DATA, Node, NodeView, PartitionView
from targets.zookeeper import words
from targets.zookeeper.configuration import DATA, PEER_PORT
from targets.zookeeper.layout import ADDRESSES
from targets.zookeeper.plan import ZooKeeperPlan

_ESTABLISHED: Final = "01"
_CONNECTION: Final = re.compile(
    r"(?m)^ *\d+: ([0-9A-F]{8}):([0-9A-F]{4}) ([0-9A-F]{8}):([0-9A-F]{4}) ([0-9A-F]{2}) "
)
_FILES: Final = (f"{NODE_DATA}/{ADDRESSES}", f"{DATA}/version-2/currentEpoch", "/proc/net/tcp")
_SHOW: Final = ["tail", "-n", "+1", *_FILES]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a node's files show: its epoch, its leader and its followers by their connections."""

    epoch: int | None
    leaders: tuple[str, ...]
    followers: tuple[str, ...]


def observe(node: Node, plan: ZooKeeperPlan, *, timeout_s: float) -> NodeView | None:
    """A server's own view; `None` if it does not answer. Without a quorum it has no leader."""
    try:
        status = words.status(words.ask(node.address, "srvr", timeout_s=timeout_s))
        leads = status.mode in (words.LEADER, words.STANDALONE)
        figures = words.ask(node.address, "mntr", timeout_s=timeout_s) if leads else ""
    except NoAnswer:
        return None
    shown = shown_by(node.admin(_SHOW, timeout_s=timeout_s).output)
    return view(node.name, plan, status, words.figures(figures), shown)


def view(
    name: str,
    plan: ZooKeeperPlan,
    status: words.Status,
    figures: Mapping[str, str],
    shown: Shown,
) -> NodeView:
    """The view of a server with this status. `figures` are those of a leader."""
    epoch = status.epoch if shown.epoch is None else shown.epoch
    leader: str | None = None
    members: tuple[str, ...] = ()
    unnamed: int | None = None
    if status.mode == words.STANDALONE:
        leader, members, unnamed = name, (name,), 0
    elif status.mode == words.LEADER:
        followers, unnamed = _in_sync(plan, figures, shown)
        leader, members = name, (name, *followers)
    elif status.mode is not None and len(shown.leaders) == 1:
        leader = shown.leaders[0]
    seen = PartitionView(
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        members=tuple(sorted(members)),
        replicas=voters(plan),
        unnamed=unnamed,
    )
    return NodeView(answered_by=name, partitions=(seen,), authority=leader == name)


def voters(plan: ZooKeeperPlan) -> tuple[str, ...]:
    """The servers with a vote."""
    return tuple(f"z{number}" for number in range(1, plan.ensemble.servers + 1))


def _in_sync(
    plan: ZooKeeperPlan, figures: Mapping[str, str], shown: Shown
) -> tuple[tuple[str, ...], int | None]:
    """The followers with a vote that are in sync, or else how many, as far as either is known."""
    connected = tuple(sorted(set(shown.followers) & set(voters(plan))))
    synced = figures.get("synced_followers", "").partition(".")[0]
    if synced == str(len(connected)):
        return connected, 0
    return (), int(synced) if synced.isdecimal() else None


def shown_by(output: str) -> Shown:
    """From the contents of the three files, each after a line with its name."""
    parts = dict(re.findall(r"(?ms)^==> (\S+) <==\n(.*?)(?=^==> |\Z)", output))
    addresses, epoch, connections = (parts.get(file, "") for file in _FILES)
    names = {address: name for name, address in re.findall(r"(?m)^(\S+) (\S+)$", addresses)}
    leaders, followers = set(), set()
    for _, here, there, port, state in _CONNECTION.findall(connections):
        if state != _ESTABLISHED or (peer := names.get(_address(there))) is None:
            continue
        if int(port, 16) == PEER_PORT:
            leaders.add(peer)
        elif int(here, 16) == PEER_PORT:
            followers.add(peer)
    number = epoch.strip()
    return Shown(
        epoch=int(number) if number.isdigit() else None,
        leaders=tuple(sorted(leaders)),
        followers=tuple(sorted(followers)),
    )


def _address(hexadecimal: str) -> str:
    """An IPv4 address as the kernel writes it: a number in the byte order of the machine."""
    return socket.inet_ntoa(struct.pack("=I", int(hexadecimal, 16)))

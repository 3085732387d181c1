"""Who leads, as one server alone shows it.

A server reports by `srvr` whether it leads, follows or observes, and has its epoch on its disk
(`currentEpoch`). No word names its leader, or the followers of a leader. But a follower holds one
connection to port 2888 of its leader, so the node's table of connections names them. A leader also
counts the followers that are in sync (`mntr`): if that differs from the number of connected
followers, it is not known which they are, and only the leader itself is shown as a member. A
follower does not know how many are in sync, nor does a leader that does not report it.

Words have four letters: a server answers one and closes the connection. Without a quorum it answers
`srvr`, `mntr` and `conf` with one sentence: it is not serving requests.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.faults.own_traffic import NoAnswer, own_connection
from harness.protocols import NODE_DATA, Node, NodeView, PartitionView
from harness.servers import ADDRESSES
from targets.zookeeper.configuration import CLIENT_PORT, DATA, PEER_PORT
from targets.zookeeper.plan import ZooKeeperPlan

LEADER, FOLLOWER, OBSERVER, STANDALONE = "leader", "follower", "observer", "standalone"
_SERVING: Final = frozenset({LEADER, FOLLOWER, OBSERVER, STANDALONE})
_EPOCH_BITS: Final = 32
_NOT_SERVING: Final = "not currently serving requests"
_NOT_ALLOWED: Final = "is not executed because it is not in the whitelist"


@dataclass(frozen=True, kw_only=True)
class Status:
    """A server's mode, and the last transaction that it has applied, whose upper half is an epoch.
    `mode` is `None` for a server without a quorum, which reports nothing else."""

    mode: str | None
    zxid: int = 0
    nodes: int = 0
    version: str = ""

    @property
    def epoch(self) -> int:
        """The epoch of its last transaction."""
        return self.zxid >> _EPOCH_BITS


def ask_word(address: str, word: str, *, timeout_s: float) -> str:
    """A server's answer to a word. Raises NoAnswer."""
    deadline = time.monotonic() + timeout_s
    received = b""
    try:
        with own_connection(address, CLIENT_PORT, timeout_s=timeout_s) as connection:
            connection.sendall(word.encode())
            while True:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                part = connection.recv(65536)
                if not part:
                    break
                received += part
    except OSError as error:
        raise NoAnswer(f"{address}:{CLIENT_PORT}: {error}") from error
    answer = received.decode(errors="replace")
    if not answer or _NOT_ALLOWED in answer:
        raise NoAnswer(f"{address}:{CLIENT_PORT}: no answer to {word}")
    return answer


def is_serving(answer: str) -> bool:
    """Whether an answer is from a server with a quorum."""
    return _NOT_SERVING not in answer


def status_of(answer: str) -> Status:
    """The answer to `srvr`. Raises NoAnswer for anything else."""
    if not is_serving(answer):
        return Status(mode=None)
    found = dict(re.findall(r"(?m)^([A-Z][\w ]*): (.*)$", answer))
    try:
        mode, zxid = found["Mode"].strip(), int(found["Zxid"], 16)
        nodes = int(found.get("Node count", 0))
    except (KeyError, ValueError) as error:
        raise NoAnswer(f"srvr was answered by {answer[:80]!r}") from error
    if mode not in _SERVING:
        return Status(mode=None)
    version = found.get("Zookeeper version", "").partition("-")[0]
    return Status(mode=mode, zxid=zxid, nodes=nodes, version=version)


def figures_of(answer: str) -> Mapping[str, str]:
    """The answer to `mntr`: figures by name, without `zk_`; none of a server without a quorum."""
    return dict(re.findall(r"(?m)^zk_(\S+)\t(.*)$", answer))


def settings_of(answer: str) -> Mapping[str, str]:
    """The answer to `conf`: settings by name, as the server uses them."""
    return dict(re.findall(r"(?m)^([A-Za-z][\w.]*)=(.*?)\r?$", answer))


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
        status = status_of(ask_word(node.address, "srvr", timeout_s=timeout_s))
        leads = status.mode in (LEADER, STANDALONE)
        figures = ask_word(node.address, "mntr", timeout_s=timeout_s) if leads else ""
    except NoAnswer:
        return None
    shown = shown_by(node.admin(_SHOW, timeout_s=timeout_s).output)
    return view(node.name, plan, status, figures_of(figures), shown)


def view(
    name: str,
    plan: ZooKeeperPlan,
    status: Status,
    figures: Mapping[str, str],
    shown: Shown,
) -> NodeView:
    """The view of a server with this status. `figures` are those of a leader."""
    epoch = status.epoch if shown.epoch is None else shown.epoch
    leader: str | None = None
    members: tuple[str, ...] = ()
    unnamed: int | None = None
    if status.mode == STANDALONE:
        leader, members, unnamed = name, (name,), 0
    elif status.mode == LEADER:
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

"""Queries one ZooKeeper server, and no other: what it reports about itself is evidence, and who
leads, as one server alone shows it.

kazoo's client reconnects by itself, to any remaining server, for as long as it exists; an observer
needs an answer from the server that it names, or none. Encoding is kazoo's; the socket is ours.
Each thread keeps a session for each server and creates it again when it is lost.

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
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kazoo.exceptions import ConnectionClosedError, NodeExistsError, NoNodeError, ZookeeperError
from kazoo.protocol.serialization import Connect, Create, Delete, GetChildren, GetData, ReplyHeader
from kazoo.security import OPEN_ACL_UNSAFE

from harness.faults.own_traffic import NoAnswer, own_connection
from harness.protocols import NODE_DATA, Node, NodeView, PartitionView
from harness.servers import ADDRESSES
from targets.zookeeper.configuration import CLIENT_PORT, DATA, PEER_PORT, ZooKeeperPlan

_SESSION_MS: Final = 10_000
_ANY_VERSION: Final = -1
_LENGTH: Final = struct.Struct(">i")
_TWO: Final = struct.Struct(">ii")
_LOST: Final = (OSError, struct.error, ConnectionClosedError)
_EXCEPTIONS: Final = {NodeExistsError.code: NodeExistsError, NoNodeError.code: NoNodeError}


class _Session:
    """A connection to one server with its own session."""

    def __init__(self, address: str, deadline: float) -> None:
        self._socket = own_connection(address, CLIENT_PORT, timeout_s=left_s(deadline))
        weakref.finalize(self, self._socket.close)
        self._last = 0
        hello = Connect(0, 0, _SESSION_MS, 0, b"\x00" * 16, False)
        self._send(bytes(hello.serialize()))
        self._receive(deadline)

    def ask(self, request: Any, deadline: float) -> Any:
        """Raises what `_LOST` names, or what the server answers, such as NoNodeError."""
        self._last += 1
        self._send(_TWO.pack(self._last, request.type) + bytes(request.serialize()))
        while True:
            answer = self._receive(deadline)
            header, offset = ReplyHeader.deserialize(answer, 0)
            if header.xid != self._last:
                continue
            if header.err:
                raise _EXCEPTIONS.get(header.err, ZookeeperError)(f"error {header.err}")
            return request.deserialize(answer, offset)

    def _send(self, body: bytes) -> None:
        self._socket.sendall(_LENGTH.pack(len(body)) + body)

    def _receive(self, deadline: float) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline))
        return self._exactly(length, deadline)

    def _exactly(self, size: int, deadline: float) -> bytes:
        received = b""
        while len(received) < size:
            self._socket.settimeout(left_s(deadline))
            if not (part := self._socket.recv(size - len(received))):
                raise ConnectionClosedError("the server closed the connection")
            received += part
        return received


class _Sessions(threading.local):
    """The sessions of one thread, by address."""

    def __init__(self) -> None:
        self.of: dict[str, _Session] = {}


_sessions: Final = _Sessions()


def ask(address: str, request: Any, *, timeout_s: float) -> Any:
    """One request to one server. Raises NoAnswer, or the server's own refusal (ZookeeperError)."""
    deadline = time.monotonic() + timeout_s
    kept = address in _sessions.of
    try:
        if not kept:
            _sessions.of[address] = _Session(address, deadline)
        return _sessions.of[address].ask(request, deadline)
    except _LOST as error:
        _sessions.of.pop(address, None)
        if kept and time.monotonic() < deadline:  # perhaps it expired between two queries
            return ask(address, request, timeout_s=left_s(deadline))
        raise NoAnswer(f"{address}:{CLIENT_PORT}: {error}") from error


def get(address: str, path: str, *, timeout_s: float) -> bytes | None:
    """A znode's data; null if there is no such znode."""
    with suppress(NoNodeError):
        data, _ = _answer(address, GetData(path, None), timeout_s)
        return bytes(data or b"")
    return None


def children(address: str, path: str, *, timeout_s: float) -> Sequence[str]:
    """The names of a znode's children; none if there is no such znode."""
    with suppress(NoNodeError):
        return list(_answer(address, GetChildren(path, None), timeout_s))
    return []


def create(address: str, path: str, data: bytes, *, timeout_s: float) -> None:
    """Create a znode, and its parents if they are missing. An existing one is left unchanged."""
    try:
        _answer(address, Create(path, data, OPEN_ACL_UNSAFE, 0), timeout_s)
    except NodeExistsError:
        return
    except NoNodeError:
        create(address, path.rpartition("/")[0], b"", timeout_s=timeout_s)
        create(address, path, data, timeout_s=timeout_s)


def delete(address: str, path: str, *, timeout_s: float) -> None:
    """Delete a znode, if it is there."""
    with suppress(NoNodeError):
        _answer(address, Delete(path, _ANY_VERSION), timeout_s)


def _answer(address: str, request: Any, timeout_s: float) -> Any:
    """What the server answers. Raises NoAnswer, also for most refusals; NoNodeError,
    NodeExistsError."""
    try:
        return ask(address, request, timeout_s=timeout_s)
    except (NoNodeError, NodeExistsError):
        raise
    except ZookeeperError as error:
        raise NoAnswer(f"{address}:{CLIENT_PORT}: {error}") from error


def left_s(deadline: float) -> float:
    """How long one may still wait, never no time at all."""
    return max(0.001, deadline - time.monotonic())


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
                connection.settimeout(left_s(deadline))
                if not (part := connection.recv(65536)):
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
    except (KeyError, ValueError) as error:
        raise NoAnswer(f"srvr was answered by {answer[:80]!r}") from error
    if mode not in _SERVING:
        return Status(mode=None)
    version = found.get("Zookeeper version", "").partition("-")[0]
    return Status(mode=mode, zxid=zxid, version=version)


def figures_of(answer: str) -> Mapping[str, str]:
    """The answer to `mntr`: figures by name, without `zk_`; none of a server without a quorum."""
    return dict(re.findall(r"(?m)^zk_(\S+)\t(.*)$", answer))


_METRICS: Final = re.compile(
    r"(?:avg|max)_latency|outstanding_requests|znode_count|watch_count|approximate_data_size"
    r"|num_alive_connections|open_file_descriptor_count|(?:synced_)?followers|learners"
    r"|pending_syncs|quorum_size|(?:cnt|sum)_(?:election_time|fsynctime|snapshottime)"
)
_SUMMARIES: Final = {"cnt": "count", "sum": "sum"}


def metrics_of(answer: str) -> Mapping[str, float]:
    """The answer to `mntr` as metrics, by the names of exporters (`zk_`...) and of ZooKeeper's
    own, which exists since 3.6. A server without a quorum has the one that exporters then have."""
    if not is_serving(answer):
        return {"zk_server_leader": 1.0}
    figures = figures_of(answer)
    found = {"zk_server_leader": float(figures.get("server_state") == LEADER)}
    for name, value in figures.items():
        if _METRICS.fullmatch(name):
            part, _, rest = name.partition("_")
            own = f"{rest}_{_SUMMARIES[part]}" if part in _SUMMARIES else name
            found |= dict.fromkeys((f"zk_{name}", own), float(value))
    return found


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
    name: str, plan: ZooKeeperPlan, status: Status, figures: Mapping[str, str], shown: Shown
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

"""What one server reports about itself by four-letter words, on its client port.

A word is sent, and the server answers and closes the connection. A server that has no quorum
answers `srvr`, `mntr` and `conf` with one sentence: it is not serving requests.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.faults.own_traffic import NoAnswer, own_connection
from targets.zookeeper.configuration import CLIENT_PORT

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


def ask(address: str, word: str, *, timeout_s: float) -> str:
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


def status(answer: str) -> Status:
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


def figures(answer: str) -> Mapping[str, str]:
    """The answer to `mntr`: figures by name, without `zk_`; none of a server without a quorum."""
    return dict(re.findall(r"(?m)^zk_(\S+)\t(.*)$", answer))


def settings(answer: str) -> Mapping[str, str]:
    """The answer to `conf`: settings by name, as the server uses them."""
    return dict(re.findall(r"(?m)^([A-Za-z][\w.]*)=(.*?)\r?$", answer))

"""One life of a Java consumer, over a real socket, with a real process at its other end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.levers.commands import poll_until
from harness.protocols.groups import KINDS, Delivery
from targets.kafka.groups.group import JavaMember

PROGRAM = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
peer, _ = server.accept()
lines = peer.makefile("rwb")
while lines.readline() != b"begin\\n":
    pass
lines.write(b'["start",1,2,"ok",null,null,null,[]]\\n')
lines.flush()
assert lines.readline() == b"leave\\n"
lines.write(b'["stop",3,4,"ok",null,null,null,[]]\\n')
lines.flush()
server.accept()
"""
SETUP = {
    "settings": {"auto.offset.reset": "earliest"},
    "topic": "t",
    "partitions": None,
    "commit": "after",
    "commit_partitions": "own",
    "batch_count": 5,
    "process_ms": 0,
}


class OwnNode:
    """A node on this machine. As one that has just started, it knows no pid at first."""

    address = "127.0.0.1"

    def __init__(self, pids_late: int = 0) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._late = pids_late

    def start(self) -> None:
        self.child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(self.port)])

    def pid(self) -> int | None:
        self._late -= 1
        return None if self._late >= 0 else self.child.pid

    def process(self) -> Any:
        code = self.child.poll()
        # as a shell says it
        exit_code = 128 - code if code is not None and code < 0 else code
        return SimpleNamespace(running=code is None, exit_code=exit_code)

    def admin(self, argv: list[str]) -> Any:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return SimpleNamespace(output=done.stdout)


class Begun:
    """A member of such a node, and what was heard of it."""

    def __init__(self, pids_late: int = 0) -> None:
        self.node, self.rows, self.lost = OwnNode(pids_late), list[Delivery](), list[int]()
        node: Any = self.node
        self.member = JavaMember(
            node,
            SETUP,
            number=1,
            life=1,
            take=self.rows.extend,
            lost=lambda: self.lost.append(1),
            port=self.node.port,
        )
        assert poll_until(lambda: bool(self.rows), within_s=10)


@pytest.fixture
def begun() -> Iterator[list[Begun]]:
    made: list[Begun] = []
    yield made
    for each in made:
        each.node.child.kill()
        each.node.child.wait()


def test_it_leaves_when_it_is_asked_to(begun: list[Begun]) -> None:
    begun.append(one := Begun())
    one.member.send(signal.SIGTERM)
    assert poll_until(lambda: one.rows[-1].f == KINDS.stop, within_s=10)
    assert (one.member.stopped, one.rows[-1].error, one.lost) == (True, None, [])


def test_one_whose_pid_is_not_known_yet_is_killed_all_the_same(begun: list[Begun]) -> None:
    begun.append(one := Begun(pids_late=3))
    began = time.monotonic()
    one.member.kill()
    assert time.monotonic() - began < 5
    assert (one.member.alive, one.node.child.poll()) == (False, -signal.SIGKILL)
    assert (one.rows[-1].f, one.rows[-1].error, one.lost) == (KINDS.stop, "SIGKILL", [])


def test_one_that_others_kill_is_said_to_be_lost(begun: list[Begun]) -> None:
    begun.append(one := Begun())
    one.node.child.kill()
    assert poll_until(lambda: one.lost == [1], within_s=10)
    assert one.rows[-1].error == "SIGKILL"

"""Limits on calls that have none: the socket of a call that waits too long is cut, and only its."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from harness.servers import limited

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        yield ours, theirs


def received(connection: socket.socket) -> bytes:
    """As a library does whose call has no limit."""
    if not (answer := connection.recv(9)):
        raise ConnectionError("server closed the connection")
    return answer


def test_a_call_that_is_never_answered_ends_in_time(pair: Pair) -> None:
    ours, theirs = pair
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"within 0\.1 s"), limited(ours.fileno, 0.1):
        received(ours)
    assert 0.1 <= time.monotonic() - began < 2
    assert theirs.recv(1) == b""  # the server sees the end, and no request to cancel


def test_a_call_that_is_answered_in_time_keeps_its_socket(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"a")
    with limited(ours.fileno, 0.05):
        assert received(ours) == b"a"
    time.sleep(0.1)
    theirs.sendall(b"b")
    assert received(ours) == b"b"


def test_a_shorter_limit_that_begins_later_ends_first(pair: Pair) -> None:
    ours, theirs = pair
    with limited(theirs.fileno, 30):
        with pytest.raises(TimeoutError), limited(ours.fileno, 0.05):
            received(ours)
        assert sum(each.name == "call-limits" for each in threading.enumerate()) == 1


def test_what_a_call_raises_in_time_is_raised_as_it_is(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(ConnectionError), limited(ours.fileno, 5):
        received(ours)


def test_a_connection_that_its_library_has_closed_is_left_alone() -> None:
    def closed() -> int:
        raise OSError("the connection is closed")

    with limited(closed, 0.02):
        time.sleep(0.1)

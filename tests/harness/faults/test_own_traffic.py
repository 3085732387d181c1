"""The harness's own connections are known by their source port."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from harness.faults import own_traffic as module
from harness.faults.own_traffic import (
    FIRST_PORT,
    LAST_PORT,
    NoAnswer,
    own_connection,
    own_port,
    own_ports,
    own_traffic,
)
from targets.kafka.brokers import ask


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_it_connects_from_a_port_of_its_own(server: socket.socket) -> None:
    for _ in range(3):
        own_connection("127.0.0.1", server.getsockname()[1], timeout_s=1).close()
        _, (_, port) = server.accept()
        assert FIRST_PORT <= port <= LAST_PORT


def test_any_librarys_connection_is_our_own_while_a_target_observes(server: socket.socket) -> None:
    address = server.getsockname()[:2]

    def port() -> int:
        http.client.HTTPConnection(*address, timeout=1).connect()
        return int(server.accept()[1][1])

    with own_traffic():
        assert FIRST_PORT <= port() <= LAST_PORT
        with ThreadPoolExecutor(1) as another:
            assert another.submit(port).result() < FIRST_PORT
    assert port() < FIRST_PORT


def test_a_port_whose_connection_is_not_over_is_left_out(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second asks for the first's port and gets the next."""
    ports = iter([FIRST_PORT + 7, FIRST_PORT + 7, FIRST_PORT + 8])
    monkeypatch.setattr(module, "own_port", lambda: next(ports))
    to = ("127.0.0.1", server.getsockname()[1])
    with own_connection(*to, timeout_s=1), own_connection(*to, timeout_s=1) as second:
        assert second.getsockname()[1] == FIRST_PORT + 8


def test_a_refusal_is_raised_as_it_is() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            own_connection("127.0.0.1", bound.getsockname()[1], timeout_s=1)


def test_ports_come_one_after_the_other_and_stay_in_the_range() -> None:
    first, second = own_port(), own_port()
    assert second == first + 1 or first == LAST_PORT
    blocks = [own_ports(100) for _ in range(80)]
    assert all(block in range(FIRST_PORT, LAST_PORT - 98) for block in blocks)
    assert sum(after == before + 100 for before, after in pairwise(blocks)) > 70, "each has its own"


def test_the_observer_asks_from_a_port_of_its_own(server: socket.socket) -> None:
    """Else a cut from clients would be proven by the harness alone."""
    server.settimeout(5)
    with pytest.raises(NoAnswer):
        ask("127.0.0.1", server.getsockname()[1], ApiVersionsRequest[0](), timeout_s=0.2)
    _, (_, port) = server.accept()
    assert FIRST_PORT <= port <= LAST_PORT

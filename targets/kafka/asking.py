"""Queries one node over Kafka's protocol, and no other node.

A client library's metadata may come from any broker it is connected to, so each node is queried
about itself on a separate connection. Encoding is kafka-python's; the socket is ours.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kafka.errors import KafkaError
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol

from harness.faults.own_traffic import NoAnswer, own_connection

_RECEIVED_BYTES: Final = 1 << 20


class Connection:
    """A connection to one node, for one question after the other; a context that ends it."""

    def __init__(self, address: str, port: int, *, timeout_s: float) -> None:
        """Connect. Raises NoAnswer."""
        self._name = f"{address}:{port}"
        self._protocol = KafkaProtocol(client_id="ackloss")
        try:
            self._socket = own_connection(address, port, timeout_s=timeout_s)
        except OSError as error:
            raise NoAnswer(f"{self._name}: {error}") from error

    def ask(self, request: Any, *, timeout_s: float) -> Any:
        """Send one request and return its decoded response. After NoAnswer it is unusable."""
        deadline = time.monotonic() + timeout_s
        try:
            self._protocol.send_request(request)
            self._socket.settimeout(timeout_s)
            self._socket.sendall(self._protocol.send_bytes())
            while True:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                received = self._socket.recv(_RECEIVED_BYTES)
                if not received:
                    raise NoAnswer(f"{self._name} closed the connection")
                for _, response in self._protocol.receive_bytes(received):
                    return response
        except (OSError, KafkaError, ValueError) as error:
            raise NoAnswer(f"{self._name}: {error}") from error

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ask(address: str, port: int, request: Any, *, timeout_s: float) -> Any:
    """Send one request and return its decoded response. Raises NoAnswer."""
    deadline = time.monotonic() + timeout_s
    with Connection(address, port, timeout_s=timeout_s) as connection:
        return connection.ask(request, timeout_s=max(0.001, deadline - time.monotonic()))


@dataclass
class Connections:
    """One kept connection to each node that is queried; a context that ends them.

    Requests have the highest version that both sides know, or their own `max_version`. `speaks`:
    the protocol of nodes that do not report it (before 0.10).
    """

    addresses: Mapping[str, str]
    port: int
    speaks: tuple[int, ...] | None = None
    _kept: dict[str, tuple[Connection, BrokerVersionData]] = field(default_factory=dict)

    def ask(self, node: str, request: Any, *, timeout_s: float) -> Any:
        """Query a node. Raises NoAnswer; the next query uses a new connection."""
        deadline = time.monotonic() + timeout_s
        try:
            if node not in self._kept:
                self._kept[node] = self._opened(node, timeout_s)
            connection, versions = self._kept[node]
            request.API_VERSION = versions.api_version(request)
            return connection.ask(request, timeout_s=max(0.001, deadline - time.monotonic()))
        except (NoAnswer, KafkaError) as error:
            if kept := self._kept.pop(node, None):
                kept[0].close()
            raise NoAnswer(str(error)) from error

    def _opened(self, node: str, timeout_s: float) -> tuple[Connection, BrokerVersionData]:
        connection = Connection(self.addresses[node], self.port, timeout_s=timeout_s)
        if self.speaks is not None:
            return connection, BrokerVersionData(self.speaks)
        try:
            answer = connection.ask(ApiVersionsRequest[0](), timeout_s=timeout_s)
        except NoAnswer:
            connection.close()
            raise
        versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        return connection, BrokerVersionData(api_versions=versions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection, _versions in self._kept.values():
            connection.close()

"""Asks one node one question over Kafka's protocol, and no other node.

A client library's metadata may come from any broker it is connected to, so what a node says of
itself is asked on a connection of its own. Encoding is kafka-python's; the socket is ours.
"""

from __future__ import annotations

import time
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.parser import KafkaProtocol

from harness.faults.own_traffic import NoAnswer, own_connection


def ask(address: str, port: int, request: Any, *, timeout_s: float) -> Any:
    """Send one request and return its decoded response. Raises NoAnswer."""
    protocol = KafkaProtocol(client_id="ackloss")
    deadline = time.monotonic() + timeout_s
    try:
        with own_connection(address, port, timeout_s=timeout_s) as connection:
            protocol.send_request(request)
            connection.sendall(protocol.send_bytes())
            while True:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                received = connection.recv(65536)
                if not received:
                    raise NoAnswer(f"{address}:{port} closed the connection")
                for _, response in protocol.receive_bytes(received):
                    return response
    except (OSError, KafkaError, ValueError) as error:
        raise NoAnswer(f"{address}:{port}: {error}") from error

"""A client of the toy store: what its target and its lever request."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ackloss.plugins import OK, BlockingClient, Completion, Invoke, completion

PORT = 7777


@dataclass
class Connection(BlockingClient):
    """One operation at a time, over a connection to each node that it has spoken to."""

    addresses: list[str]
    files: dict[str, Any] = field(default_factory=dict)

    def ask(self, address: str, question: Mapping[str, Any]) -> dict[str, Any]:
        """Send a question to HOST or HOST:PORT and wait for its answer. Raises OSError."""
        if address not in self.files:
            host, _, port = address.partition(":")
            with socket.create_connection((host, int(port or PORT)), timeout=2) as connected:
                self.files[address] = connected.makefile("rwb")
        self.files[address].write(json.dumps(question).encode() + b"\n")
        self.files[address].flush()
        answer = self.files[address].readline()
        if not answer:
            raise ConnectionResetError
        return dict(json.loads(answer))

    def call(self, op: Invoke) -> Completion:
        """Append. What this raises ends the operation as info: nobody knows whether it happened."""
        _, value, partition, _, _ = op
        answer = self.ask(self.addresses[partition], {"append": value})
        return completion(OK, offset=answer["offset"])

    def close(self) -> None:
        """Disconnect."""
        for file in self.files.values():
            file.close()


def asked_once(address: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a server, over its own connection. Raises OSError."""
    client = Connection([address])
    try:
        return client.ask(address, question)
    finally:
        client.close()

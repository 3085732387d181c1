"""Client crashes: real clients die with everything in flight in them, and others replace them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults.records import ClientRecord
from harness.protocols import Act
from harness.protocols.crashes import ClientNemesis


@dataclass(frozen=True, kw_only=True)
class Client(ClientNemesis):
    """Crash real clients: connections drop without a flush, operations in flight are unknown.

    The processes continue with the remaining clients; while all are dead no operation begins.
    `nodes` has no meaning here. To cut clients off, use a partition with `peers = "clients"`.

    clients   one (drawn from the seed), all, or numbers from 1 to workload.clients
    replaced  heal: a new client takes its place when the fault is healed; at-once: immediately
    """

    plugin: ClassVar[str] = "client"

    clients: Literal["one", "all"] | tuple[int, ...] = "one"
    replaced: Literal["heal", "at-once"] = "heal"

    def __post_init__(self) -> None:
        if isinstance(self.clients, tuple) and (
            not self.clients or min(self.clients) < 1 or len(set(self.clients)) < len(self.clients)
        ):
            raise ValueError("clients is one, all or different numbers, 1 or greater")

    @property
    def lasts(self) -> bool:
        return self.replaced == "heal"

    def client_acts(self, clients: Sequence[str], draw: random.Random) -> list[Act]:
        """One act per client that crashes."""
        at_once = self.replaced == "at-once"
        return [
            Act(
                "client",
                ClientRecord(node=clients[number - 1], client=number, at_once=at_once),
            )
            for number in self._numbers(len(clients), draw)
        ]

    def _numbers(self, count: int, draw: random.Random) -> Sequence[int]:
        if self.clients == "one":
            return [draw.randint(1, count)]
        if self.clients == "all":
            return range(1, count + 1)
        numbers = tuple(self.clients)
        if max(numbers) > count:
            raise ValueError(f"there is no client {max(numbers)}: workload.clients is {count}")
        return numbers

"""Faults of clients, which meet no node: producers crash with everything in flight in them, and
consumers of a group crash, pause, leave and join."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults.records import ClientRecord, ConsumerRecord
from harness.protocols import Act
from harness.protocols.faults import ClientNemesis
from harness.protocols.groups import CONSUMERS_MOST, consumer_name


@dataclass(frozen=True, kw_only=True)
class Client(ClientNemesis):
    """Crash real clients: connections drop without a flush, operations in flight are unknown.

    The processes continue with the remaining clients. `nodes` has no meaning here.

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
            Act("client", ClientRecord(node=clients[number - 1], client=number, at_once=at_once))
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


@dataclass(frozen=True, kw_only=True)
class Consumer(ClientNemesis):
    """Crash, pause, remove or add consumers of the group; `nodes` has no meaning here.

    action     crash: SIGKILL, healed by a new one; pause: SIGSTOP, healed by SIGCONT; leave: it
               commits as configured and leaves, healed by a new one; join: another one joins,
               healed when it leaves
    consumers  one (drawn from the seed), all, or numbers; those that join are numbered after the
               last of the group
    """

    plugin: ClassVar[str] = "consumer"
    meets: ClassVar[str] = "consumers"

    action: Literal["crash", "pause", "leave", "join"] = "crash"
    consumers: Literal["one", "all"] | tuple[int, ...] = "one"

    def __post_init__(self) -> None:
        given = self.consumers
        if isinstance(given, tuple):
            if not given or min(given) < 1 or len(set(given)) < len(given):
                raise ValueError("consumers is one, all or different numbers, 1 or greater")
        elif self.action == "join" and given == "all":
            raise ValueError('consumers is "all", but all are there: say which numbers join')

    def client_acts(self, clients: Sequence[str], draw: random.Random) -> list[Act]:
        """One act a consumer."""
        return [
            Act(
                "consumer",
                ConsumerRecord(node=consumer_name(number), consumer=number, action=self.action),
            )
            for number in self._numbers(len(clients), draw)
        ]

    def _numbers(self, count: int, draw: random.Random) -> Sequence[int]:
        joins = self.action == "join"
        if self.consumers == "one":
            return [count + 1] if joins else [draw.randint(1, count)]
        if self.consumers == "all":
            return range(1, count + 1)
        for number in self.consumers:
            if joins and not count < number <= CONSUMERS_MOST:
                raise ValueError(
                    f"consumer {number} cannot join: the group has 1 to {count}; "
                    f"use {count + 1} to {CONSUMERS_MOST}"
                )
            if not joins and number > count:
                raise ValueError(f"there is no consumer {number}: members_count is {count}")
        return self.consumers

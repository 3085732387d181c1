"""What consumers of a group do to it: they crash, pause, leave and join."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults.records import ConsumerRecord
from harness.protocols import Act
from harness.protocols.crashes import ClientNemesis
from harness.protocols.groups import CONSUMERS_MOST, consumer_name


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

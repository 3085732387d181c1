"""Transactions on logs: what a workload asks for, and what a target's clients need to know of it.

Operations are of the model `transaction`; what they are to do and did: `harness.models.micro_ops`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
Isolation = Literal["read_committed", "read_uncommitted"]

ABORTED: Final = "aborted"
"""The error of a transaction that was aborted as its workload asked for."""

NOT_AT_END: Final = "not-at-the-end"
"""The error of a read to the end that met no end in time, such as behind an open transaction."""


@dataclass(frozen=True, kw_only=True)
class TransactionSettings:
    """What transactions and readers do; a workload that has them is of the model `transaction`.

    readers_count  processes that poll all logs; the others send (one at least does)
    sends_count    sends of a transaction, at most; it has one at least
    keys_count     logs that a transaction sends to, at most
    abort_share    the share of transactions that are aborted after their sends
    pause_ms       wait after each send, so that faults meet more transactions that are open
    isolation      read_committed: readers are to get what has committed; read_uncommitted:
                   everything
    """

    readers_count: int = 2
    sends_count: int = 4
    keys_count: int = 3
    abort_share: float = 0.1
    pause_ms: float = 0.0
    isolation: Isolation = READ_COMMITTED

    def __post_init__(self) -> None:
        for name, least in {"readers_count": 0, "sends_count": 1, "keys_count": 1}.items():
            if not least <= (number := getattr(self, name)) <= 1000:
                raise ValueError(f"{name} is {number}; use {least} to 1000")
        if not 0 <= self.abort_share < 1:
            raise ValueError(f"abort_share is {self.abort_share:g}; use 0 to less than 1")
        if not 0 <= self.pause_ms <= 10_000:
            raise ValueError(f"pause_ms is {self.pause_ms:g}; use 0 to 10000")


def isolated(plan: Mapping[str, Any]) -> bool:
    """Whether the readers of a stored plan (plan.json) get only what has committed."""
    options = plan["workload"].get("options") or {}
    return bool(options.get("isolation", READ_COMMITTED) == READ_COMMITTED)

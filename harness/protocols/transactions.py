"""Transactions on logs: what a workload requests, and what a target's clients need to know of it.

Operations are of the model `transaction`; what they are to do and did: `harness.models.micro_ops`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
BOTH: Final = "both"
Isolation = Literal["both", "read_committed", "read_uncommitted"]
Offsets = Literal["transaction", "before", "after"]

TOPICS_AT_MOST: Final = 4

ABORTED: Final = "aborted"
"""The error of a transaction that was aborted because its workload requested it."""

CRASHED: Final = "crashed"
"""The error of a transaction whose process crashed because its workload requested it."""

TAKEN_OVER: Final = "taken-over"
"""The error of a transaction whose commit was requested after another instance of its producer had
taken over, and was not acknowledged."""

NOT_AT_END: Final = "not-at-the-end"
"""The error of a read to the end that did not reach the end in time, for example because of an open
transaction."""


@dataclass(frozen=True, kw_only=True)
class TransactionSettings:
    """What transactions and readers do; a workload that has them is of the model `transaction`, and
    its docstring says what each is for."""

    readers_count: int = 2
    processors_count: int = 0
    topics_count: int = 1
    sends_count: int = 4
    inputs_count: int = 10
    keys_count: int = 3
    offsets: Offsets = "transaction"
    abort_share: float = 0.1
    fence_share: float = 0.0
    crash_share: float = 0.0
    pause_ms: float = 0.0
    isolation: Isolation = BOTH

    def __post_init__(self) -> None:
        counts = {"readers": 0, "processors": 0, "sends": 1, "inputs": 1, "keys": 1}
        for name, least in counts.items():
            if not least <= (number := getattr(self, f"{name}_count")) <= 1000:
                raise ValueError(f"{name}_count is {number}; use {least} to 1000")
        if not 1 <= self.topics_count <= TOPICS_AT_MOST:
            raise ValueError(f"topics_count is {self.topics_count}; use 1 to {TOPICS_AT_MOST}")
        if self.processors_count and self.topics_count == 1:
            raise ValueError(
                f"processors_count is {self.processors_count}, and there is no other topic than "
                "the one they consume; use topics_count = 2 or more"
            )
        if self.offsets != "transaction" and not self.processors_count:
            raise ValueError(f'offsets is "{self.offsets}", and there are no processors')
        shares = {name: getattr(self, f"{name}_share") for name in ("abort", "fence", "crash")}
        for name, share in shares.items():
            if not 0 <= share < 1:
                raise ValueError(f"{name}_share is {share:g}; use 0 to less than 1")
        if sum(shares.values()) >= 1:
            raise ValueError(
                "abort_share, fence_share and crash_share leave no complete transaction"
            )
        if not 0 <= self.pause_ms <= 10_000:
            raise ValueError(f"pause_ms is {self.pause_ms:g}; use 0 to 10000")

    def dealt(self, processes: int) -> tuple[range, range]:
        """Which of so many processes consume and send, and which poll; the ones before send."""
        readers = max(1, processes - self.readers_count)
        first = max(1, readers - self.processors_count)
        return range(first, readers), range(readers, processes)

    def uncommitted(self, reader: int) -> bool:
        """Whether the reader of this number, from 0, gets what has not committed too."""
        return self.isolation == READ_UNCOMMITTED or (self.isolation == BOTH and reader % 2 == 1)

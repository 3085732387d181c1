"""Transactions on logs: what a workload requests, and what a target's clients need to know of it.

Operations are of the model `transaction`; what they are to do and did: `harness.models.micro_ops`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
BOTH: Final = "both"
Isolation = Literal["both", "read_committed", "read_uncommitted"]
Share = Annotated[float, Field(ge=0, lt=1)]
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

    readers_count: Annotated[int, Field(ge=0, le=1000)] = 2
    processors_count: Annotated[int, Field(ge=0, le=1000)] = 0
    topics_count: Annotated[int, Field(ge=1, le=TOPICS_AT_MOST)] = 1
    sends_count: Annotated[int, Field(ge=1, le=1000)] = 4
    inputs_count: Annotated[int, Field(ge=1, le=1000)] = 10
    keys_count: Annotated[int, Field(ge=1, le=1000)] = 3
    offsets: Offsets = "transaction"
    abort_share: Share = 0.1
    fence_share: Share = 0.0
    crash_share: Share = 0.0
    pause_ms: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    isolation: Isolation = BOTH

    def __post_init__(self) -> None:
        if self.processors_count and self.topics_count == 1:
            raise ValueError(
                f"processors_count is {self.processors_count}, and there is no other topic than "
                "the one they consume; use topics_count = 2 or more"
            )
        if self.offsets != "transaction" and not self.processors_count:
            raise ValueError(f'offsets is "{self.offsets}", and there are no processors')
        if self.abort_share + self.fence_share + self.crash_share >= 1:
            raise ValueError(
                "abort_share, fence_share and crash_share leave no complete transaction"
            )

    def dealt(self, processes: int) -> tuple[range, range]:
        """Which of so many processes consume and send, and which poll; the ones before send."""
        readers = max(1, processes - self.readers_count)
        first = max(1, readers - self.processors_count)
        return range(first, readers), range(readers, processes)

    def uncommitted(self, reader: int) -> bool:
        """Whether the reader of this number, from 0, gets what has not committed too."""
        return self.isolation == READ_UNCOMMITTED or (self.isolation == BOTH and reader % 2 == 1)

"""Groups of consumers, and transactions on logs: what a workload requests of them, what a target
runs, and what each consumer did.

A group distributes the partitions of a log among its *members*. Each consumer of a run is one
member at a time; it is started, may crash, and is started again: its *lives* are counted from 1.
What happened is kept in rows (`Delivery`), one table of the run folder, `deliveries/`.

Operations of transactions are of the model `transaction`; what they are to do and did:
`harness.models.micro_ops`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol

from pydantic import Field, PositiveFloat

from harness.plan import Plan
from harness.words import KINDS as KINDS
from harness.words import Delivery as Delivery

Commit = Literal["after", "before", "async", "auto"]
Action = Literal["crash", "pause", "leave", "join"]

CONSUMERS_MOST: Final = 64
"""The largest number of consumers of a group, including those that join later."""


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """What the consumers of one group do; a workload that has them is of the model `group`, and
    its docstring says what each is for."""

    members_count: Annotated[int, Field(ge=1, le=CONSUMERS_MOST)] = 2
    protocol: Literal["range", "cooperative-sticky", "consumer", "manual"] = "range"
    commit: Commit = "after"
    commit_partitions: Literal["own", "read"] = "own"
    commit_interval_s: PositiveFloat | None = None
    reset: Literal["earliest", "latest"] = "earliest"
    batch_count: Annotated[int, Field(ge=1, le=10_000)] = 50
    process_ms: Annotated[float, Field(ge=0, le=60_000)] = 2.0
    session_s: Annotated[float, Field(ge=0.1, le=300)] = 6.0

    def __post_init__(self) -> None:
        if self.commit != "auto" and self.commit_interval_s is not None:
            raise ValueError(
                f"commit_interval_s switches auto-commit on, but commit is {self.commit!r}; "
                'leave it out, or use commit = "auto"'
            )
        if self.commit == "auto" and self.commit_partitions != "own":
            raise ValueError(
                f"commit_partitions is {self.commit_partitions!r}, but with auto-commit the "
                "library chooses; leave it out, or use another commit"
            )

    @property
    def interval_s(self) -> float:
        """How often auto-commit commits."""
        return 1.0 if self.commit_interval_s is None else self.commit_interval_s


Record = Callable[[Sequence[Delivery]], None]
"""Takes rows as they happen, from any thread."""


@dataclass(frozen=True, kw_only=True)
class ConsumerState:
    """One consumer now: the life that runs (`None`: none does), whether it is paused, the last life
    that ended, in the words of what ended it, and the faults that keep its node dead: while they do
    it cannot run."""

    life: int | None
    paused: bool = False
    ended: str = "none has ended"
    node_kept_dead_by: tuple[str, ...] = ()


class Consumers(Protocol):
    """The consumers of one group, counted from 1, during a run. What a fault requests may come from
    any thread."""

    @abstractmethod
    def start(self) -> None:
        """Begin the first life of those that are there from the start."""

    @abstractmethod
    def assigned(self) -> str | None:
        """Why not every partition has a member that reads it, or not every member has one (as far
        as there are enough); `None` when it is so."""

    @abstractmethod
    def drained(self) -> str | None:
        """Why not everything has been read and committed; `None` when each partition is."""

    @abstractmethod
    def act(self, number: int, action: Action) -> None:
        """Crash or pause a consumer, or have it leave or join."""

    @abstractmethod
    def undo(self, number: int, action: Action) -> None:
        """End what a fault requested: it resumes, is started again, or leaves."""

    @abstractmethod
    def state(self, number: int) -> ConsumerState:
        """What is there now."""

    @abstractmethod
    def close(self, timeout_s: float) -> None:
        """Have all leave, each with its positions; one that does not do so in time is ended."""

    @abstractmethod
    def committed(self, timeout_s: float) -> list[Delivery]:
        """What each node reports about the group's committed offsets: rows `final`."""


def why_unread(owners: Mapping[int, object], partitions: int) -> str | None:
    """A partition that none of the `owners`, by partition, reads; `None` if each has one."""
    missing = set(range(partitions)) - owners.keys()
    return f"nobody reads partition {min(missing)}" if missing else None


def why_unassigned(owners: Mapping[int, Hashable], partitions: int, members: int) -> str | None:
    """What `Consumers.assigned` reports about who owns which partition."""
    if (why := why_unread(owners, partitions)) is not None:
        return why
    having, wanted = len(set(owners.values())), min(members, partitions)
    return None if having >= wanted else f"{having} of {wanted} members have a partition"


def consumer_names(plan: Plan) -> list[str]:
    """The names of a plan's consumers from its start; those that join get the next numbers."""
    count = plan.workload.options.get("members_count", GroupSettings.members_count)
    return [consumer_name(number) for number in range(1, int(count) + 1)]


def consumer_name(number: int) -> str:
    """The name of a consumer, as rows and faults have it."""
    return f"consumer-{number}"


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

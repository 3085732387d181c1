"""What a plan states about the reference system: settings, and the defects that can be switched on.

Each defect is a condition that is skipped, as it was in some real system; nothing is ever corrupted
at random. Without defects, no acknowledged entry is lost and registers are linearizable, whatever
faults a minority of the replicas meets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from pydantic import Field, field_validator

from harness.plan import ClusterPlan, Plan, Slug, TargetPlan

EARLY_ACK: Final = "acknowledge-before-replication"
UNCLEAN: Final = "unclean-election"
NO_EPOCHS: Final = "truncate-without-epochs"
STALE_READS: Final = "stale-reads"
LOOSE_CAS: Final = "non-atomic-cas"
FORGETFUL: Final = "lost-write-on-failover"
DUPLICATES: Final = "duplicate-on-retry"
ROLLBACK: Final = "acknowledged-then-rolled-back"
EARLY_COMMIT: Final = "commit-before-replication"
FORGOTTEN: Final = "forgotten-commits"
ZOMBIES: Final = "stale-generation-commits"
UNCOMMITTED: Final = "deliver-uncommitted"
UNORDERED: Final = "deliver-out-of-order"
LONELY_ABORT: Final = "abort-open-on-failover"
DELIVER_ABORTED: Final = "deliver-aborted"
EARLY_DECISION: Final = "decision-before-replication"
PAST_OPEN: Final = "ignore-last-stable-offset"
DEAF: Final = "ignore-fencing"
LOOSE_OFFSETS: Final = "offsets-outside-transactions"
REDELIVER: Final = "redeliver-on-failover"
PHANTOMS: Final = "dequeue-from-empty"

DEFECTS: Final = {
    EARLY_ACK: "the leader acknowledges what it has appended, without waiting for its commit",
    UNCLEAN: "the controller elects any replica that is alive, in sync or not",
    NO_EPOCHS: "a follower compares offsets with its leader, but not the epochs of entries",
    STALE_READS: "any replica answers reads from its applied state, whether or not it is "
    "certain to lead",
    LOOSE_CAS: "compare-and-set compares on arrival but sets only at commit",
    FORGETFUL: "a new leader discards what it does not know to be committed",
    DUPLICATES: "a retried request is appended again",
    ROLLBACK: "a leader counts only the replicas that it can reach, unconfirmed by the controller",
    EARLY_COMMIT: "the coordinator acknowledges a commit without waiting until it is replicated",
    FORGOTTEN: "a new coordinator knows only what was committed since it took over",
    ZOMBIES: "the coordinator accepts commits from members that have left the group",
    UNCOMMITTED: "a leader delivers to consumers what it has appended, committed or not",
    UNORDERED: "a leader delivers the records of a batch in an order other than by offset",
    LONELY_ABORT: "a new leader aborts the transactions that are open in its log without asking "
    "their coordinator",
    DELIVER_ABORTED: "a leader delivers to read_committed readers all that is below the last "
    "stable offset, aborted or not",
    EARLY_DECISION: "the coordinator acknowledges a commit before its decision is replicated",
    PAST_OPEN: "a leader delivers to read_committed readers records beyond the last stable offset",
    DEAF: "the coordinator lets a new instance of a producer take over, but does not fence the old "
    "one",
    LOOSE_OFFSETS: "a transaction's consumed offsets are stored immediately, whether it commits or "
    "not",
    REDELIVER: "a new leader puts the element that was dequeued last back into the queue",
    PHANTOMS: "a dequeue does not check whether the queue is empty, and returns what nobody put in",
}
"""Every defect by name, with the condition that it skips."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the reference system works: what a plan's target says, under the same names, and

    group         how many partitions of others a group reads whose own partition this is; 0: none
    group_session_ms  a member of it that was not heard of for so long is removed
    transactions  whether this partition decides on transactions
    transaction_ms  one that has no end for so long is aborted
    """

    replicas: int = 3
    partitions: int = 1
    commit: Literal["quorum", "isr"] = "quorum"
    min_insync: int = 1
    fsync: Literal["always", "never"] = "always"
    session_ms: int = 300
    heartbeat_ms: int = 60
    lag_ms: int = 150
    attempt_ms: int = 120
    request_ms: int = 800
    group: int = 0
    group_session_ms: int = 1000
    transactions: bool = False
    transaction_ms: int = 3000
    defects: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := self.defects - set(DEFECTS):
            raise ValueError(f"there is no defect {sorted(unknown)[0]!r}; see {', '.join(DEFECTS)}")
        if not 1 <= self.min_insync <= self.replicas:
            raise ValueError(f"min_insync is from 1 to replicas ({self.replicas})")
        if self.partitions < 1:
            raise ValueError("partitions is at least 1")
        if 3 * self.heartbeat_ms > self.session_ms:
            raise ValueError("session_ms is at least three times heartbeat_ms")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The replicas."""
        return tuple(f"n{number}" for number in range(1, self.replicas + 1))

    @property
    def majority(self) -> int:
        """How many replicas are a majority."""
        return self.replicas // 2 + 1


CONTROLLER: Final = "c1"
"""The node that keeps who leads, decided once and fenced by epochs."""

GROUP_DEFECTS: Final = frozenset({EARLY_COMMIT, FORGOTTEN, ZOMBIES, UNCOMMITTED, UNORDERED})
"""Those that only consumers meet."""

TRANSACTION_DEFECTS: Final = frozenset(
    {LONELY_ABORT, DELIVER_ABORTED, EARLY_DECISION, PAST_OPEN, DEAF, LOOSE_OFFSETS}
)
"""Those that only transactions meet."""

QUEUE_DEFECTS: Final = frozenset({REDELIVER, PHANTOMS})
"""Those that only queues meet."""

TAKES: Final = frozenset({"dequeue", "drain"})
"""Requests that take elements out of the queue; what they took is known once they are committed."""

READS: Final = frozenset({"read", "read-all", "fetch", "ends", "consumed"})
"""Requests without effect."""


ABSENT: Final = ("version", "image", "settings", "memory_mb")
"""The keys of a target that simulated nodes do not have: they are refused."""


class MemoryTargetPlan(TargetPlan):
    """The reference system; times are in milliseconds of virtual time."""

    system: Slug = Field("memory", description="The system under test, a plug-in in targets/.")
    replicas: int = Field(3, ge=1, le=9, description="How many replicas: n1 ..., beside c1.")
    partitions: int = Field(1, ge=1, le=64, description="Logs that are replicated one by one.")
    first_partition: int = Field(
        0,
        ge=0,
        description="The first of them in the system, which ackloss sets for each cell of a run; "
        "of a plan that is read it is always 0.",
    )
    commit: Literal["quorum", "isr"] = Field(
        "quorum",
        description="An entry is committed once a majority has it, or all in the in-sync set.",
    )
    min_insync: int = Field(
        1, ge=1, le=9, description="isr: writes are refused while fewer replicas are in sync."
    )
    fsync: Literal["always", "never"] = Field(
        "always", description="always: a replica syncs an entry before it acknowledges it."
    )
    defects: list[Slug] = Field(
        default_factory=list, max_length=20, description="Defects that are switched on, by name."
    )
    session_ms: int = Field(
        300, ge=10, le=60_000, description="A replica that was not heard of for this time is dead."
    )
    heartbeat_ms: int = Field(60, ge=1, le=10_000, description="How often replicas report to c1.")
    lag_ms: int = Field(
        150, ge=10, le=60_000, description="isr: a replica behind for this time is not in sync."
    )
    attempt_ms: int = Field(
        120, ge=10, le=60_000, description="How long a client waits for one node."
    )
    request_ms: int = Field(800, ge=10, le=60_000, description="How long a client tries in all.")

    @field_validator("first_partition")
    @classmethod
    def _begins_at_0(cls, _: int) -> int:
        """The stored plan of a cell has the place of its partitions among those of all cells; run
        again it has the system to itself, which has no partitions before its own."""
        return 0

    def system_settings(self) -> Settings:
        """As the system takes them. Raises ValueError for impossible values."""
        fields = type(self).model_fields
        given = {
            name: getattr(self, name) for name in Settings.__dataclass_fields__ if name in fields
        }
        return Settings(**{**given, "defects": frozenset(self.defects)})


class MemoryPlan(Plan):
    """Top-level keys of a plan for the reference system."""

    cluster: ClusterPlan = Field(default_factory=lambda: ClusterPlan(kind="memory"))
    target: MemoryTargetPlan = Field(default_factory=lambda: MemoryTargetPlan())

    @property
    def partitions(self) -> int:
        """Of the system."""
        return self.target.partitions

    @property
    def replicas(self) -> int:
        """Of each partition: all nodes but the controller."""
        return self.target.replicas

"""Settings of the reference system, and the defects that can be switched on in it.

Each defect is a condition that is skipped, as it was in some real system; nothing is ever corrupted
at random. Without defects, no acknowledged entry is lost and registers are linearizable, whatever
faults a minority of the replicas meets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

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
}
"""Every defect by name, with the condition that it skips."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the reference system works.

    replicas      nodes that store everything: n1 ..., beside the controller c1
    partitions    logs that are replicated one by one, each with a leader
    commit        quorum: an entry is committed once a majority of replicas has it; isr: once every
                  replica in the in-sync set has it
    min_insync    isr only: a write is refused while fewer are in sync
    fsync         always: before an entry is acknowledged to the leader; never: power loss loses
    session_ms    a replica that the controller has not heard of for so long is taken for dead
    heartbeat_ms  how often each replica reports to the controller
    lag_ms        isr only: a follower that has not caught up for so long leaves the in-sync set
    attempt_ms    how long a client waits for one node's answer
    request_ms    how long it tries in all
    group         how many partitions of others a group reads whose own partition this is; 0: none
    group_session_ms  a member of it that was not heard of for so long is removed
    transactions  whether this partition decides on transactions
    transaction_ms  one that has no end for so long is aborted
    defects       see `DEFECTS`
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

READS: Final = frozenset({"read", "read-all", "fetch", "ends", "consumed"})
"""Requests without effect."""

"""Why acknowledged writes were lost, as far as the evidence of a run says; and why consumers
skipped records, or processed them again.

A target explains the lost writes of a stored run (`Target.explain`): each gets exactly one cause,
with the facts that it rests on. A cause never changes a verdict. What has none, or more than one,
is `UNEXPLAINED`; of a run without any log of a server it is `NOT_EXAMINED`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

UNEXPLAINED: Final = "unexplained"
"""The cause of a lost write that no evidence explains."""
NOT_EXAMINED: Final = "not-examined"
"""The same where no evidence of the servers was collected."""

FactKind = Literal[
    "acknowledged",
    "in sync",
    "held by",
    "elected",
    "truncated",
    "disk",
    "deleted",
    "fault",
    "processed",
    "commit",
    "ended",
    "assigned",
]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One fact of a chain of events.

    at_s    seconds since the run's start; `None` where its clock cannot be relied on
    text    one sentence without a final full stop
    source  what states it, in a word or two: `log of b2`, `history`
    place   where in the run's folder: `nodes/b2/server.log:1204`; empty where it is a sum
    record  what stands there, where it is not a line of text
    """

    kind: FactKind
    text: str
    source: str
    at_s: float | None = None
    node: str | None = None
    place: str = ""
    record: str = ""

    def __lt__(self, other: Fact) -> bool:
        return (self.at_s or 0.0) < (other.at_s or 0.0)


@dataclass(frozen=True, kw_only=True)
class Prevention:
    """A change of the plan that would have kept `writes` of these writes from being lost, as the
    system's semantics guarantee because of a fact of the run. Never "nothing would be lost".

    key, value  as `--set KEY=VALUE` takes them
    because     the fact
    else_       what would have been so; empty: they would not have been acknowledged
    """

    key: str
    value: str
    writes: int = 0
    because: str
    else_: str = ""

    @property
    def change(self) -> str:
        """What `--set` takes."""
        return f"{self.key}={self.value}"

    def sentence(self, lost: int) -> str:
        """Of `lost` writes in all, without a final full stop."""
        setting = (
            f"{self.key.replace('workload.producer.', '').split('settings.')[-1]}={self.value}"
        )
        clause = self.else_
        if not clause and self.writes == lost:
            clause = f"none of these {lost:,} would have been acknowledged"
        elif not clause:
            clause = f"{self.writes:,} of these {lost:,} would not have been acknowledged"
        return f"With {setting.replace(chr(34), '')}, {clause}: {self.because}"


class Waits(NamedTuple):
    """Whom a leader waits for before it acknowledges a write: by default, a majority.

    others    the key of a plan, and its value with which a leader waits for those that it need not
              wait for otherwise
    copied    whether the others copy whatever leads, also where it has less
    prevents  by cause, what else would have kept writes from being lost, however many
    """

    others: tuple[str, Any] = ("", None)
    copied: bool = False
    prevents: Mapping[str, Prevention] = MappingProxyType({})


@dataclass(frozen=True)
class Stretch:
    """A part of a log, `of` some node at some time, from the position `first` to before `behind`:
    written in this epoch (`None`: not known), and `removed` then or not."""

    of: str
    first: int
    behind: int
    epoch: int | None = None
    removed: bool = False


@dataclass(frozen=True, kw_only=True)
class LossEvent:
    """One event that lost acknowledged writes, for one cause.

    cause       one of `Target.causes`
    kind        `lost`; of what is not loss, `skipped` or `reprocessed`, and its cause is one of
                `DELIVERY_CAUSES`; `phantom`: was delivered, and the log lacks it
    partition   where the writes were written to; `None` where the system has none
    first, last their lowest and highest position; `kept`: every position below it stayed
    epoch       of the leader that acknowledged them; `dropped_by`: of the one that dropped them
    held_by     how many of them each node had that was up and could have led
    facts       the chain of events, in order
    logs        what each node's log had before some of it was removed, and what is left at the end
    survivors   how many of them such a node still had, where known
    """

    cause: str
    kind: str = "lost"
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    epoch: int | None = None
    dropped_by: int | None = None
    kept: int | None = None
    held_by: Mapping[str, int] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    preventions: tuple[Prevention, ...] = ()
    logs: tuple[Stretch, ...] = ()
    survivors: int | None = None


@dataclass(frozen=True, kw_only=True)
class Explanation(LossEvent):
    """What `Target.explain` returns: an event, with the values of the writes that it lost."""

    values: tuple[int, ...]


class RemovedRecord(NamedTuple):
    """A record that a node's log no longer has; `at_s`: when that was seen; `epoch` of the leader
    that wrote it, -1 where the format has none; `value`: negative where it is none of ours."""

    node: str
    at_s: float
    partition: int
    offset: int
    epoch: int
    value: int


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What nodes' logs lost during a run, as copied when it vanished; `why_not`: what was not
    copied, or cannot be read, and why."""

    records: tuple[RemovedRecord, ...]
    why_not: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Holding:
    """What a server's own log has at the end of a run: `places`, for each position in the order of
    all writes, where in the run's folder it is. `why_not`: why there may be more."""

    node: str
    places: Mapping[int, str]
    why_not: str = ""

    def fact(self, positions: Set[int]) -> Fact:
        """How many of these it has; where it has none, what it has instead."""
        have = self.places.keys() & positions
        below = max((each for each in self.places if each < min(positions)), default=None)
        above = min((each for each in self.places if each > min(positions)), default=None)
        last = max(have) if have else below if above is None else above
        place = "" if last is None else self.places[last]
        at, text = place.rpartition(":")[2], f"{self.node} has none of them in its own log"
        if have:
            text = f"{self.node} has {len(have):,} of them in its own log, up to {at}"
        elif above is not None and below is not None:
            text += f": {self.places[below].rpartition(':')[2]} is followed by {at}"
        elif last is not None:
            text += f", which {'begins' if below is None else 'ends'} at {at}"
        text += f"; there may be more: {self.why_not}" if self.why_not else ""
        source = f"data of {self.node}"
        return Fact(kind="held by", node=self.node, text=text, source=source, place=place)


# Of servers that agree by a majority.

POWER, WIPED, DISK, UNDISTURBED = "disk-power", "disk-wiped", "disk-fault", "disk-undisturbed"
WITHOUT: Final = "elected-without-them"
BEHIND: Final = "elected-behind"
MAJORITY_CAUSES: Final[Mapping[str, str]] = {
    POWER: "The disks lost them while the servers were down: their power was cut",
    WIPED: "The disks lost them while the servers were down: they were wiped",
    DISK: "The disks lost them while the servers were down, under a fault of the disks",
    UNDISTURBED: "The disks lost them while the servers were down, and no fault of ours met them",
    WITHOUT: "A server was elected that never had them, and no server's log had become shorter. "
    "That is a defect of the system, or of this evidence",
}
ASYNCHRONOUS_CAUSES: Final[Mapping[str, str]] = {
    **MAJORITY_CAUSES,
    BEHIND: "They were acknowledged before another server had them, and one that had not received "
    "them was elected: the acknowledgement did not wait for replication",
}
"""Of a leader that need not wait for the others."""

DEPOSED: Final = "-deposed"
BY_DEPOSED: Final = ", and the deposed leader acknowledged them after that election"
"""What follows a cause, and its sentence, where a leader did not know yet that it led no more."""
STALE, EMPTIED = "elected-stale", "came-back-without-them"
_STALE: Final = "Another server had confirmed them, and one that had not received them was elected"
PRIMARY_CAUSES: Final[Mapping[str, str]] = {
    **{cause: ASYNCHRONOUS_CAUSES[cause] for cause in (POWER, WIPED, DISK, BEHIND)},
    STALE: _STALE,
    BEHIND + DEPOSED: "One that had not received them was elected" + BY_DEPOSED,
    STALE + DEPOSED: _STALE + BY_DEPOSED,
    EMPTIED: "The leader was restarted without them and still led, and the others copied it",
}
"""Of a leader that whatever follows it copies, also where it has less."""


# Of deliveries that were skipped, or made again.

EARLY_COMMIT, FOREIGN_COMMIT = "committed-unprocessed", "committed-by-another"
RESET, RESET_LOST, RESET_DELETED = "reset-uncommitted", "reset-commit-lost", "reset-deleted"
TRUNCATED, JUMPED, WENT_BACK = "log-truncated", "position-jumped", "position-went-back"
UNCOMMITTED, REFUSED, NO_OUTCOME = "not-committed", "commit-refused", "commit-unknown"
LATE, SET_BACK, COMMIT_LOST = "commit-late", "commit-set-back", "commit-lost"
ZOMBIE, ELECTED = "revoked-reader", "-elected"
_GONE: Final = {
    RESET_LOST: "A commit was acknowledged; the next reader was given none, and was reset",
    COMMIT_LOST: "A commit above them was acknowledged; the next reader was given less, or none",
}
DELIVERY_CAUSES: Final[Mapping[str, str]] = {
    EARLY_COMMIT: "A member committed an offset above them, and ended before it processed them",
    FOREIGN_COMMIT: "A member that had not been handed them committed an offset above them",
    RESET: "Nothing was committed when their reader was assigned the partition: it was reset",
    RESET_DELETED: "Their reader's position had been deleted from the log, and was reset",
    TRUNCATED: "The log was truncated below the position of their reader",
    JUMPED: "Their reader's position moved above them in one assignment, by a seek or a reset",
    WENT_BACK: "Their reader's position was below what it was given as committed, or went back in "
    "one assignment: a seek, a reset, or a library that had asked earlier",
    UNCOMMITTED: "They were processed, and not committed when the partition got its next reader",
    REFUSED: "They were processed, and their commit was refused",
    NO_OUTCOME: "They were processed, and the outcome of their commit is not known",
    LATE: "Their commit was acknowledged after the next reader had asked what was committed",
    SET_BACK: "A commit above them was acknowledged, and a later one set it back",
    ZOMBIE: "A member processed them after the partition had been assigned to another",
    **_GONE,
    **{key + ELECTED: f"{text}; another coordinator was elected" for key, text in _GONE.items()},
}
"""Why a group skipped records, or processed some again, each with a sentence."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One dated line: `at_s` since the run's start, `None` where the node's clock was moved."""

    at_s: float | None
    node: str
    place: str
    text: str


class LogRow(NamedTuple):
    """One row of a table of what servers log: a line that `pattern` matches, and what it says, see
    `Happened`. Of its groups, `of` and `peer` are names, and `end` and `epoch` numbers. `text` may
    have these, and `{0}`: the first group as it stands."""

    kind: str
    pattern: str
    text: str = ""
    end: int | None = None
    epoch: int = 0
    cause: str = ""


@dataclass(frozen=True, kw_only=True)
class Happened:
    """What a server logged about its copy of the log, which holds no position above `end` (`None`:
    not known): it `starts` with it, `leads` an epoch with it (-1: the log has none, and elections
    are numbered in the order of time), or has `cut` it; or that it `elects` another, or `counts`
    without its `peer`, until one `returns`; that it `joins` with nothing and copies only what comes
    then, until a leader `fills` it, or `follows` what it had anyway. `of`: whom it is about, if it
    is another. `text`: the rest of a sentence that begins with that name; `cause`: what such an
    event loses a write by, if it has its own cause. Where a server that `begins` says only later
    where its log `ends` (`text`: that place), the two are a start, and a later `leads` has that
    place. It keeps its own `end` where it says nothing of that, or `follows` before."""

    kind: str
    line: Line
    text: str
    end: int | None = None
    epoch: int = 0
    partition: int | None = None
    cause: str = ""
    of: str = ""
    peer: str = ""

    @property
    def at_s(self) -> float:
        return float("inf") if self.line.at_s is None else self.line.at_s

    @property
    def node(self) -> str:
        return self.of or self.line.node

    def fact(self, kind: Any) -> Fact:
        line = self.line
        return Fact(
            kind=kind,
            at_s=line.at_s,
            node=self.node,
            text=f"{self.node} {self.text}",
            source=f"log of {line.node}",
            place=line.place,
        )

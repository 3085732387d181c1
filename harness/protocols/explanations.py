"""Why acknowledged writes were lost, as far as the evidence of a run says.

A target explains the lost writes of a stored run (`Target.explain`): each gets exactly one cause,
with the facts that it rests on. A cause never changes a verdict. What has none, or more than one,
is `UNEXPLAINED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

UNEXPLAINED: Final = "unexplained"
"""The cause of a lost write that no evidence explains."""

FactKind = Literal[
    "acknowledged",
    "in sync",
    "held by",
    "elected",
    "truncated",
    "disk",
    "deleted",
    "fault",
]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One fact of a chain of events.

    at_s    seconds since the run's start; `None` where its clock cannot be relied on
    text    one sentence without a final full stop
    source  what states it, in a word or two: `log of b2`, `history`
    place   where in the run's folder: `nodes/b2/server.log:1204`; empty where it is a sum
    """

    kind: FactKind
    text: str
    source: str
    at_s: float | None = None
    node: str | None = None
    place: str = ""


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
    writes: int
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


@dataclass(frozen=True, kw_only=True)
class LossEvent:
    """One event that lost acknowledged writes, for one cause.

    cause       one of `Target.causes`
    partition   where the writes were written to; `None` where the system has none
    first, last their lowest and highest position; `kept`: every position below it stayed
    epoch       of the leader that acknowledged them; `dropped_by`: of the one that dropped them
    held_by     how many of them each node had that was up and could have led
    facts       the chain of events, in order
    survivors   how many of them such a node still had, where known
    """

    cause: str
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    epoch: int | None = None
    dropped_by: int | None = None
    kept: int | None = None
    held_by: Mapping[str, int] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    preventions: tuple[Prevention, ...] = ()
    survivors: int | None = None


@dataclass(frozen=True, kw_only=True)
class Explanation(LossEvent):
    """What `Target.explain` returns: an event, with the values of the writes that it lost."""

    values: tuple[int, ...]

"""The coordinator of a group: who is a member, and who reads which partition in a generation.

It is the leader of the group's own partition, in which committed offsets are entries: so commits
are replicated like everything else. Members are known only in memory; a new coordinator knows none,
and they join again. A generation is higher than all before it, those of earlier coordinators
included. A member that joins gets its share at once; the others learn of it by their next
heartbeat, and what they commit until then is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

MEMBERSHIP: Final = frozenset({"join", "heartbeat", "leave"})
"""Requests that no log keeps."""

UNKNOWN_MEMBER: Final = "unknown-member"
STALE_GENERATION: Final = "stale-generation"
_A_TERM: Final = 1_000_000


@dataclass
class Coordinator:
    """A group while one node coordinates it, in one epoch; `partitions` is how many there are."""

    epoch: int
    partitions: int
    session_ns: int
    generation: int = 0
    heard_ns: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.generation = self.epoch * _A_TERM

    def answer(self, f: str, member: str, generation: int | None, now_ns: int) -> tuple[str, Any]:
        """The answer to a request: `ok` and the generation with the member's partitions, or
        `fail` and why."""
        self._forget_silent(now_ns)
        if f == "join":
            if member not in self.heard_ns:
                self.generation += 1
            self.heard_ns[member] = now_ns
            return "ok", (self.generation, self.share_of(member))
        if (why := self.refuses(member, generation, now_ns)) is not None:
            return "fail", why
        if f == "leave":
            del self.heard_ns[member]
            self.generation += 1
        else:
            self.heard_ns[member] = now_ns
        return "ok", None

    def refuses(self, member: str, generation: int | None, now_ns: int) -> str | None:
        """Why a member of a generation may not commit; `None` if it may, as may one that assigns
        itself (no generation) while there is no member."""
        self._forget_silent(now_ns)
        if generation is None:
            return STALE_GENERATION if self.heard_ns else None
        if member not in self.heard_ns:
            return UNKNOWN_MEMBER
        return None if generation == self.generation else STALE_GENERATION

    def share_of(self, member: str) -> list[int]:
        """Its partitions: a range of them, as even as can be."""
        members = sorted(self.heard_ns)
        place, count = members.index(member), len(members)
        first, behind = (self.partitions * each // count for each in (place, place + 1))
        return list(range(first, behind))

    def _forget_silent(self, now_ns: int) -> None:
        silent = [name for name, at in self.heard_ns.items() if at < now_ns - self.session_ns]
        for name in silent:
            del self.heard_ns[name]
        self.generation += bool(silent)

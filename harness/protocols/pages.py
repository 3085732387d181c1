"""What pages know about a system: abilities of targets, pure, and used for stored runs too."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class LogLines:
    """Which lines of nodes' logs a page shows: those that match `dated` and contain `relevant` and
    not `internal`. The groups of `dated` are `YYYY-MM-DD HH:MM:SS` in UTC, milliseconds, text."""

    dated: re.Pattern[bytes]
    relevant: re.Pattern[bytes]
    internal: re.Pattern[bytes]


@runtime_checkable
class HasLogLines(Protocol):
    """A target that knows which lines of its nodes' logs report elections and lost data."""

    @abstractmethod
    def log_lines(self) -> LogLines:
        """Those lines."""
        ...


@runtime_checkable
class DescribesRuns(Protocol):
    """A target that defines how pages describe a run, from its plan.json."""

    @abstractmethod
    def size(self, plan: Mapping[str, Any]) -> list[str]:
        """The size of the cluster in words: `3 nodes`, `replication factor 3`."""
        ...

    @abstractmethod
    def stored_request(self, plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The settings that it requests, in the groups of `Target.requested` and in the order in
        which a page shows them."""
        ...

    def decisive(self) -> Sequence[tuple[str, str]]:
        """The settings that decide most losses, as group and key: the sentence under a headline
        names them, at their defaults too. None unless a target says more."""
        return ()

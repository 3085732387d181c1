"""Clusters that ackloss did not start: how they are reached, and what is found out about them.

No access is ever part of a plan, since a plan may come from a stranger: the command line names the
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


@dataclass(frozen=True)
class Secret:
    """A value that is never written anywhere: its text is shown only to code that requests it by
    name."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The value itself, for a client library."""
        return self._text

    def __str__(self) -> str:
        return "(secret)"


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a cluster is reached: the file that names it, the bootstrap servers (host:port), the
    properties of clients by name, and those whose values are secret."""

    file: Path
    addresses: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Member:
    """A node of such a cluster, as the cluster itself names it; `number`, where it has one.
    `address` is the host:port at which clients find it."""

    name: str
    roles: frozenset[str]
    address: str
    number: int | None = None


class Status(StrEnum):
    """`warn`: runs work, but something is scarce or has not been created yet."""

    OK = "ok"
    MISSING = "missing"
    OLD = "old"
    WARN = "warn"

    @property
    def prevents_runs(self) -> bool:
        """Whether a finding with this status must be corrected first."""
        return self in (Status.MISSING, Status.OLD)


@dataclass(frozen=True)
class Finding:
    """The result of one check of this machine; `fix` is the command that corrects what is wrong."""

    name: str
    status: Status
    detail: str
    fix: str | None = None

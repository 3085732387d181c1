"""What the members of a quorum leave of it: one document for each node, `nodes/NODE/quorum.json`.

A quorum elects leaders by votes, each in an epoch, and a leader replicates one log. A target writes
the document at the end of a run, from what the node has stored and logged; members are named by
their numbers. The checker `quorum` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import TypeAdapter, ValidationError

from harness.errors import HistoryError
from harness.history.run_folder import RunDir
from harness.wrong_values import expected, first_of

QUORUM: Final = "quorum.json"


@dataclass(frozen=True, kw_only=True)
class QuorumBatch:
    """A batch of the log: its offsets, the epoch of the leader that wrote it, the checksum of its
    bytes. `leader`: it begins the epoch of this leader."""

    first: int
    last: int
    epoch: int
    checksum: int
    leader: int | None = None


@dataclass(frozen=True, kw_only=True)
class QuorumState:
    """The state of a member in an epoch: the leader that it knows, and for whom it has voted.

    voter      whether the member counts itself among the voters; `None`: it does not say
    start      of a leader, the offset at which its epoch begins
    committed  the high watermark that it states: every offset below is committed
    cut        the offset at which it truncates its log in this state
    restored   it is the first one of a life, as the member had stored it
    """

    name: str = ""
    epoch: int
    leader: int | None = None
    voted: int | None = None
    voter: bool | None = None
    start: int | None = None
    committed: int | None = None
    cut: int | None = None
    restored: bool = False


@dataclass(frozen=True, kw_only=True)
class QuorumMember:
    """One node: the states that it logged, in their order over all its lives, the one that it has
    stored at the end, and its log. `missing`: what could not be had, a sentence each."""

    node: str
    number: int
    voter: bool
    directory: str | None = None
    stored: QuorumState | None = None
    logged: tuple[QuorumState, ...] = ()
    log_start: int = 0
    log: tuple[QuorumBatch, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def log_end(self) -> int:
        """The offset after the last one."""
        return self.log[-1].last + 1 if self.log else self.log_start


_MEMBER: Final = TypeAdapter(QuorumMember)


def quorum_document(member: QuorumMember) -> bytes:
    """As a run folder holds it; what does not apply is left out."""
    document = _MEMBER.dump_python(member, mode="json", exclude_defaults=True)
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def quorum_of(rundir: RunDir) -> dict[str, QuorumMember]:
    """The members by node. Raises HistoryError for a document that cannot be used."""
    members = [_member(path) for path in sorted(rundir.of_run.path.glob(f"nodes/*/{QUORUM}"))]
    return {member.node: member for member in members}


def voters_of(rundir: RunDir) -> list[str]:
    """The names of the nodes that were to be voters when the run began."""
    run = rundir.of_run
    nodes: list[dict[str, Any]] = run.read_json(run.run).get("nodes") or []
    return [each["name"] for each in nodes if "controller" in each["roles"]]


def _member(path: Path) -> QuorumMember:
    try:
        return _MEMBER.validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise HistoryError(f"cannot be read: {error.strerror}", file=str(path)) from error
    except ValidationError as error:
        findings = first_of(error.errors(include_url=False))
        key = ".".join(map(str, findings[0]["loc"])) or "the document"
        raise HistoryError(f"{key}: {expected(findings)}", file=str(path)) from error

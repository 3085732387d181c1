"""What nodes report about who leads, and how far a reader got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True)
class PartitionView:
    """What one node reports about one partition, the subject of an observation. Nodes are named; no
    leader: `None`. `members` are in sync, and so are `unnamed` more, of which the node does not
    know which they are; `None`: nor how many. The first of the replicas is the preferred leader."""

    partition: int
    leader: str | None
    leader_epoch: int
    members: tuple[str, ...]
    replicas: tuple[str, ...] = ()
    unnamed: int | None = 0

    @property
    def in_sync(self) -> int | None:
        """How many are in sync; `None` where the node does not know."""
        return None if self.unnamed is None else len(self.members) + self.unnamed


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """One node's answer: the partitions it knows, and the controller, if it knows.

    `authority`: it stores what was decided, where others only have received it. `coordination`: the
    partition in which the run's group keeps what it has committed; its leader coordinates it.
    """

    answered_by: str
    partitions: tuple[PartitionView, ...] = ()
    coordination: PartitionView | None = None
    controller: str | None = None
    controller_epoch: int | None = None
    authority: bool = False


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What all nodes of the cluster together report: per partition the answer with the highest
    leader epoch, no matter which node gave it; the controller by the highest controller epoch.
    Nodes that did not answer are missing from `answered`."""

    time_ns: int
    partitions: Mapping[int, PartitionView] = field(default_factory=dict)
    coordination: PartitionView | None = None
    controller: str | None = None
    answered: frozenset[str] = frozenset()


class Range(NamedTuple):
    """Offsets of a partition: the first one, and the one after the last."""

    first: int
    behind: int


@dataclass(frozen=True, kw_only=True)
class End:
    """How far one partition was read, and its ends before and after. `members` were in sync then.
    `error`: why it is not `complete`, one sentence; `None` where it is. `ranges`: the offsets that
    were read, each from the first to the one after the last, if these were not all.
    """

    partition: int
    log_start_offset: int | None
    end_offset: int | None
    position: int | None
    leader: str | None
    leader_epoch: int | None
    members: tuple[str, ...]
    complete: bool
    error: str | None = None
    ranges: tuple[Range, ...] | None = None

"""Changes of metadata: topics that come, change, grow and go, and settings of nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from harness.models import REGISTER
from harness.protocols import Invoke, Script, Workload, invoke

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class Metadata(Workload):
    """Each process changes metadata, and reads it from one node after the other; at the end each
    reads all of it. Every piece is a register: `topic-N` is a setting of a topic (none: there is no
    such topic), `partitions-N` the number of a topic's partitions, `node-1` a setting of one node,
    `nodes` one of all nodes.

    topics_count      topics that are created, changed, deleted and created again
    growing_count     topics that are given one more partition after the other
    partitions_count  partitions that those are given at most
    read_share        reads
    delete_share      changes of a topic that delete it
    nodes_share       changes that are settings of nodes
    grow_share        changes that add a partition
    """

    plugin: ClassVar[str] = "metadata"
    model: ClassVar[str] = REGISTER.name
    checks: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"name": "register", "consistency": "eventual"},
    )

    topics_count: Annotated[int, Field(ge=1, le=1_000)] = 12
    growing_count: Annotated[int, Field(ge=0, le=1_000)] = 3
    partitions_count: Annotated[int, Field(ge=1, le=1_000)] = 12
    read_share: Share = 0.5
    delete_share: Share = 0.1
    nodes_share: Share = 0.2
    grow_share: Share = 0.1

    def __post_init__(self) -> None:
        if self.nodes_share + self.grow_share > 1:
            raise ValueError("nodes_share and grow_share are more than 1 together")

    @property
    def keys(self) -> tuple[str, ...]:
        topics = (f"topic-{number}" for number in range(self.topics_count))
        growing = (f"partitions-{number}" for number in range(self.growing_count))
        return *topics, *growing, "node-1", "nodes"

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P writes p, p + P, p + 2 P ..., each value once. Each topic is changed by
        one process alone, so that what is unknown of one change leaves no doubt about the next;
        settings of nodes by all."""
        draw = random.Random(f"{seed}/metadata/{process}")
        changes = self._changes(process, processes, draw)
        while True:
            if draw.random() < self.read_share:
                yield invoke("read", key=draw.choice(self.keys))
            else:
                yield next(changes)

    def _changes(self, process: int, processes: int, draw: random.Random) -> Iterator[Invoke]:
        value = process
        topics = range(process % processes, self.topics_count, processes)
        sizes = dict.fromkeys(range(process % processes, self.growing_count, processes), 0)
        while True:
            chosen, value = draw.random(), value + processes
            growing = [number for number in sizes if sizes[number] < self.partitions_count]
            if chosen < self.grow_share and growing:
                number = draw.choice(growing)
                sizes[number] += 1
                yield invoke("write", sizes[number], key=f"partitions-{number}")
            elif chosen < self.grow_share + self.nodes_share or not topics:
                yield invoke("write", value, key=draw.choice(("node-1", "nodes")))
            else:
                deletes = draw.random() < self.delete_share
                key = f"topic-{draw.choice(topics)}"
                yield invoke("delete" if deletes else "write", value, key=key)

    def final(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """One read of everything: each process begins with another node."""
        for key in self.keys:
            yield invoke("read", key=key)

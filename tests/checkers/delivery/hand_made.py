"""Runs of a group, made by hand or at random, as a checker sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from harness.protocols import Deliveries, Facts, Gaps, PartitionEnd, Promises, Reads, Texts, Writes
from harness.protocols.groups import KINDS, Delivery
from harness.protocols.runs import INFO, INVOKED, OK, Ints, Operations
from tests.fixtures import operation_rows
from tests.fixtures.operation_rows import MARKS, numbers, texts

READERS = ("first", "second")


class Write(NamedTuple):
    """A write that ended: its value, whether it was acknowledged, and where and when; it began a
    nanosecond before, or at `begun_ns`."""

    value: int
    partition: int
    acknowledged: bool = True
    offset: int | None = None
    time_ns: int = 0
    begun_ns: int | None = None


class Record(NamedTuple):
    """A record of the final log."""

    partition: int
    offset: int
    value: int


@dataclass
class Made:
    """A run of one group over `partitions`: what was written, what the log holds (with the offset
    at which each partition begins and the one behind its last), what consumers did. `whole`: every
    replica was in sync; `readers`: who read the log to its end; `last_alone`: what only the last of
    them met."""

    partitions: int = 1
    writes_: list[Write] = field(default_factory=list)
    log: list[Record] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    did: list[Delivery] = field(default_factory=list)
    gaps: Gaps = field(default_factory=Gaps)
    complete: bool = True
    whole: bool = True
    readers: tuple[str, ...] = READERS
    last_alone: tuple[Record, ...] = ()
    acknowledges: bool = True

    @property
    def facts(self) -> Facts:
        """As a run folder has them."""
        return Facts(
            run_id="made",
            history=(),
            reads=(),
            ends=tuple(
                PartitionEnd(
                    partition=p,
                    log_start=self.starts.get(p, 0),
                    read_to=self.end(p),
                    complete=self.complete,
                    whole=self.whole,
                    readers=self.readers if self.complete else (),
                )
                for p in range(self.partitions)
            ),
            promises=Promises(
                model="group", partitions=self.partitions, acknowledges=self.acknowledges
            ),
            gaps=self.gaps,
        )

    def end(self, partition: int) -> int:
        """The offset behind the last record."""
        last = [record.offset + 1 for record in self.log if record.partition == partition]
        return self.ends.get(partition, max(last, default=0))

    def writes(self, *, holding: object = None) -> Iterator[Writes]:
        """Two rows a write."""
        del holding
        yield operation_rows.writes(
            *(
                operation_rows.Write(
                    mark,
                    each.value,
                    each.partition,
                    offset=None if mark == INVOKED else each.offset,
                    due_ns=each.time_ns,
                    at_ns=each.time_ns if mark != INVOKED else begun(each),
                )
                for each in self.writes_
                for mark in (INVOKED, OK if each.acknowledged else INFO)
            )
        )

    def reads(self) -> Iterator[Reads]:
        """What each reader met."""
        for reader in self.readers:
            log = [*self.log, *(self.last_alone if reader == self.readers[-1] else ())]
            yield operation_rows.reads(
                *((reader, None, r.value, r.partition, r.offset) for r in log)
            )

    def deliveries(self) -> Iterator[Deliveries]:
        """In two parts, since no part is all there is."""
        half = len(self.did) // 2
        for rows in (self.did[:half], self.did[half:]):
            yield deliveries(rows)

    def operations(self) -> Iterator[Operations]:
        """Not asked for."""
        raise NotImplementedError

    def things(self) -> Iterator[tuple[Texts, Ints]]:
        """Not asked for."""
        raise NotImplementedError


def begun(write: Write) -> int:
    return write.time_ns - 1 if write.begun_ns is None else write.begun_ns


def deliveries(rows: Sequence[Delivery]) -> Deliveries:
    """Rows in columns."""

    def column(name: str) -> list[Any]:
        return [getattr(row, name) for row in rows]

    integers = ("begun_ns", "time_ns", "life", "generation", "partition", "offset", "value")
    words = ("f", "consumer", "member", "node", "error")
    marks = np.array([MARKS[row.type] for row in rows], np.uint8)
    return Deliveries(
        mark=marks,
        **{name: numbers(column(name)) for name in integers},
        **{name: texts(column(name)) for name in words},
    )


def whole_group() -> list[Delivery]:
    """A group that was assigned before the load and drained after it."""
    return [Delivery(KINDS.gate, 0, 0), Delivery(KINDS.drain, 10_000, 10_000)]


def final(partition: int, offset: int | None, time_ns: int = 20_000) -> Delivery:
    """What the coordinator says at the end."""
    return Delivery(KINDS.final, time_ns, time_ns, partition=partition, offset=offset, node="n1")

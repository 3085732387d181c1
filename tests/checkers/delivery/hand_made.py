"""Runs of a group, made by hand or at random, as a checker sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from harness.protocols import Deliveries, Facts, Gaps, PartitionEnd, Promises, Reads, Texts, Writes
from harness.protocols.groups import KINDS, Delivery
from harness.protocols.runs import FAIL, INFO, INVOKED, NULL, OK, Ints, Operations

MARKS = {"invoke": INVOKED, "ok": OK, "fail": FAIL, "info": INFO}
READERS = ("first", "second")


class Write(NamedTuple):
    """A write that ended: its value, whether it was acknowledged, and where and when."""

    value: int
    partition: int
    acknowledged: bool = True
    offset: int | None = None
    time_ns: int = 0


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
        rows = [
            (each, mark)
            for each in self.writes_
            for mark in (INVOKED, OK if each.acknowledged else INFO)
        ]
        offsets = [
            NULL if each.offset is None or mark == INVOKED else each.offset for each, mark in rows
        ]
        yield Writes(
            key=texts([None] * len(rows)),
            value=ints([each.value for each, _ in rows]),
            mark=np.array([mark for _, mark in rows], np.uint8),
            process=ints([0] * len(rows)),
            partition=ints([each.partition for each, _ in rows]),
            offset=ints(offsets),
            error=texts([None] * len(rows)),
            intended_ns=ints([each.time_ns for each, _ in rows]),
            time_ns=ints([each.time_ns for each, _ in rows]),
        )

    def reads(self) -> Iterator[Reads]:
        """What each reader met."""
        for reader in self.readers:
            log = [*self.log, *(self.last_alone if reader == self.readers[-1] else ())]
            yield Reads(
                reader=texts([reader] * len(log)),
                key=texts([None] * len(log)),
                value=ints([record.value for record in log]),
                partition=ints([record.partition for record in log]),
                offset=ints([record.offset for record in log]),
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


def deliveries(rows: Sequence[Delivery]) -> Deliveries:
    """Rows in columns."""

    def column(name: str) -> list[Any]:
        return [getattr(row, name) for row in rows]

    numbers = ("begun_ns", "time_ns", "life", "generation", "partition", "offset", "value")
    words = ("f", "consumer", "member", "node", "error")
    marks = np.array([MARKS[row.type] for row in rows], np.uint8)
    return Deliveries(
        mark=marks,
        **{name: ints([NULL if x is None else x for x in column(name)]) for name in numbers},
        **{name: texts(column(name)) for name in words},
    )


def ints(numbers: Sequence[int]) -> Ints:
    """A column of numbers."""
    return np.array(numbers, np.int64)


def texts(words: Sequence[str | None]) -> Texts:
    """A column of text."""
    names = sorted({word for word in words if word is not None})
    codes = [-1 if word is None else names.index(word) for word in words]
    return Texts(np.array(codes, np.int32), names)


def whole_group(begun_ns: int = 0, end_ns: int = 10_000) -> list[Delivery]:
    """A group that was assigned before the load and drained after it."""
    gate = Delivery(KINDS.gate, begun_ns, begun_ns)
    return [gate, Delivery(KINDS.drain, end_ns, end_ns)]


def final(partition: int, offset: int | None, time_ns: int = 20_000) -> Delivery:
    """What the coordinator says at the end."""
    return Delivery(KINDS.final, time_ns, time_ns, partition=partition, offset=offset, node="n1")

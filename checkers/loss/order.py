"""The order checker: whether a log has the records of one producer in the order of their sending.

*Sent* is the order of the rows in which writes began: the load generator hands each write to its
producer before it begins the next one. The processes that share a producer are those with the same
remainder by `Promises.producers`. Without that, or where clients crashed and processes changed
their producer, a process is a producer by itself: it begins a write after the one before has ended.

Compared are acknowledged records that were found, on one partition, from one producer. A record is
*swapped* when it stands behind one that was sent later: the later one overtook it. What counts is
the first copy of a record. A batch that is refused and sent again, while batches behind it are
under way, is overtaken: the known case of retries without idempotence and with more than one
request in flight (IBM/sarama#2860, pingcap/tiflow#11870).

Swapped records contradict only settings that promise the order (`Promises.ordered`), and there only
where two libraries saw them: the acknowledgement names the very position at which a record was
read, or two readers read the partition to its end.

The loss checker counts them in every run: as it goes through the rows, `Screen` sees whether any
record may be swapped, and only then are all compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.loss.numbering import numbered
from checkers.loss.readers import Readers, confirmed
from harness.models import LOG
from harness.protocols import DOUBTS, CheckResult, Count, OneShard, PrimaryFinding, Run, Statement
from harness.protocols.checkers import counted, findings_table
from harness.protocols.runs import INVOKED, NULL, OK, Bools, Facts, Ints, Reads

_FINDINGS_MOST: Final = 1000
_UNREAD: Final = 2**63 - 1
_CRASHES: Final = "client"
"""The nemesis whose faults make processes change their producer."""

SWAPPED: Final = "{n} acknowledged [record stands|records stand] behind one that was sent later"


class Found(NamedTuple):
    """A record, and the one that is furthest ahead of those that were sent later."""

    kind: str
    partition: int
    producer: int
    value: int
    offset: int
    value_sent_later: int
    offset_of_later: int


class Sent(NamedTuple):
    """Acknowledged records that were found, in the order of producer, partition and sending."""

    attempted: int
    acknowledged: int
    value: Ints
    producer: Ints
    partition: Ints
    position: Ints
    named: Bools

    def chosen(self, rows: Bools) -> Sent:
        """Some of them."""
        return Sent._make([*self[:2], *(column[rows] for column in self[2:])])


@dataclass(frozen=True)
class Order(OneShard[Sent]):
    """Acknowledged records of one producer that a partition has in another order than that of
    their sending: counted always, a counter-example where the settings promise the order."""

    plugin: ClassVar[str] = "order"
    title: ClassVar[str] = "Order of appends"
    models: ClassVar[frozenset[str]] = frozenset({LOG.name})
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("swapped",), noun="swapped records", head="swapped"
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "attempted"),
        Count("acknowledged", "acknowledged"),
        Count("compared", "compared", "acknowledged records that were found"),
        Count(
            "swapped",
            "swapped",
            "acknowledged records behind one that their producer sent later",
            of="compared",
        ),
    )
    short: ClassVar[tuple[str, ...]] = ("compared", "swapped")

    def gather(self, run: Run) -> Sent:
        facts, numbering = run.facts, numbered(run.things)
        size, readers = numbering.size, Readers(facts)
        sent, position = np.full(size, NULL), np.full(size, _UNREAD)
        process, partition, named_at = (np.full(size, NULL) for _ in range(3))
        begun_before, ok = 0, np.zeros(size, np.bool_)
        for rows in run.writes():
            numbers = numbering.numbers(rows.key, rows.value)
            begun, ended = rows.mark == INVOKED, rows.mark == OK
            new = numbers[begun]
            sent[new] = np.arange(begun_before, begun_before + len(new))
            begun_before += len(new)
            process[new], partition[new] = rows.process[begun], rows.partition[begun]
            ok[numbers[ended]] = True
            named_at[numbers[ended]] = rows.offset[ended]
        for part in run.reads():
            read = readers.judged(part)
            numbers = numbering.numbers(read.key, read.value)
            here = read.partition == partition[numbers]
            np.minimum.at(position, numbers[here], read.offset[here])
        chosen = np.flatnonzero(ok & (sent != NULL) & (position != _UNREAD))
        producer = _producers(facts, process[chosen])
        order = np.lexsort((sent[chosen], partition[chosen], producer))
        chosen = chosen[order]
        return Sent(
            begun_before,
            int(np.count_nonzero(ok)),
            numbering.things(chosen)[1],
            producer[order],
            partition[chosen],
            position[chosen],
            named_at[chosen] == position[chosen],
        )

    def judge(self, run: Run, sent: Sent) -> CheckResult:
        facts, compared = run.facts, len(sent.value)
        number = int(np.count_nonzero(swapped(sent)))
        seen_by_two = sent.named | np.isin(sent.partition, sorted(confirmed(facts)))
        proven = int(np.count_nonzero(swapped(sent.chosen(seen_by_two))))
        of = f"{counted(number, SWAPPED)}, of {compared:,} compared"
        examples, doubts = [], []
        if facts.promises.ordered and proven:
            examples.append(Statement("swapped", f"{counted(proven, SWAPPED)}, of {compared:,}"))
        elif facts.promises.ordered and number:
            doubts.append(Statement(DOUBTS.readers, f"{of}: no second library read them"))
        if not compared:
            doubts.append(Statement(DOUBTS.vacuous, "no acknowledged record was found to compare"))
        kept = f"all {compared:,} records stand in the order of their sending"
        return CheckResult(
            counts={
                "attempted": sent.attempted,
                "acknowledged": sent.acknowledged,
                "compared": compared,
                "swapped": number,
            },
            rates={"swapped": number / compared if compared else None},
            findings=_findings(facts.run_id, sent),
            counter_examples=tuple(examples),
            doubts=tuple(doubts),
            all_well=f"{of}, which the settings do not exclude" if number else kept,
        )


class Screen:
    """Whether a record may be swapped: in each stream, the records of one producer and partition as
    one reader returned them, positions only grow, and so do the places of first copies in the order
    of sending. Where they do, none is swapped. First all writes, then all reads; `possible`: what
    was seen so far."""

    def __init__(self, facts: Facts, size: int) -> None:
        self._facts, self._begun = facts, 0
        self._sent, self._producer = np.zeros(size, np.int32), np.zeros(size, np.uint16)
        self._seen = np.zeros(size, np.uint8)  # a bit for each reader
        self._last = np.full((2, _STREAMS * _READERS), NULL)
        self._readers: dict[str, int] = {}
        self.possible = False

    def write(self, process: Ints, numbers: Ints) -> None:
        """Take writes that began, in their order, whose values have these numbers."""
        begun, self._begun = self._begun, self._begun + len(numbers)
        producer = _producers(self._facts, process)
        streams = (int(producer.max(initial=0)) + 1) * self._facts.promises.partitions
        self.possible |= streams > _STREAMS or self._begun > min(_MOST, len(self._sent))
        if not self.possible:
            self._sent[numbers] = np.arange(begun, self._begun, dtype=np.int32)
            self._producer[begun : self._begun] = producer  # in the order of sending

    def read(self, rows: Reads, numbers: Ints, acknowledged: Bools) -> None:
        """Take records that were read, whose values have these numbers."""
        partitions, partition = self._facts.promises.partitions, rows.partition
        if self.possible or not len(numbers) or rows.offset.min() < 0:
            return
        known = [self._readers.setdefault(name, len(self._readers)) for name in rows.reader.names]
        if partition.min() < 0 or partition.max() >= partitions or len(self._readers) > _READERS:
            self.possible = True
            return
        reader = np.array([*known, 0], np.uint16)[rows.reader.codes if len(known) > 1 else [0]]
        for begin in range(0, len(numbers), _PIECE):
            piece = slice(begin, begin + _PIECE)
            number, by = numbers[piece], reader[piece] if len(reader) > 1 else reader
            sent = self._sent.take(number)
            stream = self._producer.take(sent) * np.uint16(partitions)
            stream += partition[piece].astype(np.uint16)
            stream = stream * np.uint16(_READERS) + by
            order = np.argsort(stream, kind="stable")
            seen, bit = self._seen.take(number), np.left_shift(1, by).astype(np.uint8)
            self._seen[number] = seen | bit
            first = acknowledged[piece] & (seen & bit == 0)
            if not self._grows(0, order, stream, first, sent):  # a further copy may be in the piece
                own = np.zeros(len(number), np.bool_)
                own[np.unique(number * _READERS + by, return_index=True)[1]] = True
                self.possible |= not self._grows(0, order, stream, first & own, sent)
            taken = acknowledged[piece]
            self.possible |= not self._grows(1, order, stream, taken, rows.offset[piece])

    def _grows(self, which: int, order: Ints, stream: Any, taken: Bools, column: Any) -> bool:
        """Whether these numbers grow within each stream, beyond the last ones of it."""
        order = np.compress(taken.take(order), order)
        if not len(order):
            return True
        stream, placed = stream.take(order), column.take(order)
        new = np.flatnonzero(stream[1:] != stream[:-1])
        falls = placed[1:] < placed[:-1]
        falls[new] = False
        first, last = np.append(0, new + 1), np.append(new, len(stream) - 1)
        before = self._last[which]
        if falls.any() or (placed[first] < before[stream[first]]).any():
            return False
        before[stream[last]] = placed[last]
        return True


_STREAMS, _READERS, _MOST = 2**14, 4, 2**31
"""Of more it is not seen."""
_PIECE: Final = 2**15
"""So many records at once stay in the processor's cache."""


def _producers(facts: Facts, process: Ints) -> Ints:
    """The producer of each process; a process by itself where producers may have changed."""
    shared = facts.promises.producers
    crashed = any(window.nemesis == _CRASHES for window in facts.windows)
    died = facts.clients is not None and facts.clients.deaths > 0
    return process if not shared or crashed or died else process % shared


def swapped(sent: Sent) -> Bools:
    """Which records stand behind one that was sent later. Positions get a base that grows with
    each stream, so that one running minimum from the end serves all of them."""
    placed = _placed(sent)
    least_after = np.minimum.accumulate(placed[::-1])[::-1]
    return np.append(placed[:-1] > least_after[1:], False)[: len(placed)]


def _placed(sent: Sent) -> Ints:
    new = np.diff(sent.producer, prepend=NULL) != 0
    new |= np.diff(sent.partition, prepend=NULL) != 0
    placed: Ints = (np.cumsum(new) - 1) * (int(sent.position.max(initial=0)) + 1) + sent.position
    return placed


def _findings(run_id: str, sent: Sent) -> pa.Table:
    """The first of them, each with the record that is furthest ahead of those sent later."""
    rows = []
    placed = _placed(sent)
    for at in np.flatnonzero(swapped(sent))[:_FINDINGS_MOST].tolist():
        later = at + 1 + int(np.argmin(placed[at + 1 :]))
        own = (sent.partition, sent.producer, sent.value, sent.position)
        others = (sent.value, sent.position)
        numbers = [*(int(each[at]) for each in own), *(int(each[later]) for each in others)]
        rows.append(Found("swapped", *numbers))
    return findings_table(Found, rows, run_id=run_id)

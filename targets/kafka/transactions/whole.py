"""A second reader of logs with transactions: our own, which gets everything, and says of each
record whether it committed by the markers in the log itself.

The consumers of the workload are librdkafka's, which filters what a broker returns by the list of
aborted transactions that the broker sends along. Here neither is trusted: batches and markers are
read as they are stored (`targets.kafka.log_reader`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from harness.models.micro_ops import DISCARDED, STORED, WHOLE, MicroOp
from harness.protocols import Bools, Cluster, Ints
from harness.protocols.transactions import NOT_AT_END
from targets.kafka.consumers import Reading
from targets.kafka.log_reader.fetching import read_log
from targets.kafka.log_reader.records import Span
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import source_of

_READ_S: Final = 30.0


def read_whole(cluster: Cluster, plan: KafkaPlan, goals: Mapping[int, int]) -> list[MicroOp] | str:
    """All records of some partitions of a topic up to their goals, whatever committed; a text: why
    they were not read."""
    deadline = time.monotonic() + _READ_S
    reading = Reading(starts=dict.fromkeys(goals, 0), goals=goals)
    with source_of(cluster, plan) as source:

        def leaders() -> Mapping[int, str | None]:
            return {partition: end.leader for partition, end in source.ends().items()}

        read_log(source.ask, leaders, plan.topic.name, reading, deadline)
    if reading.errors or not reading.ended():
        return next(iter(reading.errors.values()), NOT_AT_END).partition(":")[0]
    try:
        found = list(_records(reading))
    except Open:
        return NOT_AT_END
    return [*found, *(MicroOp(WHOLE, key, end) for key, end in goals.items())]


class Open(Exception):
    """A log has records whose transaction has no marker in it."""


def aborted(offsets: Ints, spans: Iterable[Span]) -> Bools:
    """Which of the records at these offsets were aborted, as a marker says; those of no transaction
    were not. Raises Open."""
    open_: dict[int, list[Span]] = {}
    gone: list[Span] = []
    for span in sorted(set(spans), key=lambda each: each.first):
        if span.commits is None:
            open_.setdefault(span.producer, []).append(span)
        elif (ended := open_.pop(span.producer, None)) and not span.commits:
            gone += ended
    if open_:
        raise Open
    gone.sort(key=lambda each: each.first)
    firsts, behinds = (np.array([each[n] for each in gone], np.int64) for n in (1, 2))
    before = np.searchsorted(firsts, offsets, side="right") - 1
    found: Bools = (before >= 0) & (offsets < np.append(behinds, 0)[before])
    return found


def _records(reading: Reading) -> Iterator[MicroOp]:
    table = reading.table("")
    partition, offset, value = (table[name].to_numpy() for name in ("partition", "offset", "value"))
    for number in reading.goals:
        rows = np.flatnonzero(partition == number)
        kinds = np.where(aborted(offset[rows], reading.spans.get(number, ())), DISCARDED, STORED)
        columns = (kinds, offset[rows], value[rows])
        for kind, at, each in zip(*(column.tolist() for column in columns), strict=True):
            yield MicroOp(kind, number, at, each)

"""The final read: every partition from its log start to its end, with either reader: our own
(`targets.kafka.log_reader`), or librdkafka.

The start and end of each partition, its leader and epoch are noted before and after; when they
changed in between and the read is not complete, everything is read again. Reading is
read_uncommitted and fails on an offset reset: what is missing was not there.

A partition is complete when its end was known and stayed, the reader met no error, stopped exactly
there, and handed over one record for each offset in between: appends are not transactional, so no
control record takes an offset. Only compaction leaves gaps; a topic that is compacted may have them
inside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harness.protocols import Cluster, End, NodeView, Range, with_role
from harness.run.observer import merge
from targets.kafka.asking import Connections
from targets.kafka.brokers import EARLIEST, LATEST, NO_EPOCH, offset
from targets.kafka.clients.library import CONFLUENT, OURS, bootstrap
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.consumers import (
    Reading,
    read_ranges_with_librdkafka,
    read_with_librdkafka,
)
from targets.kafka.log_reader.fetching import Ask, read_log
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import release_line_of

_TRIES: Final = 3
_POLICIES: Final = ("cleanup.policy", "log.cleanup.policy")


def read_all(
    cluster: Cluster, plan: KafkaPlan, *, reader: str, timeout_s: float
) -> tuple[pa.Table, list[End]]:
    """See `harness.protocols.Target.read_all`."""
    with source_of(cluster, plan) as source:
        return read_from(source, plan, reader=reader, timeout_s=timeout_s)


def read_ranges(
    cluster: Cluster,
    plan: KafkaPlan,
    ranges: Mapping[int, Sequence[Range]],
    *,
    timeout_s: float,
) -> tuple[pa.Table, list[End]]:
    """See `harness.protocols.ReadsRanges`."""
    with source_of(cluster, plan) as source:
        return read_ranges_from(source, plan, ranges, timeout_s=timeout_s)


@contextmanager
def source_of(cluster: Cluster, plan: KafkaPlan) -> Iterator[Source]:
    """One of our own clusters as the source to read from."""
    names = {node.name: node.address for node in with_role(cluster, "broker")}
    with Connections(names, BROKER_PORT, speaks=release_line_of(plan).speaks) as connections:
        yield Source(
            addresses=bootstrap(cluster), ends=partial(_ends, cluster, plan), ask=connections.ask
        )


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is read: the brokers' addresses, how the partitions' ends are determined and a broker
    is queried, and what librdkafka needs beside the addresses."""

    addresses: str
    ends: Callable[[], dict[int, End]]
    ask: Ask
    librdkafka: Mapping[str, Any] = field(default_factory=dict, repr=False)


def read_from(
    source: Source, plan: KafkaPlan, *, reader: str, timeout_s: float
) -> tuple[pa.Table, list[End]]:
    """Read every partition with the named reader: see `read_all`."""
    deadline = time.monotonic() + timeout_s
    read_with = {OURS: _read_columns, CONFLUENT: _read_with_librdkafka}[reader]
    for _ in range(_TRIES):
        before = source.ends()
        reading = Reading(
            starts={p: end.log_start_offset or 0 for p, end in before.items()},
            goals={p: end.end_offset for p, end in before.items() if end.end_offset is not None},
        )
        if not reading.ended():
            read_with(source, plan, reading, deadline)
        after = source.ends()
        ends = [_judged(end, after[p], reading, plan) for p, end in sorted(before.items())]
        if all(end.complete for end in ends) or not _changed(before, after):
            break
    return reading.table(reader), ends


def read_ranges_from(
    source: Source, plan: KafkaPlan, ranges: Mapping[int, Sequence[Range]], *, timeout_s: float
) -> tuple[pa.Table, list[End]]:
    """Read ranges of partitions by librdkafka: see `harness.protocols.ReadsRanges`."""
    deadline = time.monotonic() + timeout_s
    reading, ends = read_ranges_with_librdkafka(
        source.addresses, plan, ranges, deadline, source.librdkafka
    )
    return reading.table(CONFLUENT), [
        _judged_ranges(end, reading, ranges[partition], ends.get(partition))
        for partition, end in sorted(source.ends().items())
        if partition in ranges
    ]


def _judged_ranges(end: End, reading: Reading, ranges: Sequence[Range], met: int | None) -> End:
    """What was read of a partition, whose end the library `met`."""
    wanted = [np.empty(0, np.int64), *(np.arange(*each) for each in ranges)]
    why = reading.errors.get(end.partition)
    if why is None and met is None:
        why = "its end was not reported"
    if why is None and not np.array_equal(reading.offsets(end.partition), np.concatenate(wanted)):
        why = "not every offset of its ranges was read"
    return replace(end, position=met, complete=why is None, error=why, ranges=tuple(ranges))


def _read_columns(source: Source, plan: KafkaPlan, reading: Reading, deadline: float) -> None:
    def leaders() -> Mapping[int, str | None]:
        return {partition: end.leader for partition, end in source.ends().items()}

    read_log(source.ask, leaders, plan.topic.name, reading, deadline)


def _read_with_librdkafka(
    source: Source, plan: KafkaPlan, reading: Reading, deadline: float
) -> None:
    read_with_librdkafka(source.addresses, plan, reading, deadline, source.librdkafka)


def _changed(before: Mapping[int, End], after: Mapping[int, End]) -> bool:
    """Whether the log changed meanwhile: then, and only then, another attempt makes sense."""
    return any(_place(end) != _place(after[p]) for p, end in before.items())


def _place(end: End) -> tuple[int | str | None, ...]:
    return end.log_start_offset, end.end_offset, end.leader_epoch, end.leader


def _judged(before: End, after: End, reading: Reading, plan: KafkaPlan) -> End:
    """How far a partition was read, and what keeps it from being complete."""
    why = _why_not(before, after, reading, compacted=_compacted(plan))
    position = reading.position[before.partition]
    return replace(before, position=position, complete=why is None, error=why)


def _why_not(before: End, after: End, reading: Reading, *, compacted: bool) -> str | None:
    """Why it is not certain that everything was read; null if it is."""
    partition, start, end = before.partition, before.log_start_offset, before.end_offset
    if start is None or end is None:
        return "no leader reported where it begins and ends"
    if error := reading.errors.get(partition):
        return error
    if (after.leader_epoch, after.end_offset) != (before.leader_epoch, end):
        was, became = f"{before.leader_epoch}, {end}", f"{after.leader_epoch}, {after.end_offset}"
        return f"leader epoch and end changed from {was} to {became} while it was read"
    if after.leader != before.leader:  # brokers before 2.1 report no epoch to clients
        return f"its leader changed from {before.leader} to {after.leader} while it was read"
    if before.leader_epoch == NO_EPOCH and len(brokers := reading.brokers.get(partition, ())) > 1:
        return f"it was read from several leaders, {', '.join(sorted(brokers))}"
    if (position := reading.position[partition]) != end:
        return f"read up to offset {position}, its end is {end}"
    return _gap(reading.offsets(partition), start, end, compacted=compacted)


def _gap(offsets: NDArray[np.int64], start: int, end: int, *, compacted: bool) -> str | None:
    """The first offset that does not follow the one before it; null if all do."""
    steps = np.diff(offsets, prepend=start - 1, append=end)
    wrong = np.flatnonzero(steps < 1 if compacted else steps != 1)
    if not wrong.size:
        return None
    at = int(wrong[0])
    last, step = int([start - 1, *offsets[:at]][-1]), int(steps[at])
    if step < 1 and at == len(offsets):
        return f"offset {last} is not before the end, {end}"
    if step < 1:
        return f"offset {last + step} came after {last}"
    return f"no record at offset {last + 1}: {last + step} came next"


def _compacted(plan: KafkaPlan) -> bool:
    requested = {**plan.target.settings, **plan.topic.settings}
    return any("compact" in str(requested.get(policy, "")) for policy in _POLICIES)


def _ends(cluster: Cluster, plan: KafkaPlan) -> dict[int, End]:
    """Log start and end of every partition as its leader reports them."""
    mode = mode_of(plan)

    def reported(leader: str, partition: int, which: int) -> int | None:
        return offset(cluster.nodes[leader], plan, partition, which)

    answers = [mode.observe(node, plan, timeout_s=2) for node in cluster.nodes.values()]
    return ends_of([view for view in answers if view], plan, reported)


def ends_of(
    answers: Sequence[NodeView], plan: KafkaPlan, reported: Callable[[str, int, int], int | None]
) -> dict[int, End]:
    """Log start and end of every partition as its leader reports them (`reported`, by the leader's
    name, the partition, and EARLIEST or LATEST); the leader is the one that all nodes' answers
    together name."""
    views = merge(0, [(0, view) for view in answers]).partitions
    ends = {}
    for partition in range(plan.topic.partitions):
        view = views.get(partition)
        leader = view.leader if view else None
        ends[partition] = End(
            partition=partition,
            log_start_offset=reported(leader, partition, EARLIEST) if leader else None,
            end_offset=reported(leader, partition, LATEST) if leader else None,
            position=None,
            leader=leader,
            leader_epoch=view.leader_epoch if view else None,
            members=view.members if view else (),
            complete=False,
        )
    return ends

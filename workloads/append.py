"""Appends of unique integers: what is acknowledged must be read back once the cluster is fully
replicated; and, where a group of consumers reads them meanwhile, what is committed must have been
processed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.models import APPEND, GROUP, LOG
from harness.protocols import NULL, Script, Workload
from harness.protocols.groups import GroupSettings


def increasing(process: int, processes: int, partitions: int) -> Script:
    """Process p of P appends p, p + P, p + 2 P ... to every partition in turn: dense when all are
    equally fast."""
    value, partition = process, process % partitions
    while True:
        yield APPEND, value, partition, None, NULL
        value += processes
        partition = (partition + 1) % partitions


@dataclass(frozen=True)
class Append(Workload):
    """Each process appends increasing integers, unique in the run, to every partition in turn."""

    plugin: ClassVar[str] = "append"
    model: ClassVar[str] = LOG.name

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        return increasing(process, processes, partitions)


@dataclass(frozen=True, kw_only=True)
class Consume(GroupSettings, Append):
    """As `append`, and one group of consumers reads meanwhile.

    members_count      consumers from the start
    protocol           who assigns partitions: range, cooperative-sticky (a member of the group),
                       consumer (the system itself), manual (none: each takes its share)
    commit             after: after each batch, waiting for the answer; before: before the batch is
                       processed; async: after each batch, without waiting; auto: the library does
    commit_partitions  own: commits are of partitions that the member owns; read: of all that it has
                       ever read, as of one that keeps its offsets when others take a partition over
    commit_interval_s  auto only: how often; by default 1
    reset              where to begin without a committed offset: earliest, latest
    batch_count        records of a batch, at most
    process_ms         how long one record takes
    session_s          a member that is not heard of for so long is removed
    """

    plugin: ClassVar[str] = "consume"
    model: ClassVar[str] = GROUP.name

"""What a consumer's process does, whatever its library: consume, process, commit, and report it to
the harness: one JSON list a line, each one write.

It leaves by SIGTERM, as an operator's stop would have it; SIGKILL and SIGSTOP are the harness'. A
line is shorter than what a pipe takes in one piece, so a process that is killed leaves complete
lines and at most one that is cut off, which is dropped. Times are of CLOCK_MONOTONIC, in
nanoseconds: the processes of one machine share it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from harness.words import FAIL, INFO, KINDS, OK, Delivery

_AT_ONCE: Final = 60
"""Records of one line."""

Where = Sequence[tuple[int, int | None, int | None]]
"""Partition, offset and value of some records; no value: of a commit or an assignment."""


class Report(NamedTuple):
    """One line: what happened, when it began and ended, how, to which records."""

    f: str
    begun_ns: int
    time_ns: int
    type: str
    member: str | None
    generation: int | None
    error: str | None
    where: Where

    def rows(self, consumer: str, life: int) -> Iterator[Delivery]:
        """As rows of `deliveries/`."""
        nowhere: Sequence[tuple[int | None, int | None, int | None]] = [(None, None, None)]
        for partition, offset, value in self.where or nowhere:
            yield Delivery(
                *(self.f, self.begun_ns, self.time_ns, self.type),
                consumer=consumer,
                life=life,
                member=self.member,
                generation=self.generation,
                partition=partition,
                offset=offset,
                value=value,
                error=self.error,
            )


def parsed(line: bytes) -> Report | None:
    """A line; `None` for one that is cut off."""
    try:
        report = Report(*json.loads(line))
    except (ValueError, TypeError):
        return None
    return report if report.f in KINDS else None


class Reporter:
    """Writes the lines of one process; `identity` says its member id and generation now."""

    def __init__(self, identity: Callable[[], tuple[str | None, int | None]]) -> None:
        self._identity, self._stdout = identity, os.dup(1)
        os.dup2(2, 1)  # what a library prints is not a line of ours

    def say(
        self,
        f: str,
        where: Where = (),
        *,
        begun_ns: int | None = None,
        type_: str = OK,
        error: str | None = None,
    ) -> None:
        """Write what happened; records of a batch in lines of a few."""
        now_ns = time.monotonic_ns()
        member, generation = self._identity()
        for first in range(0, max(1, len(where)), _AT_ONCE):
            some = list(where[first : first + _AT_ONCE])
            begun = now_ns if begun_ns is None else begun_ns
            report: list[Any] = [f, begun, now_ns, type_, member, generation, error, some]
            os.write(self._stdout, json.dumps(report, separators=(",", ":")).encode() + b"\n")


def end_with_the_harness() -> None:
    """End this process when the harness, which holds the other end of its stdin, has ended."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


Record = tuple[int, int, int]
"""Partition, offset, value."""

Offsets = Mapping[int, int]
"""Offsets by partition."""

ONE_ATTEMPT_NS: Final = 50_000_000
"""Less than any library waits between two attempts (100 ms, librdkafka 20 % less at times): what
was answered sooner was sent once."""


class Answer(NamedTuple):
    """How the commit of a partition's offset ended. `refused`: the attempt that was answered was
    not kept for sure; after any other error it is not known."""

    partition: int
    offset: int
    error: str | None = None
    refused: bool = False


class HandedOver:
    """When records were handed over, by the offset after them: before, nobody committed that."""

    def __init__(self) -> None:
        self._born_ns = time.monotonic_ns()
        self._assigned_ns: dict[int, int] = {}
        self._ends: dict[int, list[int]] = {}
        self._begun_ns: dict[int, list[int]] = {}

    def assigned(self, partition: int, begun_ns: int) -> None:
        """A partition was assigned."""
        self._assigned_ns[partition] = begun_ns

    def note(self, batch: Iterable[Record], begun_ns: int) -> None:
        """A poll that began then has given these."""
        for partition, end in {partition: offset + 1 for partition, offset, _ in batch}.items():
            ends = self._ends.setdefault(partition, [])
            if not ends or end > ends[-1]:  # else a greater one was handed over earlier
                ends.append(end)
                self._begun_ns.setdefault(partition, []).append(begun_ns)

    def since(self, partition: int, offset: int) -> int:
        """Since when an offset may have been committed: the first poll that came so far; where none
        did, since the partition's last assignment."""
        ends = self._ends.get(partition, [])
        at = bisect_left(ends, offset)
        if at < len(ends):
            return self._begun_ns[partition][at]
        return self._assigned_ns.get(partition, self._born_ns)


class ConsumerLoop(ABC):
    """The consumer of a process; a library fills in how it polls and commits."""

    sends_again: ClassVar[bool] = True
    """Whether the library sends a commit that nobody waits for again, if its answer is lost."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self.topic, self.commits = setup["topic"], setup["commit"]
        self._own_only = setup["commit_partitions"] == "own"
        self.batch, self._process_s = setup["batch_count"], setup["process_ms"] / 1000
        self._leaving = False
        self._starts: dict[int, int | None] = {}
        self._passed: dict[int, int] = {}
        self._read: dict[int, int] = {}
        self._under_way: dict[tuple[int, int], int] = {}
        self._handed = HandedOver()
        self.report = Reporter(self.identity)

    @abstractmethod
    def poll(self) -> list[Record]:
        """The next records, of one batch at most; waits a little for the first."""

    @abstractmethod
    def commit_and_wait(self, offsets: Offsets) -> Iterable[Answer]:
        """Commit, and wait until it is answered."""

    @abstractmethod
    def commit_soon(self, offsets: Offsets) -> None:
        """Commit without waiting; `answered` is called later."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""

    @abstractmethod
    def identity(self) -> tuple[str | None, int | None]:
        """The member id, and the generation or member epoch, as the library knows them now."""

    def run(self) -> None:
        """Consume until it is to leave."""
        signal.signal(signal.SIGTERM, self._leave)
        while not self._leaving:
            begun_ns = time.monotonic_ns()
            if batch := self.poll():
                self._handed.note(batch, begun_ns)
                self._take(batch)
        for partition, start in self._starts.items():
            position = self._passed.get(partition, start)
            if position is not None:
                self.report.say(KINDS.position, [(partition, position, None)])
        self.close()
        self.report.say(KINDS.stop)

    def answered(self, answers: Iterable[Answer], begun_ns: int | None = None) -> None:
        """Report how commits ended. If it is not known when one began, it was one of `commit_soon`,
        or the library's own: that began when its last record was handed over, or later.

        An answer refuses a commit only if no earlier attempt can have been kept, whose answer was
        lost."""
        now_ns = time.monotonic_ns()
        for answer in answers:
            began, waited = begun_ns, begun_ns is not None
            if began is None:
                key = (answer.partition, answer.offset)
                began = self._under_way.pop(key, None) or self._handed.since(*key)
            once = now_ns - began < ONE_ATTEMPT_NS or not (waited or self.sends_again)
            refused = FAIL if answer.refused and once else INFO
            self.report.say(
                KINDS.commit,
                [(answer.partition, answer.offset, None)],
                begun_ns=began,
                type_=OK if answer.error is None else refused,
                error=answer.error,
            )

    def assigned(
        self, starts: Mapping[int, int | None], begun_ns: int, error: str | None = None
    ) -> None:
        """Partitions were assigned, with what is committed of each; `error`: it is not known."""
        where: Where = [(partition, offset, None) for partition, offset in starts.items()]
        asked = OK if error is None else INFO
        self.report.say(KINDS.committed, where, begun_ns=begun_ns, type_=asked, error=error)
        for partition, offset in starts.items():
            self._starts[partition] = offset
            self._passed.pop(partition, None)
            self._handed.assigned(partition, begun_ns)
        self.report.say(KINDS.assign, where, begun_ns=begun_ns)

    def revoked(self, partitions: Iterable[int], error: str | None = None) -> None:
        """Partitions are no longer its own."""
        gone = list(partitions)
        where = [(partition, self._passed.get(partition), None) for partition in gone]
        if where:
            self.report.say(KINDS.revoke, where, error=error)
        for partition in gone:
            self._starts.pop(partition, None)

    def _leave(self, *_: object) -> None:
        self._leaving = True

    def _take(self, batch: list[Record]) -> None:
        self.report.say(KINDS.deliver, batch)
        following = {partition: offset + 1 for partition, offset, _ in batch}
        if self.commits == "before":
            self._commit(following)
        for record in batch:
            begun_ns = time.monotonic_ns()
            time.sleep(self._process_s)
            self.report.say(KINDS.process, [record], begun_ns=begun_ns)
        self._passed |= following
        if self.commits in ("after", "async"):
            self._commit(following)

    def _commit(self, offsets: Offsets) -> None:
        """Commit offsets of the partitions that are still its own; or of all that it has read."""
        if self._own_only:
            own = {p: offset for p, offset in offsets.items() if p in self._starts}
        else:
            self._read |= offsets
            own = dict(self._read)
        if not own:
            return
        begun_ns = time.monotonic_ns()
        where = [(partition, offset, None) for partition, offset in own.items()]
        self.report.say(KINDS.commit, where, begun_ns=begun_ns, type_="invoke")
        if self.commits == "async":
            self._under_way |= dict.fromkeys(own.items(), begun_ns)
            self.commit_soon(own)
        else:
            self.answered(self.commit_and_wait(own), begun_ns)

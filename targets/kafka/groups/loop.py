"""What a consumer's process does, whatever its library: consume, process, commit, report.

It leaves by SIGTERM, as an operator's stop would have it; SIGKILL and SIGSTOP are the harness'.
"""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from harness.words import FAIL, INFO, KINDS, OK
from targets.kafka.groups.lines import Reporter, Where

Record = tuple[int, int, int]
"""Partition, offset, value."""

Offsets = Mapping[int, int]
"""Offsets by partition."""


class Answer(NamedTuple):
    """How the commit of a partition's offset ended. `refused`: it was not kept for sure; after any
    other error nobody knows."""

    partition: int
    offset: int
    error: str | None = None
    refused: bool = False


class ConsumerLoop(ABC):
    """The consumer of a process; a library fills in how it polls and commits."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self.topic, self.commits = setup["topic"], setup["commit"]
        self.batch, self._process_s = setup["batch_count"], setup["process_ms"] / 1000
        self._interval_ns = round(setup["interval_s"] * 1e9)
        self._leaving = False
        self._starts: dict[int, int | None] = {}
        self._passed: dict[int, int] = {}
        self._under_way: dict[tuple[int, int], int] = {}
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
            if batch := self.poll():
                self._take(batch)
        for partition, start in self._starts.items():
            position = self._passed.get(partition, start)
            if position is not None:
                self.report.say(KINDS.position, [(partition, position, None)])
        self.close()
        self.report.say(KINDS.stop)

    def answered(self, answers: Iterable[Answer], begun_ns: int | None = None) -> None:
        """Report how commits ended. Where nobody says when one began, it was one of `commit_soon`,
        or the library's own: that is taken to have begun one interval earlier, never now."""
        now_ns = time.monotonic_ns()
        for answer in answers:
            began = begun_ns
            if began is None:
                key = (answer.partition, answer.offset)
                began = self._under_way.pop(key, now_ns - self._interval_ns)
            refused = FAIL if answer.refused else INFO
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
        """Commit offsets of the partitions that are still its own."""
        own = {p: offset for p, offset in offsets.items() if p in self._starts}
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

"""What a consumer's process writes to the harness: one JSON list a line, each one write.

A line is shorter than what a pipe takes in one piece, so a process that is killed leaves complete
lines and at most one that is cut off, which is dropped. Times are of CLOCK_MONOTONIC, in
nanoseconds: the processes of one machine share it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from harness.words import KINDS, OK, Delivery

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

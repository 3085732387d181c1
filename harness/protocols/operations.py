"""Operations, and the workloads and clients that make them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import ClassVar, Protocol, runtime_checkable

# Plain tuples: flat out, hundreds of thousands are made a second, and a named tuple takes five
# times as long to make and four times as long to take apart.

Invoke = tuple[str, int, int, str | None]
"""What a process wants to do next: (f, value, partition, key). Workloads yield these."""

OK, FAIL, INFO = "ok", "fail", "info"

Completion = tuple[str, int | None, str | None, str | None]
"""How an operation ended: (type, offset, error, node); `type` is ok (surely happened), fail (surely
did not) or info (unknown), `error` the name of what was answered."""


def invoke(f: str, value: int, partition: int, key: str | None = None) -> Invoke:
    """An Invoke with its parts named."""
    return f, value, partition, key


def completion(
    type_: str, offset: int | None = None, error: str | None = None, node: str | None = None
) -> Completion:
    """A Completion with its parts named."""
    return type_, offset, error, node


Script = Generator[Invoke, Completion, None]


@runtime_checkable
class Workload(Protocol):
    """Pure scripts: one generator per process, `completion = yield invoke(...)`.

    Scripts never sleep, never read a clock and never draw from anything but what they are given:
    rate, time limit, crash and replacement of a process belong to the interpreter. When an
    operation ends in info, its process is retired, and the same script is played on by a new
    process, old + `processes`: so whatever a script counts goes on counting.
    """

    plugin: ClassVar[str]

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """The script of one of the first processes, 0 <= `process` < `processes`. Values that it
        writes are unique over all scripts of a run."""
        ...


Done = Callable[[int, Completion], None]
"""Told the process and how its operation ended."""


class Client(Protocol):
    """A client of the system under test that many processes share; one thread calls all of it.

    Each operation that was taken is completed exactly once, from inside `poll` or `close`.
    """

    def submit(self, process: int, op: Invoke) -> bool:
        """Begin an operation. False: the client's queue is full, nothing was attempted, poll."""
        ...

    def poll(self, timeout_s: float, done: Done) -> None:
        """Complete what has been answered; waits at most `timeout_s` for the first answer."""
        ...

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is in flight, then complete the rest as info, and disconnect."""
        ...

"""Operations, and the workloads that generate and the clients that execute them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from pathlib import PurePath
from traceback import walk_tb
from typing import Any, ClassVar, Protocol

from harness.protocols.runs import NULL
from harness.words import FAIL as FAIL
from harness.words import INFO as INFO
from harness.words import OK as OK

# Plain tuples: at full speed, hundreds of thousands are made a second, and a named tuple takes five
# times as long to make and four times as long to take apart.

Expected = int | tuple[int, ...]
"""What a compare-and-set must find; or, as a tuple, the micro-operations that a transaction is to
do (`harness.models.micro_ops`), which the history keeps in the column `elements`."""

Invoke = tuple[str, int, int, str | None, Expected]
"""What a process wants to do next: (f, value, partition, key, expected). Workloads yield these. A
number that an operation does not have is NULL."""

Result = int | tuple[int, ...] | None
"""What was read: a value, or all elements of a set; `None` is not a value."""

Completion = tuple[str, int | None, str | None, str | None, Result]
"""How an operation ended: (type, offset, error, node, result); `type` is ok (certainly happened),
fail (certainly did not) or info (unknown), `offset` the place or version that the system returned,
`error` the name of the error that it returned."""


def invoke(
    f: str,
    value: int | None = None,
    partition: int | None = None,
    key: str | None = None,
    expected: Expected | None = None,
) -> Invoke:
    """An Invoke with its parts named."""
    value, partition = (NULL if n is None else n for n in (value, partition))
    return f, value, partition, key, NULL if expected is None else expected


def completion(
    type_: str,
    offset: int | None = None,
    error: str | None = None,
    node: str | None = None,
    result: Result = None,
) -> Completion:
    """A Completion with its parts named."""
    return type_, offset, error, node, result


_MISTAKES = (TypeError, AttributeError, NameError, LookupError, NotImplementedError)


def raised(error: BaseException) -> Completion:
    """How an operation ended whose client raised: unknown, with the reason. An exception that a
    mistake in a program raises, and not a system, has its place: the author of the client must find
    it."""
    name = type(error).__name__
    if not isinstance(error, _MISTAKES):
        return completion(INFO, error=name)
    message = "" if isinstance(error, LookupError) else f": {error}".splitlines()[0]  # keys differ
    places = [
        f" ({PurePath(frame.f_code.co_filename).name}, line {line})"
        for frame, line in walk_tb(error.__traceback__)
    ]
    return completion(INFO, error=f"{name}{message:.100}{places[-1] if places else ''}")


Script = Generator[Invoke, Completion, None]


class Workload(ABC):
    """Pure scripts: one generator per process, `completion = yield invoke(...)`.

    Scripts never sleep, never read a clock and never draw from anything but their arguments: rate,
    time limit, crash and replacement of a process belong to the interpreter. When an operation ends
    in info, its process is retired, and the same script continues in a new process, old +
    `processes`: so whatever a script counts continues.
    """

    plugin: ClassVar[str]
    model: ClassVar[str]
    """The name of the model of its operations (`harness.models`)."""
    checks: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """What judges it, as in a plan, unless the plan says; none: the checker of its model."""

    @abstractmethod
    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """The script of one of the first processes, 0 <= `process` < `processes`: at least one
        operation, of the functions of its model. Values that it writes are unique over all scripts
        of a run, those of registers under their key; in a log, 0 <= partition < `partitions`."""

    def final(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """What one of the processes does at the end, once and at full speed, when all faults are
        healed, the cluster has recovered, and every operation of `script` has completed: at least
        one operation, and an end. `process` is numbered as for `script`."""
        raise NotImplementedError

    @classmethod
    def has_final(cls) -> bool:
        """Whether it has a final script."""
        return cls.final is not Workload.final


Done = Callable[[int, Completion], None]
"""Called with the process and how its operation ended."""


class Client(Protocol):
    """A client of the system under test that many processes share; one thread makes all calls.

    Each operation that was accepted is completed exactly once, from inside `poll` or `close`. What
    a client raises ends operations in info, with the exception's name (`harness.run.load`):
    from `submit` the submitted one, from `poll` and `close` all that are in flight. Only an
    AcklossError, which is the harness' own, and a KeyboardInterrupt end the run.
    """

    @abstractmethod
    def submit(self, process: int, op: Invoke) -> bool:
        """Begin an operation. False: the client's queue is full, nothing was attempted, poll."""

    @abstractmethod
    def poll(self, timeout_s: float, done: Done) -> None:
        """Complete what has been answered; waits at most `timeout_s` for the first answer."""

    @abstractmethod
    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is in flight, then complete the rest as info, and disconnect."""


class BlockingClient(Protocol):
    """A client that serves one operation at a time, and returns when it has ended. Many of them
    become a `Client` by `harness.run.client_pool.ThreadedClient`."""

    @abstractmethod
    def call(self, op: Invoke) -> Completion:
        """Execute one operation and wait until it has ended. Whatever this raises makes it info."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect. Called from another thread while `call` waits, it should make `call` end."""

"""What transactions need of a producer, whatever its library: one instance, from its start, which
fences those before it, to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

Answered = Callable[[int, int], object]
"""Takes the value and the offset of a send that was acknowledged."""


class ClientError(Exception):
    """What a library could not do, by the name of the error. `aborts`: what is open can be aborted,
    and the instance then continues."""

    def __init__(self, name: str, *, aborts: bool = False) -> None:
        super().__init__(name)
        self.name, self.aborts = name, aborts


class Consumed(NamedTuple):
    """How far a member of a group has consumed: offsets by partition of one topic. `metadata`:
    which member, as librdkafka says it."""

    metadata: object
    topic: str
    offsets: Mapping[int, int]


class TransactionalProducer(ABC):
    """One instance; it has fenced those before it when it is made. Used by one thread. All that
    waits raises ClientError."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Send a value; it is answered while a thread serves."""

    @abstractmethod
    def serve(self, wait_s: float) -> None:
        """Take answers for at most so long; returns when some have come."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether sends are not answered yet."""

    @abstractmethod
    def store(self, consumed: Consumed, within_s: float) -> None:
        """Have the transaction take offsets of a group along."""

    @abstractmethod
    def commit(self, within_s: float) -> None:
        """Commit."""

    @abstractmethod
    def abort(self, within_s: float) -> None:
        """Abort."""

    @abstractmethod
    def abandon(self) -> None:
        """Do nothing more: nothing is flushed, aborted or closed. What is open is left to its
        coordinator."""


Begin = Callable[[Answered], TransactionalProducer]
"""Makes an instance. Raises ClientError."""

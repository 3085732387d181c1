"""A transactional producer of Kafka's Java client, at the other end of a connection: the lines that
`Transactor.java` explains."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Final

from targets.kafka.clients.java.lines import Line, Lost, Refused
from targets.kafka.membership import membership
from targets.kafka.transactions.producing import (
    Answered,
    ClientError,
    Consumed,
    TransactionalProducer,
)

LOST: Final = "_CLIENT_LOST"
"""The error where the JVM is gone."""

_TIMED_OUT: Final = "_TIMED_OUT"
_NO_MEMBER: Final = "_NO_MEMBER"
_WRITTEN_S: Final = 0.05
_LOCAL_S: Final = 5.0
"""How long a call without a request to a broker may take."""

Connect = Callable[[float], Line]
"""Begins a producer within so many seconds. Raises Lost, Refused."""


class JavaProducer(TransactionalProducer):
    """See `TransactionalProducer`. After a failed commit an instance is not used again: what it may
    still do is not queried."""

    def __init__(self, connect: Connect, answered: Answered, *, within_s: float) -> None:
        self._answered, self._waiting = answered, set[int]()
        try:
            self._line = connect(within_s)
        except (Lost, Refused) as error:
            raise ClientError(LOST) from error
        try:
            self._ask("init", within_s)
        except ClientError:
            self.abandon()
            raise

    def begin(self) -> None:
        """See `TransactionalProducer`."""
        self._ask("transaction", _LOCAL_S)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        """See `TransactionalProducer`."""
        self._waiting.add(int(value))
        self._line.say(f"send {topic} {partition} {value.decode()}")
        self._flush()

    def serve(self, wait_s: float) -> None:
        """See `TransactionalProducer`."""
        for words in self._heard(wait_s):
            self._take(words)

    @property
    def waits(self) -> bool:
        """See `TransactionalProducer`."""
        return bool(self._waiting)

    def store(self, consumed: Consumed, within_s: float) -> None:
        """See `TransactionalProducer`."""
        who = membership(consumed.metadata)
        if who is None or not who.member:
            raise ClientError(_NO_MEMBER)
        offsets = ",".join(f"{partition}={at}" for partition, at in consumed.offsets.items())
        group = f"{who.generation} {who.group} {who.member}"
        self._ask(f"offsets {consumed.topic} {group} {offsets}", within_s)

    def commit(self, within_s: float) -> None:
        """See `TransactionalProducer`."""
        self._ask("commit", within_s)

    def abort(self, within_s: float) -> None:
        """See `TransactionalProducer`."""
        self._ask("abort", within_s)

    def abandon(self) -> None:
        """See `TransactionalProducer`: the connection ends, and the producer with it."""
        self._line.socket.close()

    def _ask(self, line: str, within_s: float) -> None:
        """Say what is answered once it is done. Where that takes too long, the instance is not used
        again: the answer may come later. Raises ClientError."""
        deadline = time.monotonic() + within_s
        self._line.say(line)
        self._flush()
        while (left_s := deadline - time.monotonic()) > 0:
            ended: list[bytes] | None = None
            for words in self._heard(left_s):
                if words[0] in (b"done", b"failed"):
                    ended = words
                else:
                    self._take(words)
            if ended is not None:
                if ended[0] == b"failed":
                    raise ClientError(ended[1].decode())
                return
        self.abandon()
        raise ClientError(_TIMED_OUT)

    def _take(self, words: list[bytes]) -> None:
        """A send was answered."""
        value = int(words[0])
        self._waiting.discard(value)
        if words[1] == b"sent":
            self._answered(value, int(words[2]))

    def _heard(self, wait_s: float) -> list[list[bytes]]:
        try:
            select.select([self._line.socket], [], [], wait_s)
            return self._line.answers()
        except (Lost, ValueError) as error:  # ValueError: it was closed
            raise ClientError(LOST) from error

    def _flush(self) -> None:
        try:
            while not self._line.flush():
                select.select([], [self._line.socket], [], _WRITTEN_S)
        except (OSError, ValueError) as error:
            raise ClientError(LOST) from error

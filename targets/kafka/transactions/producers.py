"""A transactional producer of either library: one instance, from its start, which fences those
before it, to its end. The Java client's is at the other end of a connection: the lines that
`Transactor.java` explains.
"""

from __future__ import annotations

import logging
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from targets.kafka.clients.java import Line, Lost, Refused
from targets.kafka.groups.librdkafka import membership

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


_LOG: Final = logging.getLogger("ackloss.kafka.producer")

_CALL_S: Final = 3.0
"""How long librdkafka waits within one call; it continues with the same call again."""


@contextmanager
def named() -> Iterator[None]:
    """What librdkafka raises, by its name."""
    try:
        yield
    except KafkaException as error:
        why = error.args[0]
        raise ClientError(str(why.name()), aborts=why.txn_requires_abort()) from error
    except BufferError as error:
        raise ClientError("_QUEUE_FULL") from error


class LibrdkafkaProducer(TransactionalProducer):
    """See `TransactionalProducer`. It is not closed, which would abort, also while another call of
    it is in progress: it ends with its last reference."""

    def __init__(self, settings: Mapping[str, str], answered: Answered, *, within_s: float) -> None:
        self._answered = answered
        self._one = Producer(dict(settings), logger=_LOG)
        with named():
            self._one.init_transactions(within_s)

    def begin(self) -> None:
        with named():
            self._one.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        with named():
            self._one.produce(topic, value, partition=partition, on_delivery=self._delivered)

    def serve(self, wait_s: float) -> None:
        with named():
            self._one.poll(wait_s)

    @property
    def waits(self) -> bool:
        return len(self._one) > 0

    def store(self, consumed: Consumed, within_s: float) -> None:
        places = [TopicPartition(consumed.topic, *each) for each in consumed.offsets.items()]
        with named():
            self._one.send_offsets_to_transaction(places, consumed.metadata, within_s)

    def commit(self, within_s: float) -> None:
        _again(self._one.commit_transaction, within_s)

    def abort(self, within_s: float) -> None:
        _again(self._one.abort_transaction, within_s)

    def abandon(self) -> None:
        with suppress(KafkaException):
            self._one.purge(blocking=False)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and value is not None:
            self._answered(int(value), offset)


def _again(call: Callable[[float], object], within_s: float) -> None:
    """Go on with a call that is not over yet."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            call(min(_CALL_S, within_s))
        except KafkaException as error:
            if error.args[0].retriable() and time.monotonic() < deadline:
                continue
            with named():
                raise
        return


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
        self._ask("transaction", _LOCAL_S)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._waiting.add(int(value))
        self._line.say(f"send {topic} {partition} {value.decode()}")
        self._flush()

    def serve(self, wait_s: float) -> None:
        for words in self._heard(wait_s):
            self._take(words)

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def store(self, consumed: Consumed, within_s: float) -> None:
        who = membership(consumed.metadata)
        if who is None or not who.member:
            raise ClientError(_NO_MEMBER)
        offsets = ",".join(f"{partition}={at}" for partition, at in consumed.offsets.items())
        group = f"{who.generation} {who.group} {who.member}"
        self._ask(f"offsets {consumed.topic} {group} {offsets}", within_s)

    def commit(self, within_s: float) -> None:
        self._ask("commit", within_s)

    def abort(self, within_s: float) -> None:
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

"""A transactional producer of librdkafka's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from targets.kafka.transactions.producing import (
    Answered,
    ClientError,
    Consumed,
    TransactionalProducer,
)

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
        """See `TransactionalProducer`."""
        with named():
            self._one.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        """See `TransactionalProducer`."""
        with named():
            self._one.produce(topic, value, partition=partition, on_delivery=self._delivered)

    def serve(self, wait_s: float) -> None:
        """See `TransactionalProducer`."""
        with named():
            self._one.poll(wait_s)

    @property
    def waits(self) -> bool:
        """See `TransactionalProducer`."""
        return len(self._one) > 0

    def store(self, consumed: Consumed, within_s: float) -> None:
        """See `TransactionalProducer`."""
        places = [TopicPartition(consumed.topic, *each) for each in consumed.offsets.items()]
        with named():
            self._one.send_offsets_to_transaction(places, consumed.metadata, within_s)

    def commit(self, within_s: float) -> None:
        """See `TransactionalProducer`."""
        _again(self._one.commit_transaction, within_s)

    def abort(self, within_s: float) -> None:
        """See `TransactionalProducer`."""
        _again(self._one.abort_transaction, within_s)

    def abandon(self) -> None:
        """See `TransactionalProducer`."""
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

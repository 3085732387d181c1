"""One transactional producer (librdkafka), and what became of its transactions.

    ok    the commit was acknowledged
    fail  the commit was never requested: it was to be aborted, or a send could not be made
    info  the commit was requested and did not succeed, whatever the answer: a broker may have
          committed and its answer be lost, or answer an error for a commit that it has done

After a failure that `abort_transaction` does not mend, such as being fenced, the instance is of no
use: the next transaction makes another one of the same transactional id, which fences the old one
and has its open transaction aborted.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from harness.models.micro_ops import ABORT, SEND, MicroOp, elements_of, micro_ops
from harness.protocols import FAIL, INFO, NULL, OK, Completion, Invoke, completion
from harness.protocols.transactions import ABORTED

_LOG: Final = logging.getLogger("ackloss.kafka.producer")

# An instance is closed because it is of no use; that it cannot abort either says nothing new.
warnings.filterwarnings("ignore", "Producer abort_transaction failed during close", RuntimeWarning)

_CALL_S: Final = 3.0
"""How long librdkafka waits within one call; it goes on with the same call again."""
_BETWEEN_S: Final = 0.05
_ANSWERS_S: Final = 0.5


class Unsent(Exception):
    """A transaction whose commit was not requested; its words are the error."""


class TransactionWriter:
    """A producer that is made when it is needed. Used by one thread."""

    def __init__(
        self, settings: Mapping[str, str], topic: str, *, pause_ms: float, within_s: float
    ) -> None:
        """`within_s`: how long beginning, sending and committing may take each."""
        self._settings, self._topic = settings, topic
        self._pause_s, self._within_s = pause_ms / 1000, within_s
        self._producer: Producer | None = None
        self._offsets: dict[bytes, int] = {}

    def run(self, op: Invoke) -> Completion:
        """Run one transaction, of which an operation says what it is to do."""
        expected = op[4]
        asked = list(micro_ops(expected)) if isinstance(expected, tuple) else []
        self._offsets.clear()
        sends = [each for each in asked if each.kind == SEND]
        try:
            producer = self._begun()
            self._send(producer, sends)
        except Unsent as why:
            self._abort()
            return completion(FAIL, error=str(why))
        if any(each.kind == ABORT for each in asked):
            self._abort()
            return completion(FAIL, error=ABORTED)
        error = self._commit(producer)
        sent = elements_of(*(self._placed(each) for each in sends))
        if error is not None:
            return completion(INFO, error=error, result=sent)
        return completion(OK, result=sent)

    def close(self) -> None:
        """End the instance; what is open is left to its coordinator."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                producer.close()

    def _begun(self) -> Producer:
        """An instance whose transaction has begun. Raises Unsent."""
        try:
            if self._producer is None:
                self._producer = Producer(dict(self._settings), logger=_LOG)
                self._producer.init_transactions(self._within_s)
            self._producer.begin_transaction()
        except KafkaException as error:
            self.close()
            raise Unsent(_name(error)) from error
        return self._producer

    def _send(self, producer: Producer, sends: list[MicroOp]) -> None:
        """Send all, and wait until all are answered. Raises Unsent."""
        try:
            for each in sends:
                value = b"%010d" % each.value
                producer.produce(
                    self._topic, value, partition=each.key, on_delivery=self._delivered
                )
                if self._pause_s:
                    _poll_for(producer, self._pause_s)
            deadline = time.monotonic() + self._within_s
            while len(self._offsets) < len(sends) and len(producer):
                if time.monotonic() > deadline:
                    raise Unsent("_TIMED_OUT")
                producer.poll(_BETWEEN_S)
        except KafkaException as error:
            raise Unsent(_name(error)) from error
        except BufferError as error:
            raise Unsent("_QUEUE_FULL") from error
        if len(self._offsets) < len(sends):
            raise Unsent("_UNDELIVERED")

    def _commit(self, producer: Producer) -> str | None:
        """Commit; the error where that did not succeed, `None` where it did."""
        deadline = time.monotonic() + self._within_s
        while True:
            try:
                producer.commit_transaction(_CALL_S)
            except KafkaException as error:
                why = error.args[0]
                if why.retriable() and time.monotonic() < deadline:
                    continue
                if why.txn_requires_abort():
                    self._abort()
                else:
                    self.close()
                return _name(error)
            return None

    def _abort(self) -> None:
        """Abort what is open; an instance that cannot is given up."""
        if self._producer is None:
            return
        deadline = time.monotonic() + self._within_s
        while True:
            try:
                self._producer.abort_transaction(_CALL_S)
            except KafkaException as error:
                if error.args[0].retriable() and time.monotonic() < deadline:
                    continue
                self.close()
            return

    def _placed(self, each: MicroOp) -> MicroOp:
        return each._replace(offset=self._offsets.get(b"%010d" % each.value, NULL))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and value is not None:
            self._offsets[bytes(value)] = offset


def _poll_for(producer: Producer, wait_s: float) -> None:
    """Serve answers for so long."""
    deadline = time.monotonic() + wait_s
    while (left_s := deadline - time.monotonic()) > 0:
        producer.poll(left_s)


def _name(error: KafkaException) -> str:
    return str(error.args[0].name())

"""One transactional producer (librdkafka), and what became of its transactions.

    ok    the commit was acknowledged
    fail  the commit was never requested: it was to be aborted, a send could not be made, or the
          process crashed before; or another instance had taken over before the commit was
          requested, and it was not acknowledged: brokers promise that nothing of it is visible
    info  the commit was requested and did not succeed, whatever the answer: a broker may have
          committed and its answer be lost, or answer an error for a commit that it has done

After a failure that `abort_transaction` does not mend, such as being fenced, the instance is of no
use: the next transaction makes another one of the same transactional id, which fences the old one
and has its open transaction aborted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from harness.models.micro_ops import (
    ABORT,
    COMMIT,
    CONSUME,
    CRASH,
    FENCE,
    OFFSETS,
    POLL,
    SEND,
    MicroOp,
    elements_of,
    micro_ops,
)
from harness.protocols import FAIL, INFO, NULL, OK, Completion, Invoke, completion
from harness.protocols.transactions import ABORTED, CRASHED, TAKEN_OVER, TransactionSettings
from targets.kafka.transactions.consuming import GroupConsumer

_LOG: Final = logging.getLogger("ackloss.kafka.producer")

_CALL_S: Final = 3.0
"""How long librdkafka waits within one call; it goes on with the same call again."""
_BETWEEN_S: Final = 0.05
_CRASHES_S: Final = 0.005
"""How long a process that crashes in its commit has waited for the answer."""
_ENDS: Final = frozenset({COMMIT, ABORT, CRASH})


class Ended(Exception):
    """A transaction that goes on no further: how it ended, and why."""

    def __init__(self, outcome: str, error: str) -> None:
        super().__init__(error)
        self.outcome, self.error = outcome, error


class TransactionWriter:
    """A producer that is made when it is needed, with the consumer whose offsets its transactions
    take along. Used by one thread."""

    def __init__(
        self,
        settings: Mapping[str, str],
        place: Callable[[int], tuple[str, int]],
        asked: TransactionSettings,
        *,
        within_s: float,
        consumer: GroupConsumer | None = None,
    ) -> None:
        """`place`: the topic and partition of a log; `within_s`: how long beginning, sending and
        committing may take each."""
        self._settings, self._place, self._consumer = settings, place, consumer
        self._asked, self._within_s = asked, within_s
        self._producer: Producer | None = None
        self._abandoned: list[Producer] = []
        self._next: Producer | None = None
        self._delivered_at: dict[bytes, int] = {}
        self._sent: list[MicroOp] = []
        self._polled: list[MicroOp] = []

    def run(self, op: Invoke) -> Completion:
        """Run one transaction, of which an operation says what steps it takes."""
        expected = op[4]
        steps = list(micro_ops(expected)) if isinstance(expected, tuple) else []
        self._delivered_at.clear()
        self._sent.clear()
        self._polled.clear()
        outcome, error = OK, None
        try:
            self._take(steps)
        except Ended as ended:
            outcome, error = ended.outcome, ended.error
        if self._consumer is not None and outcome != OK:
            self._consumer.go_back()
        done = [*self._polled, *(self._placed(each) for each in self._sent)]
        if self._next is not None:
            done.append(MicroOp(FENCE))
            successor, self._next = self._next, None
            self.close()
            self._producer = successor
        if steps and steps[0].kind == CONSUME:
            inputs = sum(each.kind == POLL for each in self._polled)
            done.insert(0, MicroOp(CONSUME, value=inputs))
        return completion(outcome, error=error, result=elements_of(*done) if done else None)

    def _take(self, steps: list[MicroOp]) -> None:
        """Take all steps, and commit where they do not say how it ends. Raises Ended."""
        if steps and steps[0].kind == CONSUME:
            steps = self._consume(steps)
            if not steps:
                return
        producer = self._begun()
        if not any(each.kind in _ENDS for each in steps):
            steps = [*steps, MicroOp(COMMIT)]
        for step, after in pairwise([*steps, MicroOp(COMMIT)]):
            if step.kind == SEND:
                self._send(producer, step)
                continue
            self._flush(producer)
            if step.kind == OFFSETS:
                self._store(producer)
            elif step.kind == FENCE:
                self._be_taken_over()
            elif step.kind == ABORT:
                self._abort()
                raise Ended(FAIL, ABORTED)
            elif step.kind == COMMIT:
                self._commit(producer, crashes=after.kind == CRASH)
            elif step.kind == CRASH:
                self._crash()
                raise Ended(FAIL, CRASHED)

    def close(self) -> None:
        """End the instance; what is open is left to its coordinator. It is not asked to close, which
        would abort, also while another call of it is under way: it ends with its last reference."""
        for producer in (self._producer, self._next):
            if producer is not None:
                with suppress(KafkaException):
                    producer.purge()
        self._producer = self._next = None
        self._abandoned.clear()

    def _consume(self, steps: list[MicroOp]) -> list[MicroOp]:
        """Poll inputs; the steps that are left, with a send for each. Raises Ended."""
        assert self._consumer is not None
        try:
            self._polled += self._consumer.poll(steps[0].value)
        except KafkaException as error:
            raise Ended(FAIL, _name(error)) from error
        inputs = sum(each.kind == POLL for each in self._polled)
        if not inputs:
            return []
        sends = [each for each in steps if each.kind == SEND][:inputs]
        return [each for each in steps[1:] if each.kind != SEND or each in sends]

    def _begun(self) -> Producer:
        """An instance whose transaction has begun. Raises Ended."""
        try:
            if self._producer is None:
                self._producer = self._instance()
            self._producer.begin_transaction()
        except KafkaException as error:
            self.close()
            raise Ended(FAIL, _name(error)) from error
        return self._producer

    def _instance(self) -> Producer:
        """Another instance, which fences those before it. Raises KafkaException."""
        producer = Producer(dict(self._settings), logger=_LOG)
        producer.init_transactions(self._within_s)
        self._abandoned.clear()
        return producer

    def _send(self, producer: Producer, step: MicroOp) -> None:
        topic, partition = self._place(step.key)
        self._sent.append(step)
        try:
            producer.produce(
                topic, b"%010d" % step.value, partition=partition, on_delivery=self._delivered
            )
            if self._asked.pause_ms:
                _poll_for(producer, self._asked.pause_ms / 1000)
        except KafkaException as error:
            self._fail(_name(error), error)
        except BufferError as error:
            self._fail("_QUEUE_FULL", error)

    def _flush(self, producer: Producer) -> None:
        """Wait until all sends are answered. Raises Ended."""
        deadline = time.monotonic() + self._within_s
        try:
            while len(self._delivered_at) < len(self._sent) and len(producer):
                if time.monotonic() > deadline:
                    self._fail("_TIMED_OUT")
                    return
                producer.poll(_BETWEEN_S)
        except KafkaException as error:
            self._fail(_name(error), error)
        if len(self._delivered_at) < len(self._sent):
            self._fail("_UNDELIVERED")

    def _store(self, producer: Producer) -> None:
        """Store how far the group has consumed: in the transaction, or by itself. Raises Ended."""
        assert self._consumer is not None
        offsets = self._consumer.offsets(self._polled)
        try:
            if self._asked.offsets == "transaction":
                member = self._consumer.member()
                producer.send_offsets_to_transaction(offsets, member, self._within_s)
            else:
                self._consumer.commit(offsets)
        except KafkaException as error:
            if self._asked.offsets != "after":
                self._fail(_name(error), error)

    def _be_taken_over(self) -> None:
        """Start another instance; this one goes on and does not know. Raises Ended."""
        try:
            self._next = self._instance()
        except KafkaException as error:
            self._fail(_name(error), error)

    def _commit(self, producer: Producer, *, crashes: bool) -> None:
        """Commit; raises Ended where that did not succeed, or the process `crashes` meanwhile."""
        if crashes:
            with suppress(KafkaException):
                producer.commit_transaction(_CRASHES_S)
            self._crash()
            raise Ended(INFO, CRASHED)
        deadline = time.monotonic() + self._within_s
        while True:
            try:
                producer.commit_transaction(_CALL_S)
            except KafkaException as error:
                why = error.args[0]
                if why.retriable() and time.monotonic() < deadline:
                    continue
                if self._next is not None:
                    raise Ended(FAIL, TAKEN_OVER) from error
                if why.txn_requires_abort():
                    self._abort()
                else:
                    self.close()
                raise Ended(INFO, _name(error)) from error
            return

    def _fail(self, error: str, why: Exception | None = None) -> None:
        """A step before the commit has failed: abort, and raise Ended; an instance that was taken
        over goes on instead, as it does not know."""
        if self._next is None:
            self._abort()
            raise Ended(FAIL, error) from why

    def _crash(self) -> None:
        """Abandon the producer as it is, and the consumer. Nothing of it is flushed, aborted or
        closed before another instance has taken over."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.purge(blocking=False)
            self._abandoned.append(self._producer)
            self._producer = None
        if self._consumer is not None:
            self._consumer.crash()

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
        return each._replace(offset=self._delivered_at.get(b"%010d" % each.value, NULL))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and value is not None:
            self._delivered_at[bytes(value)] = offset


def _poll_for(producer: Producer, wait_s: float) -> None:
    """Serve answers for so long."""
    deadline = time.monotonic() + wait_s
    while (left_s := deadline - time.monotonic()) > 0:
        producer.poll(left_s)


def _name(error: KafkaException) -> str:
    return str(error.args[0].name())

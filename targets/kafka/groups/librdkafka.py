"""A consumer's process over confluent-kafka (librdkafka): `python -m ... SETUP`, SETUP in JSON.

It consumes in batches, commits as the plan says, and writes a line for everything that it does. It
leaves by SIGTERM, as an operator's stop would have it; SIGKILL and SIGSTOP are the harness'.
"""

from __future__ import annotations

import json
import logging
import signal
import struct
import sys
import time
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from harness.protocols import FAIL, INFO, OK
from harness.protocols.groups import KINDS
from targets.kafka.groups.lines import Reporter, end_with_the_harness

REFUSED: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._NO_OFFSET,
    }
)
"""Answers to a commit that say that it was not kept; after any other error nobody knows."""

_POLL_S: Final = 0.1
_COMMITTED_S: Final = 10.0
_GENERATION: Final = b"CGMDv2:"


class Process:
    """The consumer of this process."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.topic, self.commits = setup["topic"], setup["commit"]
        self.batch, self.process_s = setup["batch_count"], setup["process_ms"] / 1000
        self.interval_ns = round(setup["interval_s"] * 1e9)
        self.leaving = False
        self.starts: dict[int, int | None] = {}
        self.passed: dict[int, int] = {}
        self.under_way: dict[tuple[int, int], int] = {}
        logger = logging.getLogger("consumer")
        logger.addHandler(logging.StreamHandler(sys.stderr))
        self.consumer = Consumer({**setup["settings"], "on_commit": self._committed}, logger=logger)
        self.report = Reporter(self._identity)
        self.report.say(KINDS.start)
        if (own := setup["partitions"]) is None:
            self.consumer.subscribe(
                [self.topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
        else:
            self._assigned(self.consumer, places := [TopicPartition(self.topic, p) for p in own])
            self.consumer.assign(places)

    def run(self) -> None:
        """Consume until it is to leave."""
        while not self.leaving:
            batch = [m for m in self.consumer.consume(self.batch, timeout=_POLL_S) if self._is(m)]
            if batch:
                self._take(batch)
        for partition in self.starts:
            position = self.passed.get(partition, self.starts[partition])
            if position is not None:
                self.report.say(KINDS.position, [(partition, position, None)])
        self.consumer.close()
        self.report.say(KINDS.stop)

    def leave(self, *_: object) -> None:
        """Leave after this batch."""
        self.leaving = True

    def _is(self, message: Any) -> bool:
        """Whether it is a record; an error is written to the log."""
        if message.error() is None:
            return True
        print(f"{message.error()}", file=sys.stderr, flush=True)
        return False

    def _take(self, batch: list[Any]) -> None:
        records = [(m.partition(), m.offset(), int(m.value())) for m in batch]
        self.report.say(KINDS.deliver, records)
        following = {partition: offset + 1 for partition, offset, _ in records}
        if self.commits == "before":
            self._commit(following)
        for record in records:
            begun_ns = time.monotonic_ns()
            time.sleep(self.process_s)
            self.report.say(KINDS.process, [record], begun_ns=begun_ns)
        self.passed |= following
        if self.commits in ("after", "async"):
            self._commit(following)

    def _commit(self, offsets: dict[int, int]) -> None:
        """Commit offsets of the partitions that are still its own."""
        offsets = {p: offset for p, offset in offsets.items() if p in self.starts}
        if not offsets:
            return
        begun_ns = time.monotonic_ns()
        where = [(partition, offset, None) for partition, offset in offsets.items()]
        self.report.say(KINDS.commit, where, begun_ns=begun_ns, type_="invoke")
        places = [TopicPartition(self.topic, p, offset) for p, offset in offsets.items()]
        if self.commits == "async":
            self.under_way |= dict.fromkeys(offsets.items(), begun_ns)
        try:
            answered = self.consumer.commit(offsets=places, asynchronous=self.commits == "async")
        except KafkaException as error:
            self._say_committed(places, error.args[0], begun_ns)
        else:
            if answered is not None:
                self._say_committed(answered, None, begun_ns)

    def _committed(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """librdkafka's report of a commit that nobody waited for. Of one that it made by itself the
        beginning is not known: it is taken for one interval earlier."""
        now_ns = time.monotonic_ns()
        for place in places:
            if place.offset >= 0:
                key = (place.partition, place.offset)
                begun_ns = self.under_way.pop(key, now_ns - self.interval_ns)
                self._say_committed([place], error, begun_ns)

    def _say_committed(
        self, places: list[TopicPartition], error: KafkaError | None, begun_ns: int
    ) -> None:
        for place in places:
            why = place.error or error
            refused = why is not None and why.code() in REFUSED
            self.report.say(
                KINDS.commit,
                [(place.partition, place.offset, None)],
                begun_ns=begun_ns,
                type_=OK if why is None else FAIL if refused else INFO,
                error=None if why is None else why.name(),
            )

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        begun_ns = time.monotonic_ns()
        try:
            known = consumer.committed(places, timeout=_COMMITTED_S)
        except KafkaException as error:
            where = [(place.partition, None, None) for place in places]
            name = error.args[0].name()
            self.report.say(KINDS.committed, where, begun_ns=begun_ns, type_=INFO, error=name)
            known = [TopicPartition(self.topic, place.partition) for place in places]
        else:
            where = [(each.partition, _offset(each), None) for each in known]
            self.report.say(KINDS.committed, where, begun_ns=begun_ns)
        for each in known:
            self.starts[each.partition] = _offset(each)
            self.passed.pop(each.partition, None)
        starts = [(each.partition, _offset(each), None) for each in known]
        self.report.say(KINDS.assign, starts, begun_ns=begun_ns)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:  # noqa: ARG002
        self._gone(places, None)

    def _lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:  # noqa: ARG002
        self._gone(places, "lost")

    def _gone(self, places: list[TopicPartition], error: str | None) -> None:
        where = [(each.partition, self.passed.get(each.partition), None) for each in places]
        if where:
            self.report.say(KINDS.revoke, where, error=error)
        for each in places:
            self.starts.pop(each.partition, None)

    def _identity(self) -> tuple[str | None, int | None]:
        """The member id, and the generation or member epoch, from the group's metadata."""
        try:
            known = self.consumer.consumer_group_metadata()
            member = self.consumer.memberid()
        except (KafkaException, RuntimeError, AttributeError):
            return None, None
        raw = bytes(known) if isinstance(known, bytes) else b""
        if not raw.startswith(_GENERATION):
            return member, None
        return member, struct.unpack_from("<i", raw, len(_GENERATION))[0]


def _offset(place: TopicPartition) -> int | None:
    """An offset; `None` where there is none."""
    offset: int = place.offset
    return None if offset < 0 or offset == OFFSET_INVALID else offset


def main() -> None:
    """Run the process."""
    end_with_the_harness()
    process = Process(json.loads(sys.argv[1]))
    signal.signal(signal.SIGTERM, process.leave)
    process.run()


if __name__ == "__main__":
    main()

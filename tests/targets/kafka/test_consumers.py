"""Which of librdkafka's errors end a read: all but four, code by code."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaError

from targets.kafka.reading import HARMLESS, Reading, _take_messages

EOF = KafkaError._PARTITION_EOF
CODES = {
    name: code
    for name in dir(KafkaError)
    if isinstance(code := getattr(KafkaError, name), int) and code
}


@dataclass(frozen=True)
class Event:
    """What a consumer hands over instead of a record. Most codes cannot be had from a broker."""

    code: int
    place: int | None
    is_fatal: bool = False

    def error(self) -> KafkaError:
        return KafkaError(self.code, "reported", fatal=self.is_fatal)

    def partition(self) -> int | None:
        return self.place

    def offset(self) -> int:
        return 4


def reading() -> Reading:
    return Reading(starts={0: 0, 1: 2}, goals={0: 9, 1: 2})


def test_the_harmless_ones_are_those_of_connections() -> None:
    names = {name for name, code in CODES.items() if code in HARMLESS}
    assert names == {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT"}


def test_what_each_code_ends() -> None:
    for code in CODES.values():
        of_all, of_one = reading(), reading()
        _take_messages([Event(code, None)], of_all) if code != EOF else None
        _take_messages([Event(code, 0)], of_one)
        ended = f"{KafkaError(code).name()}: reported"
        assert of_all.errors == ({} if code in HARMLESS or code == EOF else {0: ended, 1: ended})
        assert of_one.errors == ({} if code == EOF else {0: ended})
        assert of_one.position == {0: 4 if code == EOF else 0, 1: 2}


def test_a_fatal_error_is_never_harmless() -> None:
    one = reading()
    _take_messages([Event(KafkaError._TRANSPORT, None, is_fatal=True)], one)
    assert one.errors.keys() == {0, 1}


def test_a_read_has_ended_when_each_partition_is_at_its_goal_or_has_an_error() -> None:
    one = reading()
    assert not one.ended()
    one.fail(1, "first")
    one.fail(1, "second")
    assert not one.ended()
    one.reach(0, 8)
    one.reach(0, 7)
    assert (one.ended(), one.position[0], one.errors) == (False, 8, {1: "first"})
    one.reach(0, 9)
    assert one.ended()
    two = reading()
    two.fail(0, "reported")
    assert two.ended(), "the other one is empty"

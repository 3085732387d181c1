"""Which reader is believed, and when two of them contradict each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checkers.loss.readers import Disagreement, OnReplicas, Readers, _finalized, confirmed
from harness.protocols import Facts, PartitionEnd, Promises, Reads
from tests.fixtures.operation_rows import reads

BOTH = ("a", "b")
RECORDS = [("a", None, 1, 0, 0), ("a", "x", 2, 0, 1), ("b", None, 1, 0, 0), ("b", "x", 2, 0, 1)]
"""Reader, key, value, partition, offset."""


def end(partition: int = 0, readers: tuple[str, ...] = BOTH, **how: Any) -> PartitionEnd:
    known = {"log_start": 0, "read_to": 9, "complete": bool(readers), "whole": True, **how}
    return PartitionEnd(partition=partition, readers=readers, **known)


def facts(*ends: PartitionEnd, **how: Any) -> Facts:
    return Facts(
        run_id="r", history=(), reads=(), ends=ends, promises=Promises(partitions=len(ends)), **how
    )


def compared(of: Facts, *parts: Reads) -> list[Disagreement]:
    readers = Readers(of)
    for part in parts:
        readers.compare(part)
    return readers.disagreements()


def test_readers_that_met_the_same_agree_in_any_order_and_any_parts() -> None:
    assert compared(facts(end()), reads(*RECORDS)) == []
    assert compared(facts(end()), reads(*reversed(RECORDS))) == []
    assert compared(facts(end()), *(reads(record) for record in RECORDS)) == []
    assert compared(facts(end())) == []


def test_readers_that_met_the_same_agree_however_their_parts_are_cut() -> None:
    """Sums wrap round in any part, and over parts."""
    many = [(name, None, value, 0, value) for name in BOTH for value in range(40)]
    first, second = many[:40], many[40:]
    assert compared(facts(end()), reads(*first, *second[:1]), reads(*second[1:])) == []
    assert compared(facts(end()), reads(*first[:9]), reads(*first[9:]), reads(*second)) == []
    assert compared(facts(end()), *map(reads, first), reads(*second)) == []


@pytest.mark.parametrize(
    "second",
    [
        [],  # the second reader met nothing
        RECORDS[2:3],  # not all
        [*RECORDS[2:], ("b", None, 3, 0, 2)],  # more
        [*RECORDS[2:], RECORDS[2]],  # one of them twice
        [("b", None, 1, 0, 0), ("b", "x", 3, 0, 1)],  # another value
        [("b", None, 1, 0, 0), ("b", "x", 2, 0, 2)],  # another offset
        [("b", None, 1, 0, 0), ("b", "y", 2, 0, 1)],  # another key
        [("b", None, 1, 0, 0), ("b", None, 2, 0, 1)],  # no key
        [("b", None, 2, 0, 0), ("b", "x", 1, 0, 1)],  # values changed places
        [("b", "x", 1, 0, 0), ("b", None, 2, 0, 1)],  # keys changed places
    ],
)
def test_readers_that_met_different_records_disagree(second: list[Any]) -> None:
    reported = compared(facts(end()), reads(*RECORDS[:2], *second))
    assert reported == [Disagreement(BOTH, "partition 0")]


def test_each_partition_is_compared_by_itself() -> None:
    moved = [("b", None, 1, 0, 0), ("b", "x", 2, 1, 1)]
    of = facts(end(0), end(1))
    assert [each.partition for each in compared(of, reads(*RECORDS[:2], *moved))] == [
        "partition 0",
        "partition 1",
    ]
    more = [(reader, None, 5, 1, 0) for reader in BOTH]
    assert compared(of, reads(*RECORDS, *more)) == []
    assert [each.partition for each in compared(of, reads(*RECORDS, more[0]))] == ["partition 1"]


def test_what_only_one_reader_was_in_time_for_is_no_contradiction() -> None:
    """The log began at 1 when the second read it."""
    late = reads(*RECORDS[:2], RECORDS[3])
    assert compared(facts(end(log_start=1)), late) == []
    assert compared(facts(end(log_start=0)), late)
    assert compared(facts(end(log_start=None)), late)


def test_a_partition_of_one_reader_does_not_end_the_comparison() -> None:
    of = facts(end(0, ("a",)), end(1))
    reported = compared(of, reads(*half_of("a"), ("a", None, 5, 1, 0)))
    assert [each.partition for each in reported] == ["partition 1"]


def test_only_complete_readers_are_compared() -> None:
    half = reads(*RECORDS[:2], RECORDS[2])
    assert compared(facts(end(readers=("a",))), half) == []
    assert compared(facts(end(readers=())), half) == []
    three = reads(*half_of("a"), *half_of("b"), ("c", None, 7, 0, 0))
    assert compared(facts(end()), three) == []
    assert compared(facts(end(readers=("a", "b", "c"))), three)


def half_of(reader: str) -> list[tuple[str, str | None, int, int, int]]:
    return [(reader, key, value, 0, offset) for _, key, value, _, offset in RECORDS[:2]]


@pytest.mark.parametrize(
    ("readers", "values"),
    [
        (("a", "b"), [1, 2]),  # the first of the complete ones
        (("b", "a"), [11, 12]),
        (("b",), [11, 12]),
        ((), [1, 2, 11, 12]),  # nobody was complete: what was seen was there
        (("c",), []),
    ],
)
def test_a_partition_is_judged_by_one_complete_reader(
    readers: tuple[str, ...], values: list[int]
) -> None:
    met = [("a", None, 1, 0, 0), ("a", None, 2, 0, 1), ("b", None, 11, 0, 0), ("b", None, 12, 0, 1)]
    elsewhere = [("a", None, 3, 1, 0), ("b", None, 13, 1, 0)]
    reported = Readers(facts(end(readers=readers), end(1, ("b",)))).judged(reads(*met, *elsewhere))
    assert reported.value.tolist() == [*values, 13]


def test_counter_examples_rest_on_partitions_that_two_have_read() -> None:
    ends = [end(0), end(1, ("a",)), end(2, ()), end(3, ("a", "b", "c"))]
    assert confirmed(facts(*ends)) == {0, 3}
    assert confirmed(facts(*ends, one_reader=True)) == {0, 1, 2, 3}


def test_the_mix_is_murmurhashs() -> None:
    """Its finalizer in the words of the C source (fmix64), on integers of any size."""

    def fmix64(k: int) -> int:
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            k = ((k ^ (k >> 33)) * factor) % 2**64
        return k ^ (k >> 33)

    numbers = [0, 1, 2, 33, 2**33, 2**63, 2**64 - 1]
    mixed = _finalized(np.array(numbers, np.uint64)).tolist()
    assert mixed == [fmix64(number) for number in numbers]
    assert mixed[1] == 0xB456BCFC34C2CB2C


def test_what_any_replica_has_counts_and_what_others_read_does_not() -> None:
    rows = reads(*RECORDS, ("c", None, 5, 0, 2))
    for replicas, readers, counted in ((True, BOTH, 4), (False, BOTH, 2), (True, (), 5)):
        promises = Promises(readers_are_replicas=replicas)
        of = Readers(replace(facts(end(readers=readers)), promises=promises))
        assert len(of.judged(rows).value) == counted


def test_what_a_replica_lacks_that_another_one_has() -> None:
    """Of four acknowledged values: one is on both, two are on one, one is on none."""
    promises = Promises(readers_are_replicas=True)
    of = replace(facts(end(readers=BOTH), end(1, ("a", "b", "c"))), promises=promises)
    rows = reads(
        *((n, None, v, 0, v) for n, v in (("a", 0), ("b", 0), ("a", 1), ("b", 2), ("c", 3)))
    )
    replicas = OnReplicas(of, 5)
    replicas.read(rows, rows.value)
    assert replicas.lacking(lambda numbers: numbers != 9) == {"a": 1, "b": 1}
    assert replicas.lacking(lambda numbers: numbers != 2) == {"a": 0, "b": 1}
    alike = OnReplicas(replace(of, promises=Promises()), 5)
    alike.read(rows, rows.value)
    assert alike.lacking(lambda numbers: numbers != 9) == {}

"""Short histories, each with the anomaly that it has; and what makes a run unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.delivery import Delivery as DeliveryChecker
from harness.protocols import CheckResult, Gaps
from harness.protocols.groups import KINDS, Delivery
from tests.checkers.delivery.hand_made import Made, Record, Write, final, whole_group

ONE, TWO = "consumer-1", "consumer-2"


def row(f: str, time_ns: int, offset: int | None, **more: Any) -> Delivery:
    """A row of partition 0, by the first consumer unless said otherwise."""
    begun_ns = more.pop("begun_ns", time_ns)
    return Delivery(
        *(f, begun_ns, time_ns),
        **{"consumer": ONE, "life": 1, "partition": 0, **more},
        offset=offset,
    )


def handled(time_ns: int, offset: int, **more: Any) -> list[Delivery]:
    """A record that is delivered and processed; its value is 10 times its offset."""
    record = {"value": 10 * offset, **more}
    return [row(f, time_ns, offset, **record) for f in (KINDS.deliver, KINDS.process)]


def group(*did: Delivery, records: int = 4, committed: int | None = 4, **more: Any) -> Made:
    """A run of so many acknowledged records, of which the group did this."""
    return Made(
        writes_=[Write(10 * n, 0, offset=n, time_ns=n) for n in range(records)],
        log=[Record(0, n, 10 * n) for n in range(records)],
        did=[*whole_group(), *did, final(0, committed)],
        **more,
    )


def everything(time_ns: int = 10, **more: Any) -> list[Delivery]:
    """All four records are handled, after an assignment."""
    rows = [row(KINDS.assign, time_ns - 1, 0, **more)]
    return rows + [each for n in range(4) for each in handled(time_ns + n, n, **more)]


def judged(made: Made) -> CheckResult:
    checker = DeliveryChecker()
    return checker.merge(made, [checker.check(made, shard) for shard in checker.shards(made)])


def found(made: Made) -> dict[str, int]:
    """The counter-examples, with their counts."""
    result = judged(made)
    number = {name: int(result.counts[name] or 0) for name, _ in result.counter_examples}
    kinds = result.findings["kind"].to_pylist()
    assert {name: kinds.count(name) for name in number} == number
    return number


def test_a_group_that_processes_and_commits_everything_is_valid() -> None:
    result = judged(group(*everything(), row(KINDS.commit, 20, 4)))
    assert result.counter_examples == ()
    assert result.doubts == ()
    assert result.counts["processed"] == 4
    assert "none twice" in result.all_well


def test_a_value_that_the_log_holds_twice_is_processed_as_a_copy() -> None:
    copied = group(*everything(), *handled(30, 4, value=0), committed=5)
    copied.log.append(Record(0, 4, 0))
    result = judged(copied)
    assert result.counts["processed_copies"] == 1
    assert result.all_well == (
        "all 4 acknowledged records were processed, none twice (and 1 copy that a retry stored), "
        "and no commit was lost"
    )


def test_a_record_below_the_committed_offset_that_nobody_processed_is_skipped() -> None:
    rows = [each for each in everything() if (each.f, each.offset) != (KINDS.process, 2)]
    result = judged(group(*rows))
    assert found(group(*rows)) == {"skipped": 1}
    assert result.counts["skipped_delivered"] == 1


SKIPPED = [each for each in everything() if (each.f, each.offset) != (KINDS.process, 2)]
BACK = row(KINDS.deliver, 30, 1, value=10)
PHANTOM = row(KINDS.deliver, 30, 4, value=77)


@pytest.mark.parametrize(
    ("rows", "name", "doubt"),
    [
        (SKIPPED, "skipped", "1 acknowledged record was skipped"),
        ([*everything(), PHANTOM], "phantoms", "1 record was delivered that is not in the log"),
    ],
)
def test_what_rests_on_the_log_needs_two_readers_that_agree(
    rows: list[Delivery], name: str, doubt: str
) -> None:
    made = group(*rows)
    assert found(made) == {name: 1}
    one = judged(replace(made, readers=("first",)))
    assert (one.counts[name], one.counter_examples) == (1, ())
    assert one.doubts == (
        ("readers", f"{doubt}: no second library read all of the log to its end"),
    )
    differ = judged(replace(made, last_alone=(Record(0, 9, 99),)))
    assert (differ.counts[name], differ.counter_examples) == (1, ())
    assert differ.doubts == (("readers", "complete readers met different records"),)


def test_what_consumers_did_alone_needs_no_log() -> None:
    again = [*everything(), row(KINDS.commit, 20, 4), *everything(50, consumer=TWO)]
    for rows, name in ((again, "reprocessed_beyond"), ([*everything(), BACK], "out_of_order")):
        one = judged(replace(group(*rows), readers=("first",)))
        assert [each.name for each in one.counter_examples] == [name]


def test_a_record_that_was_passed_by_position_alone_is_skipped_too() -> None:
    rows = [each for each in everything() if each.offset != 2]
    made = group(*rows, row(KINDS.position, 30, 4), committed=None)
    assert found(made) == {"skipped": 1}
    assert judged(made).counts["skipped_delivered"] == 0


def test_a_record_beyond_what_is_committed_is_pending_and_never_skipped() -> None:
    made = group(*everything()[:-2], committed=3)
    assert found(made) == {}
    assert [name for name, _ in judged(made).doubts] == ["not_yet_visible"]
    assert judged(made).counts["pending"] == 1


def test_a_record_that_was_deleted_before_anybody_processed_it_is_not_skipped() -> None:
    made = replace(group(*everything()[3:]), starts={0: 1})
    made.log = made.log[1:]
    assert found(made) == {}
    result = judged(made)
    assert result.counts["purged_unseen"] == 1
    assert result.doubts == (
        ("deleted", "1 acknowledged record may have been deleted before anybody processed it"),
    )


def test_an_acknowledged_record_that_is_gone_and_that_nobody_processed_is_lost() -> None:
    made = group(*everything())
    made.writes_ += [
        Write(1_000, 0, offset=2, time_ns=9, begun_ns=7),
        Write(1_001, 0),
        Write(1_002, 0, acknowledged=False),
    ]
    assert found(made) == {"lost": 2}
    (finding, _) = judged(made).findings.to_pylist()
    assert finding == {
        "run_id": "made", "kind": "lost", "partition": 0, "offset": 2, "value": 1_000, "time_ns": 9,
        "invoke_ns": 7, "complete_ns": 9,
    }  # fmt: skip
    made.readers = ("first",)
    assert found(made) == {}
    assert judged(made).counts["lost"] == 2
    assert [name for name, _ in judged(made).doubts] == ["readers"]


def test_a_missing_record_may_be_beyond_what_was_read_of_replicas_that_are_behind() -> None:
    made = group(*everything(), whole=False)
    made.writes_ += [Write(1_000, 0, offset=4), Write(1_001, 0)]
    assert found(made) == {}
    assert judged(made).counts["not_yet_visible"] == 2
    assert [name for name, _ in judged(made).doubts] == ["not_yet_visible"]
    made.writes_.append(Write(1_002, 0, offset=3))
    assert found(made) == {"lost": 1}


def test_nothing_is_acknowledged_where_no_acknowledgement_was_requested() -> None:
    result = judged(group(*everything(), acknowledges=False))
    assert result.counts["acknowledged"] == 0
    assert [name for name, _ in result.doubts] == ["vacuous"]


def test_a_repeated_record_above_the_last_commit_is_within_its_bound() -> None:
    again = everything(50, consumer=TWO)[5:]
    rows = [*everything(), row(KINDS.commit, 20, 2), row(KINDS.assign, 40, 2, consumer=TWO), *again]
    assert found(group(*rows)) == {}
    assert judged(group(*rows)).counts["reprocessed"] == 2


def test_a_repeated_record_below_what_was_committed_is_beyond_it() -> None:
    rows = [*everything(), row(KINDS.commit, 20, 4), *everything(50, consumer=TWO)]
    assert found(group(*rows)) == {"reprocessed_beyond": 4}


def test_a_commit_that_was_still_under_way_bounds_nothing() -> None:
    slow = row(KINDS.commit, 60, 4, begun_ns=20)
    assert found(group(*everything(), slow, *everything(50, consumer=TWO))) == {}


def test_a_record_that_is_not_in_the_log_is_a_phantom() -> None:
    made = group(*everything(), row(KINDS.deliver, 30, 4, value=77))
    assert found(made) == {"phantoms": 1}
    assert judged(made).counts["phantoms_acknowledged"] == 0


def test_a_record_after_a_greater_offset_is_out_of_order_in_one_assignment_only() -> None:
    back = row(KINDS.deliver, 30, 1, value=10)
    assert found(group(*everything(), back)) == {"out_of_order": 1}
    assert found(group(*everything(), row(KINDS.assign, 29, 1), back)) == {}


def test_going_back_is_right_where_the_log_was_truncated() -> None:
    rows = [row(KINDS.deliver, 30, 4, value=77), row(KINDS.deliver, 31, 4, value=40)]
    made = group(*everything(), *rows, *handled(32, 5)[1:], records=5, committed=5)
    assert "out_of_order" not in found(made)


@pytest.mark.parametrize(
    ("read", "type_", "lost"),
    [(None, "ok", {"lost_commits": 1}), (2, "ok", {"lost_commits": 1}), (None, "info", {})],
)
def test_a_commit_of_which_a_later_read_knows_nothing_is_lost_unless_the_read_failed(
    read: int | None, type_: str, lost: dict[str, int]
) -> None:
    asked = row(KINDS.committed, 40, read, type=type_)
    assert found(group(*everything(), row(KINDS.commit, 20, 4), asked)) == lost


def test_a_lower_commit_that_may_have_come_later_explains_a_read() -> None:
    late = row(KINDS.commit, 25, 2, begun_ns=15, type="info", consumer=TWO)
    rows = [row(KINDS.commit, 20, 4, begun_ns=18), late, row(KINDS.committed, 40, 2)]
    assert found(group(*everything(), *rows)) == {}


def test_a_lower_commit_after_a_higher_one_goes_back() -> None:
    rows = [row(KINDS.commit, 20, 4), row(KINDS.commit, 30, 3)]
    assert found(group(*everything(), *rows, committed=3)) == {"commits_back": 1}


def test_a_commit_after_somebody_else_has_the_partition_is_a_zombies() -> None:
    taken = row(KINDS.assign, 20, 4, consumer=TWO, generation=2)
    late, own = row(KINDS.commit, 30, 4), everything(generation=1)
    assert found(group(*own, taken, late)) == {"zombie_commits": 1}
    earlier = taken._replace(generation=0)  # assigned before, and recorded late
    assert found(group(*own, earlier, late)) == {}
    again = row(KINDS.assign, 31, 4, generation=3)  # begun when nobody knows, and ended after it
    assert found(group(*own, taken, again, late._replace(time_ns=40))) == {}
    forgotten = row(KINDS.assign, 25, 4, generation=1)  # the group's generations began again
    high = everything(generation=7)
    assert found(group(*high, taken._replace(generation=9), late)) == {"zombie_commits": 1}
    assert found(group(*high, taken._replace(generation=9), forgotten, late)) == {}
    refused = late._replace(type="fail")
    assert found(group(*own, taken, refused)) == {}
    assert judged(group(*own, taken, refused)).counts["commits_refused"] == 1


def test_the_gap_of_a_partition_shows_what_that_of_the_group_hides() -> None:
    made = Made(
        partitions=2,
        writes_=[Write(n, n % 2, time_ns=n * 10**9) for n in range(11)],
        did=[
            row(KINDS.process, n * 10**9, n, value=n, partition=n % 2)
            for n in range(11)
            if n % 2 == 0 or n in (1, 9)
        ],
    )
    counts = judged(made).counts
    assert counts["group_gap_s_max"] == 2.0
    assert counts["partition_gap_s_max"] == 8.0


SKIPPING = everything()[:-2]


@pytest.mark.parametrize("why", ["gate", "gaps", "unread"])
def test_a_run_that_proves_nothing_has_no_counter_example(why: str) -> None:
    made = group(*SKIPPING)
    assert found(made) == {"skipped": 1}
    if why == "gate":
        error = "nobody reads partition 0"
        made.did[0] = made.did[0]._replace(type="info", error=error)
    elif why == "gaps":
        made.gaps = Gaps(history=("missing: deliveries/part-00000.parquet",))
    else:
        made.complete = False
    assert found(made) == {}
    assert "incomplete" in [name for name, _ in judged(made).doubts]


def test_a_group_that_was_not_drained_is_not_valid() -> None:
    made = group(*everything())
    made.did[1] = made.did[1]._replace(type="info", error="partition 0 ends at 5")
    assert [name for name, _ in judged(made).doubts] == ["not_yet_visible"]


@pytest.mark.parametrize("answers", [0, 2])
def test_what_is_committed_has_to_be_said_by_exactly_one_node(answers: int) -> None:
    made = group(*everything())
    made.did = made.did[:-1] + [final(0, 4)] * answers
    assert [name for name, _ in judged(made).doubts] == ["incomplete"]


def test_a_run_without_consumers_that_did_anything_is_not_valid() -> None:
    made = Made(writes_=[Write(1, 0)], did=[*whole_group(), final(0, None)])
    assert ("vacuous", "no record was processed") in judged(made).doubts

"""Each count, each finding and each verdict that needs rows: a hand-made history of a few lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkers.conftest import Judge, Judged
from tests.fixtures.hand_made import CUT, E, Made, R, W

LOG = tuple(W(value, offset=value) for value in range(4))
ACKS_OF_0ABC = {"settings": {"effective": {"producer": {"acks": "0abc"}}}}
FAULTS = [{"id": "cut", "at_s": 1, "nemesis": "partition"}]

HALF = ("unknown-and-found", "completed-without-an-invocation")


def experiment_of_2013() -> Made:
    """1000 attempts, 987 acknowledged, 468 survivors, 520 lost, 1 unacknowledged found."""
    writes = [W(value, "o" if value < 987 else "i") for value in range(1000)]
    return Made(writes=writes, reads=[R(value) for value in (*range(467), 990)])


def read_by(reader: str, *values: int) -> list[R]:
    """Values that a reader met, each at the offset of its number."""
    return [R(value, offset=value, reader=reader) for value in values]


TWO_PARTITIONS = {"topic": {"partitions": 2}}
DELETES = {"topic": {"settings": {"retention.ms": 1000}}}
IDEMPOTENT = {"workload": {"producer": {"enable.idempotence": True}}}
IN_A_FAULT: dict[str, Any] = {
    "reads": [R(0), R(1)],
    "journal": CUT,
    "plan": {"faults": FAULTS},
}
ONE_OF_ONE = {"attempted": 1, "acknowledged": 1, "survivors": 1}
TWO_OF_TWO = {"attempted": 2, "acknowledged": 2, "survivors": 2}
FOUR = {"attempted": 4, "acknowledged": 4}
REFUSED_AND_FOUND = {
    "attempted": 2,
    "acknowledged": 1,
    "failed": 1,
    "survivors": 2,
    "unacknowledged_found": 1,
    "failed_found": 1,
}
AGAIN = {n: {"duplicates": n, "duplicates_acknowledged": n} for n in (1, 2)}
CASES: dict[str, tuple[Made, str, dict[str, int]]] = {
    "the-experiment-of-2013": (
        experiment_of_2013(),
        "invalid",
        {
            "attempted": 1000,
            "acknowledged": 987,
            "unknown": 13,
            "survivors": 468,
            "lost": 520,
            "unacknowledged_found": 1,
            "unknown_found": 1,
        },
    ),
    "all-there": (
        Made(writes=LOG, reads=[R(0), R(1), R(2), R(3)]),
        "valid",
        {**FOUR, "survivors": 4},
    ),
    "one-lost": (
        Made(writes=LOG, reads=[R(0), R(1), R(3)]),
        "invalid",
        {**FOUR, "survivors": 3, "lost": 1},
    ),
    "refused-and-found": (
        Made(writes=[W(0), W(1, "f")], reads=[R(0), R(1)]),
        "invalid",
        REFUSED_AND_FOUND,
    ),
    "unknown-and-found": (
        Made(writes=[W(0), W(1, "i"), W(2, "."), W(3, "i")], reads=[R(0), R(1), R(2)]),
        "valid",
        {
            "attempted": 4,
            "acknowledged": 1,
            "unknown": 3,
            "survivors": 3,
            "unacknowledged_found": 2,
            "unknown_found": 2,
        },
    ),
    "nobody-wrote-it": (
        Made(writes=[W(0)], reads=[R(0), R(-5)]),
        "invalid",
        {**ONE_OF_ONE, "unexpected": 1},
    ),
    "on-another-partition": (
        Made(
            writes=[W(0, partition=0), W(1, partition=1)],
            reads=[R(0, partition=0), R(1, partition=0)],
            ends=[E(0), E(1, position=0)],
            plan=TWO_PARTITIONS,
        ),
        "invalid",
        {"attempted": 2, "acknowledged": 2, "survivors": 1, "lost": 1, "unexpected": 1},
    ),
    "on-both-partitions": (
        Made(
            writes=[W(0, partition=0)],
            reads=[R(0, partition=0), R(0, partition=1)],
            ends=[E(0), E(1)],
            plan=TWO_PARTITIONS,
        ),
        "invalid",
        {**ONE_OF_ONE, **AGAIN[1], "unexpected": 1},
    ),
    "of-another-key": (
        Made(writes=[W(0, key="x")], reads=[R(0, key="y")]),
        "invalid",
        {"attempted": 1, "acknowledged": 1, "lost": 1, "unexpected": 1},
    ),
    "three-copies": (
        Made(writes=[W(0)], reads=[R(0), R(0), R(0)]),
        "valid",
        {**ONE_OF_ONE, **AGAIN[2]},
    ),
    "two-copies-although-idempotent": (
        Made(writes=[W(0)], reads=[R(0), R(0)], plan=IDEMPOTENT),
        "invalid",
        {**ONE_OF_ONE, **AGAIN[1]},
    ),
    "two-readers-contradict-each-other": (
        Made(writes=LOG, reads=[*read_by("a", 0, 1, 2), *read_by("b", 0, 3)]),
        "unknown",
        {**FOUR, "survivors": 3, "lost": 1},
    ),
    "two-readers-contradict-each-other-at-an-offset": (
        Made(writes=[W(0)], reads=[R(0, offset=0, reader="a"), R(0, offset=7, reader="b")]),
        "unknown",
        ONE_OF_ONE,
    ),
    "two-readers-contradict-each-other-in-a-key": (
        Made(writes=[W(0, key="x")], reads=[R(0, key="x", reader="a"), R(0, key="y", reader="b")]),
        "unknown",
        ONE_OF_ONE,
    ),
    "the-log-began-later-for-the-second-reader": (
        Made(
            writes=LOG,
            reads=[*read_by("a", 0, 1, 2, 3), *read_by("b", 2, 3)],
            ends=[E(reader="a"), E(reader="b", start=2)],
            plan=DELETES,
        ),
        "valid",
        {**FOUR, "survivors": 4},
    ),
    "seen-only-by-a-reader-that-did-not-reach-the-end": (
        Made(
            writes=LOG,
            reads=[*(R(value, reader="a") for value in (0, 1, 2)), R(3, reader="b")],
            ends=[E(reader="a"), E(reader="b", complete=False)],
        ),
        "unknown",
        {**FOUR, "survivors": 3, "lost": 1},
    ),
    "lost-for-one-reader-and-the-other-did-not-reach-the-end": (
        Made(
            writes=LOG,
            reads=[*read_by("a", 0, 1, 2), *read_by("b", 0)],
            ends=[E(reader="a"), E(reader="b", position=1, complete=False)],
        ),
        "unknown",
        {**FOUR, "survivors": 3, "lost": 1},
    ),
    "refused-and-found-by-one-reader": (
        Made(
            writes=[W(0), W(1, "f")],
            reads=[R(0, reader="a"), R(1, reader="a")],
            ends=[E(reader="a")],
        ),
        "unknown",
        REFUSED_AND_FOUND,
    ),
    "nobody-wrote-what-one-reader-read": (
        Made(writes=[W(0)], reads=[R(0, reader="a"), R(-5, reader="a")], ends=[E(reader="a")]),
        "unknown",
        {**ONE_OF_ONE, "unexpected": 1},
    ),
    "two-copies-although-idempotent-for-one-reader": (
        Made(
            writes=[W(0)],
            reads=[R(0, reader="a"), R(0, reader="a")],
            ends=[E(reader="a")],
            plan=IDEMPOTENT,
        ),
        "unknown",
        {**ONE_OF_ONE, **AGAIN[1]},
    ),
    "all-there-for-one-reader": (
        Made(writes=[W(0)], reads=[R(0, reader="a")], ends=[E(reader="a")]),
        "valid",
        ONE_OF_ONE,
    ),
    "lost-on-the-partition-that-two-read": (
        Made(
            writes=[W(0), W(1), W(2, partition=1), W(3, partition=1)],
            reads=[R(0), R(2, partition=1, reader="a")],
            ends=[E(0), E(1, reader="a")],
            plan=TWO_PARTITIONS,
        ),
        "invalid",
        {**FOUR, "survivors": 2, "lost": 2},
    ),
    "all-there-and-not-every-replica-in-sync": (
        Made(writes=[W(0)], reads=[R(0)], ends=[E(isr=2)]),
        "unknown",
        ONE_OF_ONE,
    ),
    "two-copies": (
        Made(writes=[W(0)], reads=[R(0, offset=0), R(0, offset=7)]),
        "valid",
        {**ONE_OF_ONE, **AGAIN[1]},
    ),
    "sent-is-not-acknowledged": (
        Made(
            writes=[W(0), W(1), W(2, "i")],
            reads=[R(0)],
            plan={"workload": {"producer": {"acks": 0}}},
        ),
        "unknown",
        {"attempted": 3, "sent": 2, "unknown": 1, "survivors": 1, "unacknowledged_found": 1},
    ),
    "acks-that-an-earlier-version-took": (
        Made(writes=[W(0), W(1)], reads=[R(0)], run=ACKS_OF_0ABC),
        "unknown",
        {"attempted": 2, "sent": 2, "survivors": 1, "unacknowledged_found": 1},
    ),
    "beyond-the-end-of-an-isr-that-is-not-whole": (
        Made(writes=LOG, reads=[R(0), R(1)], ends=[E(position=2, isr=2)]),
        "unknown",
        {**FOUR, "survivors": 2, "not_yet_visible": 2},
    ),
    "below-the-end-of-an-isr-that-is-not-whole": (
        Made(writes=LOG, reads=[R(0), R(2, offset=2)], ends=[E(position=3, isr=2)]),
        "invalid",
        {**FOUR, "survivors": 2, "lost": 1, "not_yet_visible": 1},
    ),
    "beyond-the-end-of-a-whole-isr": (
        Made(writes=LOG, reads=[R(0), R(1)], ends=[E(position=2)]),
        "invalid",
        {**FOUR, "survivors": 2, "lost": 2},
    ),
    "not-read-to-the-end": (
        Made(writes=LOG, reads=[R(0), R(1)], ends=[E(position=2, complete=False)]),
        "unknown",
        {**FOUR, "survivors": 2, "not_yet_visible": 2},
    ),
    "missing-before-reading-stopped": (
        Made(writes=LOG, reads=[R(0), R(2, offset=2)], ends=[E(position=3, complete=False)]),
        "unknown",
        {**FOUR, "survivors": 2, "not_yet_visible": 2},
    ),
    "never-read": (Made(writes=LOG, ends=()), "unknown", {**FOUR, "not_yet_visible": 4}),
    "deleted-without-asking": (
        Made(writes=LOG, reads=[R(2, offset=2), R(3, offset=3)], ends=[E(start=2)]),
        "unknown",
        {**FOUR, "survivors": 2, "lost": 2, "deleted": 2},
    ),
    "deleted-and-lost": (
        Made(writes=LOG, reads=[R(2, offset=2)], ends=[E(start=2)]),
        "invalid",
        {**FOUR, "survivors": 1, "lost": 3, "deleted": 2},
    ),
    "deletion-under-test": (
        Made(writes=LOG, reads=[R(2, offset=2), R(3, offset=3)], ends=[E(start=2)], plan=DELETES),
        "invalid",
        {**FOUR, "survivors": 2, "lost": 2, "deleted": 2},
    ),
    "completed-without-an-invocation": (
        Made(writes=[W(0, invoked=False), W(1, "f", invoked=False)], reads=[R(0)]),
        "valid",
        {"attempted": 2, "acknowledged": 1, "failed": 1, "survivors": 1},
    ),
    "no-partition-known": (
        Made(writes=[W(0, partition=None), W(1, "f", partition=None)], reads=[R(0)]),
        "valid",
        {"attempted": 2, "acknowledged": 1, "failed": 1, "survivors": 1},
    ),
    "values-at-the-ends-of-int64": (
        Made(
            writes=[W(2**63 - 1), W(-(2**63)), W(-1), W(63), W(64)],
            reads=[R(2**63 - 1), R(-1), R(63)],
        ),
        "invalid",
        {"attempted": 5, "acknowledged": 5, "survivors": 3, "lost": 2},
    ),
    "the-nemesis-writes-nothing": (
        Made(writes=[W(0)], reads=[R(0)], nemesis=True),
        "valid",
        ONE_OF_ONE,
    ),
    "nothing-attempted": (Made(), "unknown", {}),
    "nothing-acknowledged": (Made(writes=[W(0, "f")]), "unknown", {"attempted": 1, "failed": 1}),
    "interrupted": (
        Made(
            writes=LOG,
            reads=[R(0), R(9)],
            ends=[E(position=1, complete=False)],
            run={"state": "interrupted"},
        ),
        "unknown",
        {**FOUR, "survivors": 1, "not_yet_visible": 3, "unexpected": 1},
    ),
    "attempted-in-a-fault": (Made(writes=[W(0), W(1, at_ms=6)], **IN_A_FAULT), "valid", TWO_OF_TWO),
    "due-in-a-fault-and-begun-after-it": (
        Made(writes=[W(0), W(1, at_ms=6, late_ms=5)], **IN_A_FAULT),
        "unknown",
        TWO_OF_TWO,
    ),
    "nothing-attempted-in-a-fault": (
        Made(writes=[W(0), W(1, at_ms=12)], **IN_A_FAULT),
        "unknown",
        TWO_OF_TWO,
    ),
}


@pytest.fixture(scope="module")
def judged(judge: Judge) -> dict[str, Judged]:
    return judge({name: made for name, (made, _, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_counts_and_verdict(name: str, judged: dict[str, Judged]) -> None:
    _, verdict, counts = CASES[name]
    reported = judged[name]
    assert reported.counted() == counts, reported.document["reason"]
    # An operation that never began or never ended is a gap of the run, whatever the checker says.
    said = reported.document["checks"][0] if name in HALF else reported.document
    assert said["verdict"] == verdict, reported.document["reason"]
    assert name not in HALF or reported.document["verdict"] == "unknown"


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_is_filed_row_for_row(name: str, judged: dict[str, Judged]) -> None:
    reported = judged[name]
    counts = reported.document["counts"]
    kinds = [row["kind"] for row in reported.findings]
    expected = {
        "lost": counts["lost"] - counts["deleted"],
        "duplicate": counts["duplicates"],
        **{name: counts[name] for name in ("deleted", "not_yet_visible")},
        **{name: counts[name] for name in ("failed_found", "unexpected")},
    }
    assert {kind: kinds.count(kind) for kind in expected} == expected
    assert {row["run_id"] for row in reported.findings} <= {name}


def test_the_rates_of_2013(judged: dict[str, Judged]) -> None:
    rates = judged["the-experiment-of-2013"].document["rates"]
    assert rates["ack"] == 0.987
    assert round(rates["loss"], 6) == 0.526849
    assert round(rates["unacknowledged_success"], 8) == 0.00101317


def test_a_lost_write_is_reported_with_all_that_is_known_of_it(judge: Judge) -> None:
    journal = (*CUT, *({**line, "fault": "isolate"} for line in CUT))
    writes = [W(4, offset=9, at_ms=5.5, late_ms=0.5, after_ms=2), W(5), W(6, "f", at_ms=7)]
    made = Made(writes=writes, reads=[R(5, offset=1), R(6, offset=2)], journal=journal)
    found = judge({"a": made})["a"].findings
    assert sorted(found, key=lambda row: int(row["value"])) == [
        _finding(
            kind="lost",
            value=4,
            process=0,
            offset=9,
            intended_ns=5_500_000,
            invoke_ns=6_000_000,
            complete_ns=8_000_000,
            fault="cut,isolate",
        ),
        _finding(
            kind="failed_found",
            value=6,
            process=2,
            intended_ns=7_000_000,
            invoke_ns=7_000_000,
            complete_ns=8_000_000,
            error="_MSG_TIMED_OUT",
            fault="cut,isolate",
            found_partition=0,
            found_offset=2,
        ),
    ]


def test_a_fault_of_a_finding_is_one_that_was_on_when_the_write_was_answered(judge: Judge) -> None:
    """Where it never was, when it was begun. The cut is on from 5 to 9 ms, both ends included."""
    writes = [
        W(0, at_ms=4, after_ms=2),  # begun before, answered in it
        W(1, at_ms=8, after_ms=4),  # begun in it, answered after
        W(2, at_ms=4, after_ms=9),
        W(3, at_ms=1, after_ms=4),
        W(4, at_ms=1, after_ms=8),
        W(5, at_ms=9, after_ms=0.001),
    ]
    found = judge({"a": Made(writes=writes, journal=CUT)})["a"].findings
    faults = {row["value"]: row["fault"] for row in found}
    assert faults == {0: "cut", 1: None, 2: None, 3: "cut", 4: "cut", 5: None}


def test_a_duplicate_of_a_write_that_was_never_answered_has_the_fault_it_began_in(
    judge: Judge,
) -> None:
    writes = [W(0, ".", at_ms=6), W(1, ".", at_ms=10)]
    made = Made(writes=writes, reads=[R(0), R(0), R(1), R(1)], journal=CUT)
    found = judge({"a": made})["a"].findings
    assert {row["value"]: row["fault"] for row in found} == {0: "cut", 1: None}


def test_a_value_that_failed_once_and_is_unknown_once_is_unknown(judge: Judge) -> None:
    """It may have been written by the attempt of which nothing is known; and what was acknowledged
    once is acknowledged."""
    twice = [
        *(W(0), W(1, "f"), W(2, "i"), W(3, "f"), W(4, "f")),
        *(W(1, "i", invoked=False), W(2, "f", invoked=False), W(3, "o", invoked=False)),
    ]
    reported = judge(
        {
            "found": Made(writes=twice, reads=[R(value) for value in range(4)]),
            "absent": Made(writes=twice, reads=[R(0)]),
            "copied": Made(writes=twice, reads=[R(v) for v in (0, 1, 1, 2, 2, 3, 3)]),
        }
    )
    written = {"attempted": 5, "acknowledged": 2, "unknown": 2, "failed": 1}
    found = {"survivors": 4, "unacknowledged_found": 2, "unknown_found": 2}
    again = {"duplicates": 3, "duplicates_acknowledged": 1, "duplicates_unknown": 2}
    assert reported["found"].counted() == {**written, **found}
    assert reported["found"].document["checks"][0]["verdict"] == "valid"
    assert reported["absent"].counted() == {**written, "survivors": 1, "lost": 1}
    assert reported["copied"].counted() == {**written, **found, **again}


def test_each_value_is_at_home_on_its_own_partition(judge: Judge) -> None:
    """Four odd values on three partitions: one must not be taken for another's copy."""
    writes = [W(0, partition=0), W(1, partition=1), W(2, partition=2), W(3, partition=1)]
    reads = [R(0, 0), R(0, 0), R(1, 2), R(2, 2), R(2, 1), R(3, 1), R(3, 1)]
    made = Made(
        writes=[*writes, W(4, partition=None)],
        reads=[*reads, R(4, 2), R(4, 0)],
        ends=[E(0), E(1), E(2)],
        plan={"topic": {"partitions": 3}},
    )
    reported = judge({"a": made})["a"]
    found = {"attempted": 5, "acknowledged": 5, "survivors": 4, "lost": 1}
    again = {"duplicates": 4, "duplicates_acknowledged": 4}
    assert reported.counted() == {**found, **again, "unexpected": 2}
    astray = [(row["value"], row["found_partition"]) for row in reported.findings
              if row["kind"] == "unexpected"]  # fmt: skip
    assert sorted(astray) == [(1, 2), (2, 1)]


def test_only_the_partition_that_was_not_in_sync_is_in_doubt(judge: Judge) -> None:
    there = [W(2, partition=0, offset=0), W(3, partition=1, offset=0)]
    writes = [W(0, partition=0, offset=5), W(1, partition=1, offset=5), *there]
    reads = [R(2, 0, offset=0), R(3, 1, offset=0)]
    for behind, visible in ((0, 1), (1, 0)):
        ends = [E(number, position=5, isr=2 if number == behind else 3) for number in (0, 1)]
        made = Made(writes=writes, reads=reads, ends=ends, plan=TWO_PARTITIONS)
        found = {row["value"]: row["kind"] for row in judge({f"r{behind}": made})[f"r{behind}"][1]}
        assert found == {behind: "not_yet_visible", visible: "lost"}


def test_writes_that_were_not_acknowledged_are_counted_by_code(judge: Judge) -> None:
    ends = ["i", "i", "f", ".", ".", "o"]
    document = judge({"a": Made(writes=[W(n, end) for n, end in enumerate(ends)])})["a"].document
    assert document["errors"] == {
        "unknown": {"_MSG_TIMED_OUT": 2, "NO_ANSWER": 2},
        "failed": {"_MSG_TIMED_OUT": 1},
    }
    for kind, codes in document["errors"].items():
        assert sum(codes.values()) == document["counts"][kind]


def test_each_fault_tells_how_many_writes_were_begun_in_it(judge: Judge) -> None:
    writes = [W(0), W(1, at_ms=5), W(2, at_ms=9), W(3, at_ms=6, late_ms=4)]
    made = Made(writes=writes, reads=[R(n) for n in range(4)], journal=CUT, plan={"faults": FAULTS})
    (fault,) = judge({"a": made})["a"].document["faults"]
    assert (fault["id"], fault["ops_begun"]) == ("cut", 2)


def test_found_things_tell_where(judge: Judge) -> None:
    reads = [R(0, offset=3), R(0, offset=8), R(0, offset=5), R(7, offset=4)]
    found = judge({"a": Made(writes=[W(0)], reads=reads)})["a"].findings
    places = [
        (row["kind"], row["value"], row["found_partition"], row["found_offset"]) for row in found
    ]
    assert sorted(places) == [
        ("duplicate", 0, 0, 5),
        ("duplicate", 0, 0, 8),
        ("unexpected", 7, 0, 4),
    ]


def test_a_finding_has_the_least_of_all_values(judge: Judge) -> None:
    judged = judge({"least": Made(writes=[W(0), W(-(2**63))], reads=[R(0)])})
    assert [(row["kind"], row["value"]) for row in judged["least"].findings] == [("lost", -(2**63))]


def test_findings_of_an_earlier_check_do_not_stay(judge: Judge, tmp_path: Any) -> None:
    from checkers.judging.many_runs import check_runs

    lossy = Made(writes=[W(0), W(1)], reads=[R(0)]).build(tmp_path, "lossy")
    check_runs([lossy])
    assert lossy.loss.exists()
    whole = Made(writes=[W(0), W(1)], reads=[R(0), R(1)]).build(tmp_path, "whole")
    whole.loss.write_bytes(lossy.loss.read_bytes())
    check_runs([whole])
    assert list(whole.findings.iterdir()) == []


def _finding(**reported: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("key", "error", "fault", "offset", "process", "found_partition", "found_offset")
    )
    return {"run_id": "a", "partition": 0, **nothing, **reported}

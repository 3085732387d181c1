"""Every rule of the verdict, one case each, with the sentence that a person reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.facts import Facts, PartitionEnd
from checkers.verdict import Counts, is_complete, judge, rates
from harness.journal import FaultWindow

WHOLE = PartitionEnd(partition=0, log_start=0, read_to=9, complete=True, whole=True)
FACTS = Facts(run_id="a", history=(), reads=(), ends=(WHOLE,), partitions=1)
GOOD = Counts(attempted=4800, acknowledged=4799, unknown=1, survivors=4799)
CUT = FaultWindow(
    id="cut",
    nemesis="partition",
    from_s=1,
    to_s=2,
    nodes=["b1"],
    met=None,
    proven=True,
    evidence=[],
    why="",
)
UNPROVEN = replace(CUT, proven=False)
HALF = replace(WHOLE, complete=False, whole=False)

CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("valid", "all 4,799 acknowledged writes are there", {}, {}),
    ("valid", "the 1 acknowledged write is there", {"acknowledged": 1, "survivors": 1}, {}),
    (
        "valid",
        "all 4,799 acknowledged writes are there, under 1 proven fault",
        {},
        {"windows": (CUT,), "faults_asked": 1},
    ),
    ("invalid", "3,347 of 4,799 acknowledged writes (69.7 %) are lost", {"lost": 3347}, {}),
    ("invalid", "1 of 4,799 acknowledged writes (0.0208 %) is lost", {"lost": 1}, {}),
    (
        "invalid",
        "2 of 4,799 acknowledged writes (0.0417 %) are lost; 3 values were read that nobody wrote "
        "there",
        {"lost": 2, "unexpected": 3},
        {},
    ),
    ("invalid", "1 write that was refused is there all the same", {"failed_found": 1}, {}),
    ("invalid", "2 writes that were refused are there all the same", {"failed_found": 2}, {}),
    ("invalid", "1 duplicate of writes of an idempotent producer", {"duplicates": 1}, {"x": 1}),
    ("valid", "all 4,799 acknowledged writes are there", {"duplicates": 7}, {}),
    (
        "invalid",
        "5 of 4,799 acknowledged writes (0.104 %) are lost (at least: the run or its final read "
        "is not complete)",
        {"lost": 5},
        {"ends": (HALF,)},
    ),
    (
        "invalid",
        "5 of 4,799 acknowledged writes (0.104 %) are lost (at least: the run or its final read "
        "is not complete)",
        {"lost": 5},
        {"state": "interrupted"},
    ),
    ("unknown", "the run was interrupted", {"unexpected": 5}, {"state": "interrupted"}),
    ("unknown", "the run failed: no disk", {}, {"state": "failed", "error": "no disk"}),
    ("unknown", "the run broke off while reading", {}, {"state": "reading"}),
    ("unknown", "not every partition was read to its end", {}, {"ends": (HALF,)}),
    ("unknown", "not every partition was read to its end", {}, {"partitions": 2}),
    ("unknown", "nothing was read back", {}, {"ends": ()}),
    (
        "unknown",
        "2 acknowledged writes may stand beyond what was read",
        {"not_yet_visible": 2},
        {},
    ),
    (
        "unknown",
        "3 acknowledged writes may have been deleted: the log no longer begins at 0, and the plan "
        "does not test that",
        {"lost": 3, "deleted": 3},
        {},
    ),
    (
        "invalid",
        "3 of 4,799 acknowledged writes (0.0625 %) are lost",
        {"lost": 3, "deleted": 3},
        {"deletion_tested": True},
    ),
    (
        "invalid",
        "1 of 4,799 acknowledged writes (0.0208 %) is lost",
        {"lost": 4, "deleted": 3},
        {},
    ),
    (
        "unknown",
        "a fault was asked for, and none was proven",
        {},
        {"faults_asked": 2, "windows": (UNPROVEN, UNPROVEN)},
    ),
    ("unknown", "a fault was asked for, and none was proven", {}, {"faults_asked": 1}),
    (
        "valid",
        "all 4,799 acknowledged writes are there, under 1 proven fault",
        {},
        {"faults_asked": 2, "windows": (CUT, UNPROVEN)},
    ),
    (
        "unknown",
        "nothing was attempted while a fault was on",
        {},
        {"faults_asked": 1, "windows": (CUT,), "quiet": True},
    ),
    ("unknown", "nothing was attempted", {"attempted": 0, "acknowledged": 0}, {}),
    (
        "unknown",
        "none of 4,800 attempted writes was acknowledged",
        {"acknowledged": 0, "survivors": 0},
        {},
    ),
    (
        "unknown",
        "the load generator was held up",
        {},
        {"starved": "the load generator was held up"},
    ),
]


@pytest.mark.parametrize(("verdict", "reason", "counts", "facts"), CASES)
def test_verdict_and_reason(
    verdict: str, reason: str, counts: dict[str, Any], facts: dict[str, Any]
) -> None:
    facts = dict(facts)
    quiet, idempotent = facts.pop("quiet", False), bool(facts.pop("x", False))
    told = judge(
        replace(GOOD, **counts),
        replace(FACTS, **facts),
        attempted_in_fault=not quiet,
        idempotent=idempotent,
    )
    assert told[:2] == (verdict, reason)
    assert bool(told.counter_examples) is (verdict == "invalid")
    assert bool(told.doubts) or verdict != "unknown"


@pytest.mark.parametrize("worse", [{"state": "failed"}, {"ends": (HALF,)}, {"partitions": 2}])
def test_complete(worse: dict[str, Any]) -> None:
    assert is_complete(FACTS)
    assert not is_complete(replace(FACTS, **worse))


def test_rates_are_split_and_null_where_nothing_divides() -> None:
    counts = Counts(
        attempted=10,
        acknowledged=4,
        lost=1,
        unacknowledged_found=3,
        failed_found=1,
        unknown_found=2,
    )
    assert rates(counts) == {
        "ack": 0.4,
        "loss": 0.25,
        "unacknowledged_success": 0.75,
        "failed_success": 0.25,
        "unknown_success": 0.5,
        "unacknowledged_success_of_unacknowledged": 0.5,
    }
    assert set(rates(Counts()).values()) == {None}
    assert rates(Counts(attempted=1, acknowledged=1))["loss"] == 0
    every_ack = rates(Counts(attempted=1, acknowledged=1))
    assert every_ack["unacknowledged_success_of_unacknowledged"] is None


@pytest.mark.parametrize(
    ("counts", "facts", "counter_examples", "doubts"),
    [
        ({}, {}, (), ()),
        ({"lost": 2, "unexpected": 3}, {}, ("lost", "unexpected"), ()),
        ({"failed_found": 1}, {}, ("failed_found",), ()),
        ({"lost": 2}, {"ends": (HALF,)}, ("lost",), ("incomplete",)),
        ({"lost": 3, "deleted": 3}, {"deletion_tested": True}, ("lost",), ()),
        ({"lost": 3, "deleted": 3}, {}, (), ("deleted",)),
        ({}, {"faults_asked": 1}, (), ("vacuous",)),
        ({"acknowledged": 0}, {"faults_asked": 1}, (), ("vacuous",)),
        ({"not_yet_visible": 1}, {"ends": ()}, (), ("incomplete", "not_yet_visible")),
        ({}, {"starved": "held up"}, (), ("starved",)),
        ({}, {"state": "interrupted"}, (), ("interrupted",)),
        ({}, {"state": "failed"}, (), ("failed",)),
        ({}, {"state": "reading"}, (), ("failed",)),
    ],
)
def test_what_programs_read(
    counts: dict[str, Any],
    facts: dict[str, Any],
    counter_examples: tuple[str, ...],
    doubts: tuple[str, ...],
) -> None:
    told = judge(
        replace(GOOD, **counts),
        replace(FACTS, **facts),
        attempted_in_fault=True,
        idempotent=False,
    )
    assert told[2:] == (counter_examples, doubts)

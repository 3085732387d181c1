"""Every rule of the verdict, one case each, with the sentence that a person reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers import loss
from checkers.judging.verdict import Verdict, is_complete, judge
from checkers.loss import Basis
from checkers.loss.readers import Disagreement
from harness.history.documents import Counts
from harness.protocols import (
    CheckResult,
    Facts,
    FaultWindow,
    Gaps,
    PartitionEnd,
    Promises,
    ScriptedFault,
)

WHOLE = PartitionEnd(
    partition=0, log_start=0, read_to=9, complete=True, whole=True, readers=("a", "b")
)
FACTS = Facts(run_id="a", history=(), reads=(), ends=(WHOLE,))
GOOD = Counts(attempted=4800, acknowledged=4799, unknown=1, survivors=4799, lost=0)
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
ISOLATE = replace(CUT, id="isolate")
UNPROVEN = replace(ISOLATE, proven=False)
CLAIMED = replace(UNPROVEN, claimed=True)
UNMET = replace(ISOLATE, met=False)
CONTROL = replace(ISOLATE, proven=False, control=True)
RUN = Path("runs/a")
SKIPPED = replace(UNMET, proven=False, from_s=None, to_s=None)
ONE = (ScriptedFault(id="cut"),)
TWO = (*ONE, ScriptedFault(id="isolate"))
MAY_SKIP = (*ONE, ScriptedFault(id="isolate", may_skip=True))
HALF = replace(WHOLE, complete=False, whole=False, readers=())
BEGUN_LATER = replace(WHOLE, log_start=4)
DISAGREEMENT = Disagreement(readers=("a", "b"), partition="partition 0")


def drawn(proven: int, of: int) -> dict[str, Any]:
    """Facts of faults drawn at random, of which so many are proven."""
    ids = [f"kill-{number}" for number in range(of)]
    return {
        "drawn": True,
        "faults": tuple(ScriptedFault(id=each) for each in ids),
        "windows": tuple(
            replace(CUT, id=each, proven=place < proven) for place, each in enumerate(ids)
        ),
    }


FOUND = "all 4,799 acknowledged writes were found"
LOST_1 = "1 of 4,799 acknowledged writes (0.021 %) is lost"
LOST_5 = "5 of 4,799 acknowledged writes (0.10 %) are lost"
AT_LEAST_5 = f"{LOST_5} (at least: the run, its final read or its folder is not complete)"
NOT_PROVEN = "1 of 2 requested faults is not proven: isolate"
NO_LOAD = "no operation was begun while a proven fault was in force"
MISSING = Gaps(history=("missing: x",))

CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    (
        "unknown",
        f"{NOT_PROVEN} (claimed, not proven)",
        {},
        {"windows": (CUT, CLAIMED), "faults": TWO},
    ),
    (
        "invalid",
        "3,347 of 4,799 acknowledged writes (69.7 %) are lost",
        {"lost": 3347},
        {"windows": (CUT, CLAIMED), "faults": TWO},
    ),
    ("valid", FOUND, {}, {}),  # from outside: who knows
    ("valid", f"{FOUND}; no fault was made", {}, {"folder": RUN}),
    ("invalid", f"{LOST_1}; no fault was made", {"lost": 1}, {"folder": RUN}),
    (
        "valid",
        f"{FOUND}; no fault was made, only 1 control",
        {},
        {"folder": RUN, "faults": TWO[1:], "windows": (CONTROL,), "begun": (0,)},
    ),
    (
        "valid",
        f"{FOUND}, under 1 proven fault, beside 1 control",
        {},
        {"folder": RUN, "faults": TWO, "windows": (CUT, CONTROL)},
    ),
    (
        "unknown",  # operations of a control make up for nothing
        NO_LOAD,
        {},
        {"folder": RUN, "faults": TWO, "windows": (CUT, CONTROL), "begun": (0, 7)},
    ),
    ("valid", "the 1 acknowledged write was found", {"acknowledged": 1, "survivors": 1}, {}),
    ("valid", f"{FOUND}, under 1 proven fault", {}, {"windows": (CUT,), "faults": ONE}),
    ("invalid", "3,347 of 4,799 acknowledged writes (69.7 %) are lost", {"lost": 3347}, {}),
    ("invalid", LOST_1, {"lost": 1}, {}),
    (
        "invalid",
        "2 of 4,799 acknowledged writes (0.042 %) are lost; "
        "3 values were read that were never written there",
        {"lost": 2, "unexpected": 3},
        {},
    ),
    ("invalid", "4,798 of 4,799 acknowledged writes (99.979 %) are lost", {"lost": 4798}, {}),
    ("invalid", "1 value was read that was never written there", {"unexpected": 1}, {}),
    ("invalid", "1 write that failed was found in the log", {"failed_found": 1}, {}),
    ("invalid", "2 writes that failed were found in the log", {"failed_found": 2}, {}),
    ("invalid", "1 duplicate of writes of an idempotent producer", {"duplicates": 1}, {"x": 1}),
    ("valid", FOUND, {"duplicates": 7}, {}),
    ("invalid", AT_LEAST_5, {"lost": 5}, {"ends": (HALF,)}),
    ("invalid", AT_LEAST_5, {"lost": 5}, {"state": "interrupted"}),
    ("unknown", "the run was interrupted", {"unexpected": 5}, {"state": "interrupted"}),
    ("unknown", "the run failed: no disk", {}, {"state": "failed", "error": "no disk"}),
    ("unknown", "the run broke off while reading", {}, {"state": "reading"}),
    (
        "unknown",
        "the run says that it is done, and why it is not: no disk",
        {},
        {"error": "no disk"},
    ),
    ("unknown", "not every partition was read to its end", {}, {"ends": (HALF,)}),
    (
        "unknown",
        "not every partition was read to its end: a checksum is wrong",
        {},
        {"ends": (replace(HALF, error="a checksum is wrong"),)},
    ),
    ("unknown", "not every partition was read to its end", {}, {"partitions": 2}),
    ("unknown", "nothing was read back", {}, {"ends": ()}),
    ("unknown", "2 acknowledged writes may stand beyond what was read", {"not_yet_visible": 2}, {}),
    (
        "unknown",
        "3 acknowledged writes may have been deleted: "
        "the log no longer begins at 0, and the plan does not test that",
        {"lost": 3, "deleted": 3},
        {"ends": (BEGUN_LATER,)},
    ),
    (
        "invalid",
        "3 of 4,799 acknowledged writes (0.063 %) are lost",
        {"lost": 3, "deleted": 3},
        {"deletes": True},
    ),
    ("invalid", LOST_1, {"lost": 4, "deleted": 3}, {}),
    ("unknown", NOT_PROVEN, {}, {"faults": TWO, "windows": (CUT, UNPROVEN)}),
    (
        "unknown",
        "2 of 2 requested faults are not proven: cut, isolate",
        {},
        {"faults": TWO, "windows": (replace(CUT, proven=False), UNPROVEN)},
    ),
    ("unknown", "1 of 1 requested fault is not proven: cut", {}, {"faults": ONE}),
    (
        "unknown",
        NOT_PROVEN,  # its step was never reached
        {},
        {"faults": TWO, "windows": (CUT,)},
    ),
    ("valid", f"{FOUND}, under 2 proven faults", {}, {"faults": TWO, "windows": (CUT, ISOLATE)}),
    (
        "valid",
        f"{FOUND}, under 1 proven fault (1 more met no operation)",
        {},
        {"faults": TWO, "windows": (CUT, ISOLATE), "begun": (7, 0)},
    ),
    ("unknown", NO_LOAD, {}, {"faults": TWO, "windows": (CUT, ISOLATE), "begun": (0, 0)}),
    (
        "unknown",  # what the plan does not ask for makes up for nothing
        NO_LOAD,
        {},
        {"faults": ONE, "windows": (CUT, ISOLATE), "begun": (0, 7)},
    ),
    ("valid", f"{FOUND}, under 1 proven fault", {}, {"faults": ONE, "windows": (CUT, ISOLATE)}),
    (
        "unknown",  # load under an unproven fault makes up for nothing
        f"{NOT_PROVEN}; {NO_LOAD}",
        {},
        {"faults": TWO, "windows": (CUT, UNPROVEN), "begun": (0, 7)},
    ),
    (
        "unknown",
        "the condition never held that isolate waited for",
        {},
        {"faults": TWO, "windows": (CUT, UNMET)},
    ),
    (
        "valid",
        f"{FOUND}, under 1 proven fault",
        {},
        {"faults": MAY_SKIP, "windows": (CUT, SKIPPED)},
    ),
    (
        "unknown",
        NOT_PROVEN,  # the load had ended before its turn
        {},
        {"faults": MAY_SKIP, "windows": (CUT, replace(SKIPPED, met=None))},
    ),
    (
        "unknown",
        "no fault took place: every step was skipped",
        {},
        {"faults": MAY_SKIP[1:], "windows": (SKIPPED,)},
    ),
    ("valid", f"{FOUND}, under 2 of 4 proven faults", {}, drawn(2, 4)),
    ("unknown", "only 2 of 5 faults drawn at random are proven, fewer than half", {}, drawn(2, 5)),
    ("unknown", "no fault took place: none was drawn", {}, drawn(0, 0)),
    (
        "unknown",
        "not every replica of partition 0 was in sync at the end",
        {},
        {"replicated": {0: False, 1: True}},
    ),
    (
        "unknown",
        "not every replica of 2 partitions was in sync at the end; "
        "it is not known whether every replica of partition 3 was in sync at the end",
        {},
        {"replicated": {0: False, 1: True, 2: False, 3: None}},
    ),
    ("valid", FOUND, {}, {"replicated": {0: True}}),
    ("invalid", LOST_5, {"lost": 5}, {"replicated": {0: False}}),
    ("unknown", "a and b read different records of partition 0", {}, {"apart": True}),
    (
        "invalid",
        f"{LOST_5}; a and b hold different records of partition 0",
        {"lost": 5},
        {"apart": True, "readers_are_replicas": True},
    ),
    (
        "invalid",
        "a and b hold different records of partition 0",
        {},
        {"apart": True, "readers_are_replicas": True},
    ),
    ("valid", FOUND, {}, {"readers_are_replicas": True}),
    ("unknown", "missing: x", {}, {"gaps": MISSING}),
    ("unknown", "missing: x", {"unexpected": 3}, {"gaps": MISSING}),
    ("unknown", "missing: x", {}, {"gaps": Gaps(other=("missing: x",))}),
    ("valid", FOUND, {}, {"gaps": Gaps(aside=("missing: x",))}),
    ("invalid", AT_LEAST_5, {"lost": 5}, {"gaps": MISSING}),
    ("unknown", "a and b read different records of partition 0", {"lost": 5}, {"apart": True}),
    (
        "unknown",
        "5 acknowledged writes are missing from what one reader read: "
        "no second library read them to the end",
        {"lost": 5},
        {"unconfirmed": {"lost": 5}},
    ),
    (
        "invalid",
        "3 of 4,799 acknowledged writes (0.063 %) are lost",
        {"lost": 5},
        {"unconfirmed": {"lost": 2}},
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


@pytest.mark.parametrize(
    ("counts", "given", "confirmed"),
    [
        (
            {"lost": 5, "failed_found": 1},
            {"unconfirmed": {"lost": 2}},
            {"lost": 3, "failed_found": 1},
        ),
        ({"lost": 5}, {"unconfirmed": {"lost": 5}}, {}),
        ({"lost": 4, "deleted": 3, "duplicates": 2}, {"x": 1}, {"lost": 1, "duplicates": 2}),
        ({"lost": 5}, {"apart": True}, {}),
    ],
)
def test_what_two_readers_saw_is_counted(
    counts: dict[str, Any], given: dict[str, Any], confirmed: dict[str, int]
) -> None:
    assert loss.confirmed(*basis_of(counts, given)) == confirmed


def basis_of(counts: dict[str, Any], given: dict[str, Any]) -> tuple[Facts, Basis]:
    """The facts and counts of a good run, but for these counts and circumstances."""
    promises = Promises(
        partitions=given.get("partitions", 1),
        once=bool(given.get("x")),
        deletes=given.get("deletes", False),
        readers_are_replicas=given.get("readers_are_replicas", False),
    )
    changed = {name: value for name, value in given.items() if hasattr(FACTS, name)}
    facts = replace(FACTS, promises=promises, **changed)
    basis = Basis(
        counts=replace(GOOD, **counts),
        unconfirmed=given.get("unconfirmed", {}),
        disagreements=[DISAGREEMENT] if given.get("apart") else [],
        once=promises.once,
    )
    return facts, basis


def judged(counts: dict[str, Any], given: dict[str, Any]) -> Verdict:
    """The verdict of such a run."""
    facts, basis = basis_of(counts, given)
    result = CheckResult(
        counts={},
        counter_examples=tuple(loss.counter_examples(facts, basis)),
        doubts=tuple(loss.doubts(facts, basis)),
        all_well=loss.all_well(basis),
    )
    return judge(facts, [result], given.get("begun", (7,) * len(given.get("windows", ()))))


@pytest.mark.parametrize(("verdict", "reason", "counts", "facts"), CASES)
def test_verdict_and_reason(
    verdict: str, reason: str, counts: dict[str, Any], facts: dict[str, Any]
) -> None:
    reported = judged(counts, facts)
    assert reported[:2] == (verdict, reason)
    assert bool(reported.counter_examples) is (verdict == "invalid")
    assert bool(reported.doubts) or verdict != "unknown"


@pytest.mark.parametrize(
    "worse",
    [
        {"state": "failed"},
        {"ends": (HALF,)},
        {"promises": Promises(partitions=2)},
        {"gaps": Gaps(other=("x",))},
    ],
)
def test_complete(worse: dict[str, Any]) -> None:
    assert is_complete(FACTS)
    assert not is_complete(replace(FACTS, **worse))


@pytest.mark.parametrize(
    ("counts", "facts", "counter_examples", "doubts", "eligible"),
    [
        ({}, {}, (), (), True),
        ({"lost": 2, "unexpected": 3}, {}, ("lost", "unexpected"), (), True),
        ({"failed_found": 1}, {}, ("failed_found",), (), True),
        ({"lost": 2}, {"ends": (HALF,)}, ("lost",), ("incomplete",), False),
        ({"lost": 3, "deleted": 3}, {"deletes": True}, ("lost",), (), True),
        ({"lost": 3, "deleted": 3}, {"ends": (BEGUN_LATER,)}, (), ("deleted",), False),
        ({}, {"ends": (BEGUN_LATER,)}, (), ("deleted",), False),
        ({}, {"faults": ONE}, (), ("unproven",), False),
        ({"lost": 1}, {"faults": ONE}, ("lost",), ("unproven",), False),
        ({"acknowledged": 0}, {"faults": ONE}, (), ("vacuous", "unproven"), False),
        ({"lost": 1}, {"faults": TWO, "windows": (CUT, UNMET)}, ("lost",), ("unmet",), False),
        ({"not_yet_visible": 1}, {"ends": ()}, (), ("incomplete", "not_yet_visible"), False),
        ({"not_yet_visible": 1}, {}, (), ("not_yet_visible",), True),
        ({"lost": 1}, {"unconfirmed": {"lost": 1}}, (), ("readers",), True),
        ({"lost": 1}, {"apart": True}, (), ("readers",), True),
        ({"lost": 1}, {"replicated": {0: False}}, ("lost",), ("replicas",), False),
        ({"duplicates": 1}, {"unconfirmed": {"duplicates": 1}}, (), (), True),
        ({"duplicates": 1}, {"unconfirmed": {"duplicates": 1}, "x": 1}, (), ("readers",), True),
        ({}, {"starved": "held up"}, (), ("starved",), False),
        ({"lost": 1}, {"starved": "held up"}, ("lost",), ("starved",), False),
        ({}, {"state": "interrupted"}, (), ("interrupted",), False),
        ({}, {"state": "failed"}, (), ("failed",), False),
        ({}, {"state": "reading"}, (), ("failed",), False),
    ],
)
def test_what_programs_read(
    counts: dict[str, Any],
    facts: dict[str, Any],
    counter_examples: tuple[str, ...],
    doubts: tuple[str, ...],
    eligible: bool,
) -> None:
    assert judged(counts, facts)[2:] == (counter_examples, doubts, eligible)

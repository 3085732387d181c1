"""Random histories with the answers of Jepsen's `checker/set` and `checker/set-full` (0.3.14).

All fields agree but those that DIFFERENT names, each for a reason; and those differ as it says.
The two files share their histories. That the reasons are ours is shown by `test_differences`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from checkers.sets import quantiles_ns
from checkers.sets.outcomes import outcomes, sightings
from harness.protocols.runs import Ints
from tests.checkers.sets.ops import MS, Judged, Said, history, judge

FOLDER = Path(__file__).parents[2] / "histories"
SET, SET_FULL = (
    [orjson.loads(line) for line in (FOLDER / f"jepsen-{name}.jsonl").read_bytes().splitlines()]
    for name in ("set", "set-full")
)
HISTORIES = {case["name"]: case["history"] for case in SET}
VERDICTS = {"valid": True, "invalid": False, "unknown": "unknown"}

NOBODYS = ("valid?", "invalid", True)
"""Set-full ignores an element that was read and never added."""
VACUOUS = ("valid?", "unknown", True)
"""Set calls valid a history in which no add was acknowledged."""

DIFFERENT = {
    "fuzz-set-full-031": NOBODYS,
    "fuzz-set-full-038": NOBODYS,
    "fuzz-set-full-044": NOBODYS,
    "fuzz-set-048": VACUOUS,
}

Answer = dict[str, Any]


def differences(name: str, verdict: str, ours: Answer, theirs: Answer) -> list[tuple[Any, ...]]:
    """The fields in which two answers differ; that of a verdict in our words."""
    differ = [(key, value, theirs[key]) for key, value in ours.items() if value != theirs[key]]
    return [("valid?", verdict, each[2]) if each[0] == "valid?" else each for each in differ]


@pytest.mark.parametrize("case", SET_FULL, ids=lambda case: str(case["name"]))
def test_set_full(case: dict[str, Any], tmp_path: Path) -> None:
    lines = history(tmp_path, HISTORIES[case["history"]])
    judged = judge(lines, linearizable=case["options"]["linearizable?"])
    became = outcomes(lines, sightings(lines))
    counts, said, theirs = judged.tally.counts, Said(judged), case["result"]
    ours = {
        "attempt-count": counts["attempted"],
        "stable-count": counts["stable"],
        "lost-count": counts["lost"],
        "stale-count": counts["stale"],
        "never-read-count": counts["never_read"],
        "lost": [row["value"] for row in said.found("lost")],
        "stale": [row["value"] for row in said.found("stale")],
        "never-read": sorted(lines.adds.value[became.never_read].tolist()),
        "duplicated-count": counts["duplicated"],
        "stable-latencies": whole_ms(judged.tally.stable_ns),
        "lost-latencies": whole_ms(judged.tally.lost_ns),
        "valid?": VERDICTS[judged.verdict],
    }
    without: Answer = {
        "stable-latencies": {},
        "lost-latencies": {},
    }  # Jepsen leaves out what is empty
    differ = differences(case["name"], judged.verdict, ours, {**without, **theirs})
    assert differ == ([DIFFERENT[case["name"]]] if case["name"] in DIFFERENT else [])


@pytest.mark.parametrize("case", SET, ids=lambda case: str(case["name"]))
def test_set(case: dict[str, Any], tmp_path: Path) -> None:
    judged = judge(history(tmp_path, case["history"]))
    assert judged.tally.read is not None
    final = judged.tally.read["counts"]
    ours = {
        "attempt-count": final["attempted"],
        "acknowledged-count": final["acknowledged"],
        "ok-count": final["survivors"],
        "lost-count": final["lost"],
        "unexpected-count": final["unexpected"],
        "recovered-count": final["unacknowledged_found"],
        "valid?": VERDICTS[judged.verdict],
    }
    differ = differences(case["name"], judged.verdict, ours, case["result"])
    assert differ == ([DIFFERENT[case["name"]]] if case["name"] in DIFFERENT else [])
    if DIFFERENT.get(case["name"]) == VACUOUS:
        assert (final["acknowledged"], doubts(judged)) == (0, ["vacuous"])


@pytest.mark.parametrize("name", [name for name, why in DIFFERENT.items() if why == NOBODYS])
def test_what_set_full_ignores_is_what_set_finds(name: str, tmp_path: Path) -> None:
    case = next(case for case in SET_FULL if case["name"] == name)
    judged = judge(history(tmp_path, HISTORIES[case["history"]]))
    assert Said(judged).counter_examples == ["unexpected"]


def test_all_are_there() -> None:
    assert (len(SET), len(SET_FULL)) == (60, 60)
    assert {case["options"]["linearizable?"] for case in SET_FULL} == {True, False}


def doubts(judged: Judged) -> list[str]:
    return [each.name for each in judged.result.doubts]


def whole_ms(latencies_ns: Ints) -> dict[str, int]:
    """Quantiles cut to whole milliseconds, as Jepsen has them."""
    return {point: ns // MS for point, ns in quantiles_ns(latencies_ns).items()}

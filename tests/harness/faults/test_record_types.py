"""Undo records of levers that only a target has: found by the targets of this installation, when a
journal names one, and refused in one sentence where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.errors import HarnessFailure
from harness.faults.journal import open_acts, record_type, windows
from harness.plan import parse_plan
from harness.run.resolving import resolve
from harness.run.runner import levers_of
from tests.fixtures.dry_run import DryRunCluster
from tests.fixtures.planting import Plant

ROOT = Path(__file__).parents[3]
RECORD = """
from harness.protocols import Lever, UndoRecord
from targets.memory import Memory

@dataclass(frozen=True, kw_only=True)
class WarpRecord(UndoRecord):
    counts: ClassVar[bool] = COUNTS
    factor: int = 9
"""
TARGET = '''
@dataclass(frozen=True)
class Warped(Memory):
    """Warped."""

    plugin: ClassVar[str] = "warped"
    own_levers: ClassVar = frozenset({"warp"})
    record_types: ClassVar = {"warp": WarpRecord}
'''
LEVER = """
    def levers(self, cluster, plan, *, say=None):
        return {"warp": WarpLever()}

class WarpLever:
    name = "warp"
    record_type = WarpRecord
"""
INTENT: dict[str, Any] = {
    "type": "intent",
    "n": 1,
    "fault": "fast",
    "lever": "warp",
    "token": {"node": "n1", "fault": "fast", "seed": 3, "factor": 8},
}
STILL = {"node": "n1", "pid": 7, "fault": "fast"}
PLAN = {"schema": 1, "name": "p", "target": {"system": "warped"}, "cluster": {"kind": "memory"}}


def body(*, counts: bool = False) -> str:
    return RECORD.replace("COUNTS", str(counts)) + TARGET


def journal(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "faults.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_the_record_of_a_target_is_read_by_its_own_type(plant: Plant, tmp_path: Path) -> None:
    plant(body(), targets_warped="Warped")
    left = open_acts(journal(tmp_path, INTENT))
    (act,) = left.acts
    assert (left.unreadable, left.foreign) == ([], [])
    declared: Any = registry.plugins("targets")["warped"]
    assert act.record == declared.record_types["warp"](**INTENT["token"])
    assert record_type("warp") is declared.record_types["warp"]


def test_a_record_that_nothing_here_has_is_one_sentence_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    path = journal(tmp_path, INTENT, {**INTENT, "n": 2, "lever": "pause", "token": STILL})
    left = open_acts(path)
    assert [act.n for act in left.acts] == [2]
    assert left.unreadable == [
        f"{path}:1: names the lever 'warp', which neither this version nor a target here has; "
        "install the package of the run's target, in the version that the run used"
    ]
    assert [str(error) for error in left.foreign] == left.unreadable


def test_a_name_that_is_nearly_one_is_named(tmp_path: Path) -> None:
    (reported,) = open_acts(journal(tmp_path, {**INTENT, "lever": "leadershp"})).unreadable
    assert "(the nearest is 'leadership'); install" in reported


def test_of_a_declared_record_too_nothing_is_guessed(plant: Plant, tmp_path: Path) -> None:
    plant(body(), targets_warped="Warped")
    odd = {**INTENT, "token": {**INTENT["token"], "speed": 8}}
    left = open_acts(journal(tmp_path, odd))
    assert left.acts == []
    assert "speed: is unknown" in left.unreadable[0]
    assert len(left.foreign) == 1, "another version of its package may have this key"


def test_two_targets_that_mean_different_records_are_named(plant: Plant, tmp_path: Path) -> None:
    plant(body(), targets_warped="Warped")
    plant(body().replace('"warped"', '"other"'), 1, targets_other="Warped")
    (reported,) = open_acts(journal(tmp_path, INTENT)).unreadable
    assert "names the lever 'warp', for which the targets other and warped declare" in reported


@pytest.mark.parametrize("counts", [True, False])
def test_a_lever_of_a_target_that_counts_is_proven_by_its_count_alone(
    plant: Plant, tmp_path: Path, counts: bool
) -> None:
    plant(body(counts=counts), targets_warped="Warped")
    proof = {"type": "proof", "fault": "fast", "proven": True, "evidence": []}
    step = {"type": "step", "fault": "fast", "nemesis": "warp", "nodes": ["n1"], "met": None}
    (window,) = windows(
        journal(
            tmp_path,
            step,
            INTENT,
            {"type": "on", "fault": "fast", "time_ns": 1},
            {**proof, "phase": "held"},
            {"type": "healed", "fault": "fast", "time_ns": 2},
            {**proof, "phase": "undone"},
        )
    )
    assert window.proven is not counts


def test_a_journal_of_the_core_imports_no_target(tmp_path: Path) -> None:
    """Nor does importing what reads it."""
    path = journal(tmp_path, {**INTENT, "lever": "pause", "token": STILL})
    code = f"""
import sys
from pathlib import Path
from harness.faults.journal import open_acts, windows
assert len(open_acts(Path({str(path)!r})).acts) == 1
assert windows(Path({str(path)!r})) == []
print(*(name for name in sys.modules if name.startswith("targets")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []


def test_a_lever_with_the_declared_record_is_one_of_the_run(plant: Plant) -> None:
    plant(body() + LEVER, targets_warped="Warped")
    assert "warp" in levers_of(resolve(parse_plan(PLAN)), DryRunCluster({}))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("record_type = WarpRecord", "record_type = UndoRecord"),
        ('{"warp": WarpLever()}', '{"wrap": WarpLever()}'),
    ],
)
def test_a_lever_is_refused_whose_records_a_journal_could_not_give_back(
    plant: Plant, right: str, wrong: str
) -> None:
    assert right in LEVER
    plant(body() + LEVER.replace(right, wrong), targets_warped="Warped")
    with pytest.raises(HarnessFailure) as refused:
        levers_of(resolve(parse_plan(PLAN)), DryRunCluster({}))
    assert "the target 'warped': the lever 'w" in refused.value.what
    assert refused.value.hint == "declare it in record_types"

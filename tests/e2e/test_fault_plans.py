"""Every plan in plans/faults/, plans/eras/, plans/zookeeper/, plans/groups/, plans/transactions/
and plans/track-record/ has the verdict that it expects, with all its faults proven. `make e2e` runs
all of them; otherwise one runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.plan import load_plan
from tests.fixtures.long import ALL

ROOT = Path(__file__).parents[2]
CHOICE = {"power-loss-no-force-sync"}
FOLDERS = ("faults", "eras", "zookeeper", "groups", "transactions", "track-record")
STOPS, GOES_ON = {"minority-stops"}, {"majority-goes-on", "observers"}
"""Plans that claim more than that nothing is lost: that nothing is acknowledged while there is no
majority, and then writes resume; or that they go on."""
PLANS = [path for of in FOLDERS for path in sorted((ROOT / "plans" / of).glob("*.toml"))]

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.spark]


def chosen() -> list[Path]:
    if ALL:
        return PLANS
    return [path for path in PLANS if path.stem in CHOICE]


def test_the_chosen_plans_exist() -> None:
    assert {path.stem for path in chosen()} >= CHOICE


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_is_valid_and_has_a_description(path: Path) -> None:
    plan = load_plan(path)
    assert plan.name == path.stem
    assert plan.about


@pytest.mark.parametrize("path", chosen(), ids=lambda path: path.stem)
def test_a_plan_has_the_verdict_that_it_expects(path: Path, tmp_path: Path) -> None:
    # Some plans show that a version does not support a setting.
    command = [sys.executable, "-m", "harness", "run", str(path), "--json", "--force"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)],
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert "error" not in result, done.stderr
    counts, proven = result["counts"], [fault["proven"] for fault in result["faults"]]
    found = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n)
    print(f"{path.stem}: {result['verdict']}, {found}; {sum(proven)} of {len(proven)} proven")
    assert result["faults"]
    assert all(fault["proven"] for fault in result["faults"]), result["faults"]
    if (expect := load_plan(path).expect) is not None:
        assert result["verdict"] == expect, result["reason"]
    first = result["faults"][0]
    if path.stem in STOPS:
        assert (first["ops_acknowledged"], result["availability"]["recovered"]) == (0, True)
    if path.stem in GOES_ON:
        assert first["ops_acknowledged"] > first["ops_begun"] / 2, first

"""Every defect is found, and nothing is found without one.

5 seeds each, so that the fast tests stay fast; `make e2e` runs 200.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest

from targets.memory.plan import (
    DEFECTS,
    DUPLICATES,
    EARLY_ACK,
    FORGETFUL,
    GROUP_DEFECTS,
    LOOSE_CAS,
    NO_EPOCHS,
    QUEUE_DEFECTS,
    ROLLBACK,
    STALE_READS,
    TRANSACTION_DEFECTS,
    UNCLEAN,
    Settings,
)
from tests.fixtures.budget import budget
from tests.targets.memory.judge import wrong_in_log, wrong_in_registers
from tests.targets.memory.scenarios import SCENARIOS
from tests.targets.memory.world import World, everything

pytestmark = pytest.mark.slow

SEEDS = range(budget(5, 200))
Commit = Literal["quorum", "isr"]
COMMITS: list[Commit] = ["quorum", "isr"]

FOUND_BY = {
    EARLY_ACK: ("reachable-leader", "both"),
    UNCLEAN: ("lagging", "both"),
    NO_EPOCHS: ("reachable-leader", "log"),
    STALE_READS: ("calm", "registers"),
    LOOSE_CAS: ("calm", "registers"),
    FORGETFUL: ("kills", "log"),
    DUPLICATES: ("lossy", "log"),
    ROLLBACK: ("reachable-leader", "both"),
}
"""Under which faults most runs show it, and to whom."""


def judged(scenario: str, commit: Commit, *defects: str, min_insync: int = 1) -> Counter[str]:
    """In how many runs something was wrong in the log, in the registers, in either."""
    count: Counter[str] = Counter()
    for seed in SEEDS:
        settings = Settings(commit=commit, min_insync=min_insync, defects=frozenset(defects))
        run = World(seed, settings, everything).simulate(SCENARIOS[scenario])
        log, registers = bool(wrong_in_log(run)), bool(wrong_in_registers(run))
        count.update(
            {
                "log": log,
                "registers": registers,
                "either": log or registers,
                "settled": run.settled,
                "ok": sum(op.outcome is not None and op.outcome.type == "ok" for op in run.ops),
            }
        )
    return count


def test_every_defect_stands_in_the_table() -> None:
    assert set(FOUND_BY) == set(DEFECTS) - GROUP_DEFECTS - TRANSACTION_DEFECTS - QUEUE_DEFECTS


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("defect", FOUND_BY)
def test_a_defect_is_found_in_most_runs(defect: str, commit: Commit) -> None:
    scenario, where = FOUND_BY[defect]
    count = judged(scenario, commit, defect)
    print(defect, commit, scenario, dict(count))
    least = len(SEEDS) / 2
    for place in ("log", "registers") if where == "both" else (where,):
        assert count[place] > least, count
    assert count["settled"] == len(SEEDS)


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_without_defects_nothing_is_wrong(scenario: str, commit: Commit) -> None:
    count = judged(scenario, commit, min_insync=len(scenario) % 2 + 1)
    print("none", commit, scenario, dict(count))
    assert count["either"] == 0
    if scenario != "wipe":  # the only replica in sync may have been the one that lost its disk
        assert count["settled"] == len(SEEDS)
    assert count["settled"] >= 0.95 * len(SEEDS)
    assert count["ok"] > 40 * len(SEEDS)

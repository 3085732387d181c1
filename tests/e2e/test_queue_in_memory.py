"""The queue of the reference system, from a plan to a page: each defect is found as what it is, and
its losses have its cause; without it nothing is found, with the same seed and size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_memory import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

QUEUE = ("workload.name=queue", "workload.options={}", "checks=[{ name = 'queue', once = true }]")
CASES = {
    "acknowledge-before-replication": ({"lost"}, {"before-replication"}),
    "unclean-election": ({"lost", "duplicated"}, {"unclean-election"}),
    "lost-write-on-failover": ({"lost", "duplicated"}, {"discarded-by-new-leader"}),
    "duplicate-on-retry": ({"duplicated"}, set[str]()),
    "redeliver-on-failover": ({"duplicated"}, set[str]()),
    "dequeue-from-empty": ({"unexpected"}, set[str]()),
}
"""Of each defect the counter-examples, and the causes of what was lost."""
SOME = ("acknowledge-before-replication", "duplicate-on-retry", "dequeue-from-empty")


@pytest.mark.parametrize(
    "defect", [pytest.param(n, marks=[pytest.mark.full] * (n not in SOME)) for n in CASES]
)
def test_each_defect_is_found_as_what_it_is(defect: str, tmp_path: Path) -> None:
    found, causes = CASES[defect]
    # The plans of the queue's own defects have options which they need.
    changes = () if defect in ("redeliver-on-failover", "dequeue-from-empty") else QUEUE
    on = run(tmp_path / "on", defect, *changes)
    assert (on.done.exit_code, on.result["verdict"]) == (1, "invalid")
    assert set(on.result["counter_examples"]) == found
    assert set(on.result["causes"]) == causes
    assert sum(on.result["causes"].values()) == on.result["counts"]["lost"]
    assert on.result["unexplained"] == 0
    off = run(tmp_path / "off", defect, *changes, "target.defects=[]")
    assert (off.done.exit_code, off.result["verdict"]) == (0, "valid"), off.result["reason"]
    wrong = ("lost", "missing", "unexpected", "failed_found", "early", "duplicated")
    assert {off.result["counts"][name] for name in wrong} == {0}
    assert off.result["counts"]["dequeued"] == off.result["counts"]["attempted"] > 100


@pytest.mark.full
def test_without_defects_nothing_is_found(tmp_path: Path) -> None:
    sound = run(tmp_path, "queue")
    assert (sound.done.exit_code, sound.result["verdict"]) == (0, "valid")
    assert all(fault["proven"] for fault in sound.result["faults"])

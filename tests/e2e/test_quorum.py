"""The quorum of a real cluster: its active controller is killed, and the checker looked at it."""

from __future__ import annotations

from pathlib import Path

import pytest

import ackloss

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

CLAIMS = Path(__file__).parents[2] / "plans" / "claims"


def test_the_quorum_of_a_killed_controller_is_judged(tmp_path: Path) -> None:
    short = {"workload.duration_s": 12, "faults.0.at_s": 2, "faults.0.for_s": 3}
    once = {"faults.0.repeat": {"times": 1, "every_s": 7}}
    run = ackloss.run(CLAIMS / "c5-own-epoch.toml", out=tmp_path, set={**short, **once})
    (quorum,) = (each for each in run.result.checks if each.name == "quorum")
    assert (quorum.verdict, quorum.doubts) == ("valid", ())
    counts = quorum.counts
    assert counts["members"] == 4
    assert counts["leaders"] >= 2
    assert min(counts["votes"], counts["watermarks"], counts["batches"]) >= 3

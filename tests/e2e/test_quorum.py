"""The metadata of a real cluster whose active controller is killed while clients change it: nothing
that was acknowledged is lost, and the quorum kept its promises."""

from __future__ import annotations

from pathlib import Path

import pytest

import ackloss
from tests.fixtures.claims import asked

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

CLAIMS = Path(__file__).parents[2] / "plans" / "claims"


def test_what_a_killed_controller_had_acknowledged_is_there(tmp_path: Path) -> None:
    short = {
        "workload.duration_s": 12,
        "faults.0.at_s": 2,
        "target.brokers": 1,
        "topic.replication_factor": 1,
    }
    once = {"faults.0.repeat": {"times": 1, "every_s": 9}}
    run = ackloss.run(CLAIMS / "c6-kill-controller.toml", out=tmp_path, set={**short, **once})
    register, quorum = run.result.checks
    assert (register.name, register.verdict, register.doubts) == ("register", "valid", ())
    assert register.counts["acknowledged"] >= 1
    assert register.counts["lost"] == 0
    assert (quorum.name, quorum.verdict, quorum.doubts) == ("quorum", "valid", ())
    counts = quorum.counts
    assert counts["members"] == 4
    assert counts["leaders"] >= 2
    assert min(counts["votes"], counts["watermarks"], counts["batches"]) >= 3
    if "starved" not in run.result.doubts:  # such a run answers no claim
        assert asked("C6", run.path).state

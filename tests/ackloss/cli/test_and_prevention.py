"""`ackloss run --and-prevention`: what is stated of a run that lost writes is tried, on the
reference system. What is stated there is the test's own: one sentence that holds, and others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.history.run_folder import RunDir
from harness.protocols import Explanation, Prevention
from reports.why import tried
from targets.memory import Memory
from tests.fixtures.command_line import ackloss

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

PLAN = "memory/acknowledge-before-replication"
RIGHT = Prevention(key="target.defects", value="[]", writes=0, because="it has a defect")
USELESS = Prevention(key="workload.rate_per_s", value="120", writes=0, because="of nothing")
STRICTER = Prevention(key="workload.rate_per_s", value="121", writes=0, because="of nothing")
REFUSED = Prevention(key="workload.nonsense", value="1", writes=0, because="of nothing")


def stating(monkeypatch: pytest.MonkeyPatch, *of_each_run: Sequence[Prevention]) -> None:
    """Each run that loses writes states the next of these, or the last, of all of them."""
    left = list(of_each_run)

    def explain(_self: Memory, _folder: Path, lost: pa.Table) -> list[Explanation]:
        values = tuple(lost["value"].to_pylist())
        stated = left.pop(0) if len(left) > 1 else left[0]
        return [Explanation(cause="early", values=values, preventions=tuple(stated))]

    monkeypatch.setattr(Memory, "explain", explain)


def run(folder: Path, *words: object) -> tuple[int, dict[str, Any], str]:
    done = ackloss("run", PLAN, "--and-prevention", "--out", folder, "--json", *words)
    return done.exit_code, json.loads(done.stdout), " ".join(done.stderr.split())


def test_each_sentence_is_tried_with_its_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stating(monkeypatch, [RIGHT, USELESS, REFUSED])
    code, document, said = run(tmp_path)
    assert (code, document["verdict"]) == (1, "invalid"), "those of the run itself"
    right, useless, refused = document["preventions"]
    lost, acknowledged = document["counts"]["lost"], document["counts"]["acknowledged"]
    assert lost > 0
    assert right["before"] == useless["before"] == f"{lost:,} of {acknowledged:,}"
    assert (right["holds"], right["after"].split()[0]) == (True, "0")
    assert (useless["holds"], useless["after"]) == (False, useless["before"]), "the same seed"
    assert refused["holds"] is None
    assert "nonsense" in refused["why"]
    for each in (right, useless):
        assert each["run_id"] in Path(each["page"]).read_text()
        plan = json.loads((tmp_path / each["run_id"] / "plan.json").read_text())
        assert plan["seed"] == 1
    assert said.count("A SENTENCE DOES NOT HOLD: With workload.rate_per_s=120, ") == 1
    assert "holds" in said
    assert "not conclusive: " in said


def test_writes_that_a_stricter_value_speaks_of_do_not_refute_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stating(monkeypatch, [USELESS], [STRICTER])
    _, document, said = run(tmp_path)
    (trial,) = document["preventions"]
    assert trial["holds"] is True
    assert trial["why"].endswith("were lost otherwise")
    assert "DOES NOT HOLD" not in said
    before, after = RunDir(tmp_path / document["run_id"]), RunDir(tmp_path / trial["run_id"])
    result = json.loads(after.result.read_text()) | {"verdict": "unknown", "reason": "starved"}
    after.result.write_text(json.dumps(result))
    again = tried(before, USELESS, after)
    assert (again.holds, again.in_words) == (None, "not conclusive: starved")
    assert again.after.startswith("unknown of "), "what it lost is not known"


def test_a_plan_with_cells_is_refused(tmp_path: Path) -> None:
    done = ackloss("run", "memory/cells", "--and-prevention", "--out", tmp_path, "--json")
    assert done.exit_code == 4
    assert "--and-prevention runs a plan without cells" in done.output

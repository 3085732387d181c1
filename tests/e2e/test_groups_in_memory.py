"""Groups of consumers of the reference system, from a plan to a page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from checkers.judging.one_run import judge_run
from harness.history.run_folder import RunDir
from tests.e2e.test_memory import Run, run
from tests.fixtures.command_line import ackloss, ackloss_json

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("group"), "group")


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("after"), "group-commit-after")


def test_a_group_under_faults_processes_everything(valid: Run) -> None:
    counts = valid.result["counts"]
    assert (valid.done.exit_code, valid.result["verdict"]) == (0, "valid")
    assert counts["processed"] == counts["acknowledged"] == 720
    assert counts["skipped"] == counts["lost_commits"] == 0
    assert counts["generations"] > 2
    assert all(fault["proven"] for fault in valid.result["faults"])


def test_the_page_has_a_section_of_consumers(valid: Run) -> None:
    text = valid.rundir.report.read_text(encoding="utf-8")
    assert ">Consumers</h2>" in text
    for words in ("processed again", "commits acknowledged", "generations of the group"):
        assert words in text


def causes(of: Run, kind: str) -> dict[str, int]:
    """Why records were skipped, or processed again; all that were are counted."""
    alike = [each for each in of.result["not_lost"] if each["kind"] == kind]
    assert sum(each["writes"] for each in alike) == of.result["counts"][kind]
    return {each["cause"]: each["writes"] for each in alike}


def test_members_that_commit_before_they_process_skip_and_others_do_not(
    after: Run, tmp_path: Path
) -> None:
    before = run(tmp_path / "before", "group-commit-before")
    assert causes(before, "skipped").keys() == {"committed-unprocessed"}
    assert "skipped deliveries explained</h2>" in before.rundir.report.read_text(encoding="utf-8")
    found = pq.read_table(before.rundir.explanations).to_pylist()
    value = next(each["value"] for each in found if each["cause"] == "committed-unprocessed")
    (chain,) = ackloss_json("explain", before.rundir.path, "--write", value)["chains"]
    assert (chain["kind"], chain["cause"]) == ("skipped", "committed-unprocessed")
    kinds = [fact["kind"] for fact in chain["facts"] if fact["kind"] != "fault"]
    assert kinds == ["assigned", "processed", "commit", "ended", "assigned"]
    said = ackloss("explain", before.rundir.path)
    assert f"{chain['writes']:,} skipped: A member committed an offset above them" in said.output
    assert "no acknowledged write was lost" in said.output
    assert before.result["counter_examples"] == ["skipped"]
    assert before.result["counts"]["skipped_delivered"] == before.result["counts"]["skipped"] > 0
    assert (after.result["verdict"], after.result["counts"]["skipped"]) == ("valid", 0)


def test_a_group_that_begins_at_the_latest_offset_skips_where_its_commits_are_forgotten(
    tmp_path: Path,
) -> None:
    latest = run(tmp_path, "forgotten-commits", "workload.options.reset=latest")
    counts = latest.result["counts"]
    assert {"skipped", "lost_commits"} <= set(latest.result["counter_examples"])
    assert counts["skipped"] > counts["skipped_delivered"]
    assert causes(latest, "skipped").keys() == {"reset-commit-lost"}


ORDINARY = {"not-committed", "commit-refused", "commit-unknown", "commit-late", "revoked-reader"}
"""What happens at rebalances without a defect."""


@pytest.mark.parametrize(
    ("plan", "cause"),
    [
        ("forgotten-commits", "commit-lost"),
        ("commit-before-replication", "commit-lost"),
        ("stale-generation-commits", "commit-set-back"),
    ],
)
def test_what_a_defect_has_processed_again_has_its_cause(
    tmp_path: Path, plan: str, cause: str
) -> None:
    found = causes(run(tmp_path, plan), "reprocessed")
    assert found.keys() - ORDINARY == {cause}


def test_without_a_defect_some_is_processed_again_for_ordinary_causes_alone(after: Run) -> None:
    assert causes(after, "reprocessed").keys() <= ORDINARY


def test_why_the_log_lacks_what_was_delivered(tmp_path: Path) -> None:
    """A leader delivered what no other replica had, and the next one began without it."""
    early = run(tmp_path, "deliver-uncommitted")
    kinds = {each["kind"]: each for each in early.result["not_lost"]}
    assert kinds["phantom"]["writes"] == early.result["counts"]["phantoms"] > 0
    assert kinds["phantom"]["cause"] == "before-replication"
    assert "phantom deliveries explained</h2>" in early.rundir.report.read_text(encoding="utf-8")
    assert "phantom" in ackloss("explain", early.rundir.path).output


def test_a_group_that_nothing_happens_to_has_nothing_to_explain(tmp_path: Path) -> None:
    calm = run(tmp_path, "group-commit-after", "faults=[]")
    assert (calm.result["not_lost"], calm.rundir.explanations.exists()) == ([], False)
    assert "deliveries explained" not in calm.rundir.report.read_text(encoding="utf-8")


def test_each_cell_has_a_group_of_its_own(tmp_path: Path) -> None:
    cells = (
        "cells=[{ name = 'before', workload = { options = { commit = 'before' } } },"
        " { name = 'after', workload = { options = { commit = 'after' } } }]"
    )
    both = run(tmp_path, "group-commit-before", cells, "workload.rate_per_s=200")
    verdicts = {cell["name"]: cell["verdict"] for cell in both.result["cells"]}
    assert verdicts == {"before": "invalid", "after": "valid"}


def test_members_that_commit_all_that_they_have_read_commit_for_others(tmp_path: Path) -> None:
    joins = "faults=[{ id = 'join', at_s = 1, nemesis = 'consumer', action = 'join', for_s = 2 }]"
    reads = "workload.options.commit_partitions=read"
    read = run(tmp_path / "read", "group-commit-after", joins, reads)
    own = run(tmp_path / "own", "group-commit-after", joins)
    assert set(read.result["counter_examples"]) == {"zombie_commits", "commits_back"}
    assert own.result["verdict"] == "valid"


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_rows_that_are_missing_prove_nothing(valid: Run, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / valid.rundir.path.name
    shutil.copytree(valid.rundir.path, folder)
    rundir = RunDir.open(folder)
    part, *_ = rundir.parts(rundir.deliveries)
    if damage == "missing":
        part.unlink()
    else:
        table = pq.read_table(part)
        kept = pc.not_equal(table["f"].cast("string"), "process")
        pq.write_table(table.filter(kept), part)
    result = judge_run(rundir)
    assert (result["verdict"], result["counter_examples"]) == ("unknown", [])
    assert any("deliveries/part-00000.parquet" in gap for gap in result["gaps"])


def test_what_the_reference_system_does_not_know_is_refused(tmp_path: Path) -> None:
    plan = str(Path(__file__).parents[2] / "plans" / "memory" / "group.toml")
    refused = ackloss(
        "run", plan, "--out", str(tmp_path), "--set", "workload.options.protocol=consumer"
    )
    assert refused.exit_code == 4
    assert "workload.options.protocol" in refused.output
    assert "does not know the group protocol 'consumer'" in refused.output

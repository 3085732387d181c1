"""Transactions of the reference system, from a plan to a page."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackloss import run as judged_run
from harness.models.micro_ops import ABORT, COMMIT, END, SEND, WHOLE, micro_ops
from targets.memory.plan import TRANSACTION_DEFECTS
from tests.e2e.test_memory import PLANS, Run, run
from tests.fixtures.command_line import ackloss

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

FOUND = {
    "abort-open-on-failover": {"torn-transaction", "lost-write"},
    "deliver-aborted": {"G1a"},
    "decision-before-replication": {"lost-write"},
    "ignore-last-stable-offset": {"poll-skip"},
    "ignore-fencing": {"zombie-commit"},
    "offsets-outside-transactions": {"offsets-without-output"},
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("transactions"), "transactions")


def test_transactions_under_faults_are_whole(valid: Run) -> None:
    counts = valid.result["counts"]
    assert (valid.done.exit_code, valid.result["verdict"]) == (0, "valid")
    assert counts["acknowledged"] > 500
    assert counts["failed"] > 50
    assert all(fault["proven"] for fault in valid.result["faults"])
    assert "acknowledged values were polled" in valid.page.words
    assert (valid.result["causes"], valid.result["unexplained"]) == ({}, 0)


def test_what_is_lost_of_transactions_has_a_cause(tmp_path: Path) -> None:
    """The log has it, and a new leader has aborted what was open."""
    found = run(tmp_path, "abort-open-on-failover").result
    assert found["counts"]["unseen"] > 0
    assert found["causes"] == {"marker-skipped": found["counts"]["unseen"]}
    assert found["unexplained"] == 0


def test_the_history_has_what_was_asked_for_and_what_was_done(valid: Run) -> None:
    rows = pq.read_table(valid.rundir.history).to_pylist()
    invoked, ended = ([r for r in rows if (r["type"] == "invoke") == w] for w in (True, False))
    asked = [list(micro_ops(r["elements"])) for r in invoked if r["f"] == "txn"]
    assert all({each.kind for each in micro} <= {SEND, ABORT, COMMIT} for micro in asked)
    failed = [row for row in ended if row["f"] == "txn" and row["type"] == "fail"]
    assert "aborted" in {row["error"] for row in failed}
    ok = [row for row in ended if row["f"] == "txn" and row["type"] == "ok"]
    assert all(each.offset >= 0 for row in ok for each in micro_ops(row["elements"]))
    final = [row for row in ended if row["f"] in ("poll", "read-log")][-32:]
    for kind in (END, WHOLE):
        read = {e.key for r in final for e in micro_ops(r["elements"] or ()) if e.kind == kind}
        assert read == {0, 1, 2, 3}


@pytest.mark.full  # each once: tests/e2e/test_defects.py
@pytest.mark.parametrize("defect", sorted(TRANSACTION_DEFECTS))
def test_each_defect_is_found_and_nothing_without_it(tmp_path: Path, defect: str) -> None:
    on = run(tmp_path / "on", defect)
    assert on.done.exit_code == 1
    assert set(on.result["counter_examples"]) >= FOUND[defect]
    assert sum(on.result["causes"].values()) == on.result["counts"]["unseen"]
    off = run(tmp_path / "off", defect, "target.defects=[]")
    assert (off.done.exit_code, off.result["counter_examples"]) == (0, [])


@pytest.mark.full
def test_each_input_is_processed_once_though_processes_crash_and_are_taken_over(
    tmp_path: Path,
) -> None:
    done = run(tmp_path / "inside", "read-process-write")
    assert (done.done.exit_code, done.result["counter_examples"]) == (0, [])
    errors = {row["error"] for row in pq.read_table(done.rundir.history).to_pylist()}
    assert errors >= {"aborted", "crashed", "taken-over"}
    for offsets, kind in {
        "before": "offsets-without-output",
        "after": "output-without-offsets",
    }.items():
        outside = f"workload.options.offsets={offsets}"
        found = run(tmp_path / offsets, "read-process-write", outside)
        assert set(found.result["counter_examples"]) == {kind}


@pytest.mark.parametrize(
    "isolation",
    [
        "both",
        pytest.param("read_committed", marks=pytest.mark.full),
        pytest.param("read_uncommitted", marks=pytest.mark.full),
    ],
)
def test_readers_of_what_is_not_committed_get_aborted_values(
    tmp_path: Path, isolation: str
) -> None:
    """It is what they ask for, and counted; the others get none."""
    done = run(tmp_path, "transactions", f"workload.options.isolation={isolation}")
    assert (done.result["verdict"], done.result["counter_examples"]) == ("valid", [])
    counts = done.result["counts"]
    assert counts["G1a"] == 0
    assert (counts["dirty-read"] > 0) == (isolation != "read_committed")
    assert (counts["polled_uncommitted"] > 0) == (isolation != "read_committed")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("workload.options.isolation=dirty", "read_committed"),
        ("workload.options.aborts=0.1", "did you mean 'abort_share'?"),
        ("workload.options.abort_share=2", "less than 1"),
        ("workload.options.processors_count=2", "use topics_count = 2 or more"),
        ("checks=['loss']", "these do: kafka"),
    ],
)
def test_bad_input_is_one_sentence(change: str, words: str) -> None:
    done = ackloss("plan", "validate", "memory/transactions", "--set", change)
    assert done.exit_code == 4
    (sentence,) = done.stderr.strip().splitlines()
    assert words in sentence


def test_random_faults_without_defects_are_no_counter_example(tmp_path: Path) -> None:
    """With this seed sends that were never answered are there, and readers get them."""
    plan = (PLANS / "transactions.toml").read_text().partition("[[faults]]")[0]
    plan += "[mix]\nfrom_s = 0.5\nmean_gap_s = 0.8\nmean_length_s = 0.6\ncalm_s = 1\n"
    for nemesis, nodes in (
        *(("kill", nodes) for nodes in ("one", "leader", "coordinator")),
        *(("pause", "one"), ("partition", "one"), ("partition", "coordinator")),
    ):
        plan += f'[[mix.families]]\nnemesis = "{nemesis}"\nnodes = "{nodes}"\n'
    file = tmp_path / "mix.toml"
    file.write_text(plan)
    done = judged_run(
        file, set={"workload.options.isolation": "both"}, seed=8, out=tmp_path / "runs"
    )
    assert (done.result.verdict, done.result.counter_examples) == ("valid", ())
    assert done.result.checks[0].counts["dirty-read"]

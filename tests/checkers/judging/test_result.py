"""Many inputs, one Spark: how they are dealt out, in what order answers come, what is raised.

The Spark here is a list (`tests.fixtures.in_process_spark`): a session for each test would take
minutes, and it is what Spark is asked for that is looked at.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from checkers.judging import many_runs
from checkers.judging import spark as real_spark
from checkers.judging.many_runs import check_histories, check_runs
from harness.errors import (
    AcklossError,
    EnvironmentFailure,
    HarnessFailure,
    HistoryError,
    PlanError,
)
from harness.history.remote_run import remote_runs
from harness.history.run_folder import RunDir
from harness.storage import Folder
from tests.fixtures.hand_made import Made, R, W
from tests.fixtures.in_process_spark import Dealt, InProcess

LINES = b'{"process": 0, "type": "ok", "f": "add", "value": 1}\n'


class Asked(InProcess):
    """Keeps what it was asked to deal out."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[Any, Any]] = []
        self.tasks: list[list[tuple[int, Any]]] = []
        self.jobs: list[list[list[tuple[int, Any]]]] = []
        self.slices: int | None = None

    def parallelize(self, items: Iterable[Any], slices: int | None = None) -> Dealt:
        self.tasks, self.slices = [list(task) for task in items], slices
        self.jobs.append(self.tasks)
        return super().parallelize(reversed(self.tasks), slices)  # answers come as they come


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()

    def context(*given: Any) -> Asked:
        asked.given.append(given)
        return asked

    monkeypatch.setattr(real_spark, "context", context)
    monkeypatch.setattr(many_runs, "_MANY", 0)
    return asked


def build(folder: Path, number: int, *, writes: int = 1) -> RunDir:
    values = range(writes)
    return Made(writes=[W(v) for v in values], reads=[R(v) for v in values]).build(
        folder, f"run-{number}"
    )


def test_documents_come_in_the_order_given(spark: Asked, tmp_path: Path) -> None:
    runs = [build(tmp_path, number) for number in (3, 1, 2, 0)]
    assert [each["run_id"] for each in check_runs(runs)] == ["run-3", "run-1", "run-2", "run-0"]
    assert check_runs([]) == []


def test_sparks_master_and_configuration_are_passed_on(spark: Asked, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_bytes(LINES)
    conf = {"spark.driver.memory": "2g"}
    check_runs([build(tmp_path, 0)], master="local[3]", conf=conf)
    check_histories([file], master="local[3]", conf=conf)
    check_histories([file])
    assert spark.given == [("local[3]", conf), ("local[3]", conf), (None, None)]


@pytest.mark.parametrize(
    ("number", "more", "runs"),
    [
        (3, {}, False),
        (4, {}, True),
        (1, {"master": "local[2]"}, True),
        (1, {"conf": {"a": "b"}}, True),
    ],
)
def test_spark_is_started_for_many_or_where_it_is_named(
    spark: Asked,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    number: int,
    more: Any,
    runs: bool,
) -> None:
    monkeypatch.setattr(many_runs, "_MANY", 4)
    judged: list[Any] = []

    def by_processes(inputs: Any, *_: Any) -> list[Any]:
        judged.extend(inputs)
        return []

    monkeypatch.setattr(many_runs, "_by_processes", by_processes)
    run = build(tmp_path, 0)
    check_runs([run] * number, **more)
    assert (bool(spark.given), bool(judged)) == (runs, not runs)


def test_the_largest_are_begun_first_and_no_task_is_empty(spark: Asked, tmp_path: Path) -> None:
    sizes = [1, 300, 20, 5000]
    runs = [build(tmp_path, number, writes=size) for number, size in enumerate(sizes)]
    check_runs(runs)
    assert [place for task in spark.tasks for place, _ in task] == [3, 1, 2, 0]
    assert spark.slices == len(spark.tasks) == 4


def test_jobs_on_a_cluster_have_a_limited_size_and_the_order_stays(
    spark: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was found in all runs of a large campaign would not fit into the JVM at once."""
    monkeypatch.setattr(many_runs, "_JOB_BYTES", 100)
    sizes = {"run-0": 60, "run-1": 40, "run-2": 1, "run-3": 500, "run-4": 99}
    monkeypatch.setattr(many_runs, "_size_bytes", lambda run: sizes[run.run_id])
    spark.master = "spark://127.0.0.1:7077"
    runs = [build(tmp_path, number) for number in range(5)]
    assert [each["run_id"] for each in check_runs(runs)] == list(sizes)
    assert [sum(map(len, tasks)) for tasks in spark.jobs] == [2, 1, 1, 1]


def test_there_are_four_tasks_a_core_at_most(spark: Asked, tmp_path: Path) -> None:
    files = []
    for number in range(20):
        files.append(tmp_path / f"h{number}.jsonl")
        files[-1].write_bytes(LINES)
    assert len(check_histories(files)) == 20
    assert len(spark.tasks) == 4 * InProcess.defaultParallelism == 8
    assert sorted(len(task) for task in spark.tasks) == [2, 2, 2, 2, 3, 3, 3, 3]


def test_the_size_of_a_run_is_that_of_its_operations_and_records(
    spark: Asked, tmp_path: Path
) -> None:
    """Logs and findings take no time to judge."""
    runs = [build(tmp_path, 0, writes=2000), build(tmp_path, 1, writes=4000)]
    runs[0].node("b1").mkdir(parents=True)
    (runs[0].node("b1") / "server.log").write_bytes(bytes(10**6))
    check_runs(runs)
    assert [place for task in spark.tasks for place, _ in task] == [1, 0]


def test_a_part_that_leads_nowhere_is_an_error_among_documents(
    spark: Asked, tmp_path: Path
) -> None:
    runs = [build(tmp_path, number) for number in range(2)]
    (part,) = runs[0].parts(runs[0].history)
    part.unlink()
    part.symlink_to("nowhere")
    errors: list[AcklossError] = []
    assert [each["run_id"] for each in check_runs(runs, errors=errors)] == ["run-1"]
    assert [(type(error), error.file) for error in errors] == [(HistoryError, str(part))]


def test_a_folder_that_takes_no_findings_is_reported(spark: Asked, tmp_path: Path) -> None:
    lossy = Made(writes=[W(0), W(1)], reads=[R(0)]).build(tmp_path, "lossy")
    lossy.loss.mkdir(parents=True)
    with pytest.raises(EnvironmentFailure, match="cannot write what was found: ") as refused:
        check_runs([lossy])
    assert refused.value.file == str(lossy.loss)
    assert "Is a directory" in str(refused.value)
    assert list(lossy.findings.iterdir()) == [lossy.loss], "no half-written file is left"


@pytest.fixture
def cluster(spark: Asked) -> Asked:
    """A master whose workers are not on this machine."""
    spark.master = "spark://head:7077"
    return spark


def test_a_cluster_gets_small_tasks_and_hands_results_back(
    cluster: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = Made(writes=[W(0), W(1)], reads=[R(0)]).build(tmp_path, "lossy")
    runs = [lossy, *(build(tmp_path, number) for number in range(40))]
    monkeypatch.chdir(tmp_path)
    documents = check_runs([RunDir(run.path.relative_to(tmp_path)) for run in runs])
    assert len(cluster.tasks) == 11
    assert all(each.path.is_absolute() for task in cluster.tasks for _, each in task)
    assert [run.read_json(run.result)["verdict"] for run in runs] == ["invalid"] + 40 * ["valid"]
    assert [document["run_id"] for document in documents] == [run.run_id for run in runs]
    assert lossy.loss.exists()


class Unwritable(RunDir):
    @property
    def findings(self) -> Path:
        raise ZeroDivisionError("planted")


def test_a_write_that_nobody_expects_to_fail_leaves_every_verdict(
    cluster: Asked, tmp_path: Path
) -> None:
    errors: list[AcklossError] = []
    runs = [Unwritable(build(tmp_path, 0).path), build(tmp_path, 1)]
    assert [each["verdict"] for each in check_runs(runs, errors=errors)] == ["valid"] * 2
    (error,) = errors
    assert (type(error), error.file) == (HarnessFailure, str(runs[0].path))
    assert "ZeroDivisionError: planted" in error.what


def test_an_executor_that_does_not_see_a_folder_says_so(cluster: Asked, tmp_path: Path) -> None:
    errors: list[AcklossError] = []
    seen, unseen = build(tmp_path, 0), build(tmp_path, 1)
    unseen.run.unlink()
    assert [each["run_id"] for each in check_runs([seen, unseen], errors=errors)] == ["run-0"]
    (error,) = errors
    assert error.what == f"there is no such file or folder on {socket.gethostname()}"
    assert "s3://" in str(error)


def test_a_verdict_that_cannot_be_written_at_its_url_is_one_all_the_same(
    cluster: Asked, tmp_path: Path
) -> None:
    """And names what is there, not the copy that was judged."""
    run = build(tmp_path, 0)
    (run.path / "result.json").mkdir()
    (run.path / "result.json" / "x").touch()
    broken = build(tmp_path, 1)
    broken.plan.write_bytes(b"{")
    errors: list[AcklossError] = []
    remote = remote_runs(Folder.at(f"file://{tmp_path}"))[0]
    assert [each["verdict"] for each in check_runs(remote, errors=errors)] == ["valid"]
    unwritten, unread = errors
    assert type(unwritten) is EnvironmentFailure
    assert unwritten.file == f"{run.path}/result.json"
    assert type(unread) is HistoryError
    assert unread.file == str(broken.plan)


def test_an_unknown_checker_names_the_option_that_chose_it(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as refused:
        check_histories([tmp_path / "x.jsonl"], checker="los")
    assert (refused.value.key, refused.value.hint) == ("--checker", "did you mean 'loss'?")

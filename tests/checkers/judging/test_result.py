"""Many inputs, one Spark: how they are dealt out, in what order answers come, what is raised.

The Spark here is a list (`tests.fixtures.in_process_spark`): a session for each test would take
minutes, and it is what Spark is asked for that is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from checkers.judging import many_runs as result
from checkers.judging.many_runs import check_histories, check_runs
from harness.errors import AcklossError, EnvironmentFailure, HistoryError, PlanError
from harness.history.run_folder import RunDir
from tests.fixtures.hand_made import Made, R, W
from tests.fixtures.in_process_spark import Dealt, InProcess

LINES = b'{"process": 0, "type": "ok", "f": "add", "value": 1}\n'


class Asked(InProcess):
    """Keeps what it was asked to deal out."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, Any]] = []
        self.tasks: list[list[tuple[int, Any]]] = []
        self.slices: int | None = None

    def parallelize(self, items: Iterable[Any], slices: int | None = None) -> Dealt:
        self.tasks, self.slices = [list(task) for task in items], slices
        return super().parallelize(reversed(self.tasks), slices)  # answers come as they come


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()

    def context(*given: Any) -> Asked:
        asked.given.append(given)
        return asked

    monkeypatch.setattr(result, "context", context)
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


def test_the_largest_are_begun_first_and_no_task_is_empty(spark: Asked, tmp_path: Path) -> None:
    sizes = [1, 300, 20, 5000]
    runs = [build(tmp_path, number, writes=size) for number, size in enumerate(sizes)]
    check_runs(runs)
    assert [place for task in spark.tasks for place, _ in task] == [3, 1, 2, 0]
    assert spark.slices == len(spark.tasks) == 4


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


def test_what_cannot_be_judged_is_an_error_among_documents(spark: Asked, tmp_path: Path) -> None:
    runs = [build(tmp_path, number) for number in range(3)]
    runs[1].run.write_bytes(b"{")
    errors: list[AcklossError] = []
    assert [each["run_id"] for each in check_runs(runs, errors=errors)] == ["run-0", "run-2"]
    assert [type(error) for error in errors] == [HistoryError]
    with pytest.raises(HistoryError):
        check_runs(runs)


def test_a_folder_that_takes_no_findings_is_told(spark: Asked, tmp_path: Path) -> None:
    lossy = Made(writes=[W(0), W(1)], reads=[R(0)]).build(tmp_path, "lossy")
    lossy.loss.mkdir(parents=True)
    with pytest.raises(EnvironmentFailure, match="cannot write what was found: ") as told:
        check_runs([lossy])
    assert told.value.file == str(lossy.loss)
    assert "Is a directory" in str(told.value)


def test_an_unknown_checker_names_the_option_that_chose_it(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as told:
        check_histories([tmp_path / "x.jsonl"], checker="los")
    assert told.value.key == "--checker"

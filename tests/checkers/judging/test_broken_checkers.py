"""A checker that raises, or kills its process, for one of many: that one is unknown, no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from checkers.judging import many_runs
from checkers.judging.many_runs import check_runs
from checkers.judging.one_run import judge_history, judge_run
from harness.errors import AcklossError, HarnessFailure, HistoryError, PlanError
from harness.history.run_folder import RunDir
from tests.fixtures.breaking_checker import BREAKING
from tests.fixtures.hand_made import E, Made, R, W

pytestmark = pytest.mark.slow

ENDS = (E(position=1, reader="a"), E(position=1, reader="b"))
READS = (R(1, offset=0, reader="a"), R(1, offset=0, reader="b"))
GOOD = Made(writes=[W(1)], reads=READS, ends=ENDS)


def runs(parent: Path, *names: str) -> list[RunDir]:
    return [GOOD.build(parent, name) for name in names]


def unknown(document: dict[str, Any]) -> str:
    """The reason of a document that says nothing but that the checker broke."""
    assert document["verdict"] == "unknown"
    assert document["doubts"] == ["checker"]
    assert document["counter_examples"] == []
    assert (document["complete"], document["eligible"]) == (False, False)
    assert set(document["counts"].values()) == {0}
    assert set(document["rates"].values()) == {None}
    reason: str = document["reason"]
    assert "\n" not in reason
    return reason


def test_a_checker_that_raises_makes_the_run_unknown(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, "raises")
    judged_before = judge_run(run)
    run.findings.mkdir(exist_ok=True)
    run.loss.write_bytes(b"what an earlier check found")
    document = judge_run(run, BREAKING)
    reason = unknown(document)
    assert reason.startswith(
        "the checker 'loss' raised ValueError: no such thing (breaking_checker.py"
    )
    assert reason.endswith(f": {run.path}")
    assert run.read_json(run.result) == document
    assert document.keys() == judged_before.keys()
    assert not run.loss.exists()
    assert document["plan"] == "raises"
    assert document["seed"] == judged_before["seed"]


@pytest.mark.parametrize(
    ("change", "key", "hint"),
    [
        ({"checks": ["los"]}, "checks.0", "did you mean 'loss'?"),
        ({"checks": ["loss", {"name": "los"}]}, "checks.1.name", "did you mean 'loss'?"),
        (
            {"checks": [{"name": "loss", "idempotent": True}]},
            "checks.0.idempotent",
            "did you mean 'idempotent_producer'?",
        ),
        ({"target": {"system": "kafak"}}, "target.system", "did you mean 'kafka'?"),
    ],
)
def test_a_stored_plan_that_names_what_is_not_here_is_refused_with_its_file(
    change: dict[str, Any], key: str, hint: str, tmp_path: Path
) -> None:
    (run,) = runs(tmp_path, "good")
    run.write_json(run.plan, {**run.read_json(run.plan), **change})
    with pytest.raises(PlanError) as refused:
        judge_run(run)
    error = refused.value
    assert (error.file, error.key, error.hint) == (str(run.plan), key, hint)
    assert error.exit_code == 4


def test_a_checker_that_exits_ends_nothing(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, "exits")
    assert unknown(judge_run(run, BREAKING)).startswith("the checker 'loss' raised SystemExit: 3")


def test_a_checker_that_raises_makes_a_history_unknown(tmp_path: Path) -> None:
    file = tmp_path / "raises.jsonl"
    file.write_bytes(orjson.dumps({"process": 0, "type": "invoke", "f": "add", "value": 1}))
    reason = unknown(judge_history(file, BREAKING))
    assert reason.startswith("the checker 'loss' raised ValueError")
    assert reason.endswith(f": {file}")


def test_one_that_raises_leaves_the_others_their_answers(tmp_path: Path) -> None:
    names = ["first", "raises", "second", "bad", "third", "exits"]
    rundirs = runs(tmp_path, *names)
    rundirs[3].plan.write_bytes(b"{")
    errors: list[AcklossError] = []
    documents = check_runs(rundirs, checks=BREAKING, errors=errors)
    names.remove("bad")
    assert [document["run_id"] for document in documents] == names
    assert {document["run_id"]: document["verdict"] for document in documents} == {
        "first": "valid",
        "raises": "unknown",
        "second": "valid",
        "third": "valid",
        "exits": "unknown",
    }
    assert [error.exit_code for error in errors] == [4]


def planted(error: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The answer of one input at which judging raises this."""

    def judged_run(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(many_runs, "judged_run", judged_run)
    return many_runs.judge(RunDir(folder), None)


def test_what_cannot_be_judged_is_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = HistoryError("is damaged")
    assert planted(damaged, tmp_path, monkeypatch) is damaged
    with pytest.raises(KeyboardInterrupt):
        planted(KeyboardInterrupt(), tmp_path, monkeypatch)


@pytest.mark.parametrize("error", [ZeroDivisionError("by\nzero"), SystemExit(3)], ids=repr)
def test_what_nobody_expects_is_a_failure_at_its_input_alone(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = planted(error, tmp_path, monkeypatch)
    assert isinstance(failure, HarnessFailure)
    assert failure.file == str(tmp_path)
    assert failure.what.startswith(f"judging raised {type(error).__name__}: ")
    assert "test_broken_checkers.py, line " in failure.what
    assert "\n" not in failure.what


@pytest.fixture(
    params=["processes", pytest.param("spark", marks=[pytest.mark.full, pytest.mark.spark])]
)
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who judges: processes of our own, or Spark."""
    if request.param == "spark":
        request.getfixturevalue("spark")
        monkeypatch.setattr(many_runs, "_MANY", 0)
    else:
        monkeypatch.setattr(many_runs, "_MANY", 1_000)
    return str(request.param)


def test_one_that_kills_its_worker_leaves_the_others_their_answers(by: str, tmp_path: Path) -> None:
    # More runs than tasks, so that a run shares its task with others.
    names = [f"run-{number:02d}" for number in range(20)]
    names[7], names[15] = "killed-07", "killed-15"
    rundirs = runs(tmp_path, *names)
    documents = check_runs(rundirs, checks=BREAKING)
    assert [document["run_id"] for document in documents] == names
    for rundir, document in zip(rundirs, documents, strict=True):
        assert rundir.read_json(rundir.result) == document
        if document["run_id"].startswith("killed"):
            assert unknown(document).startswith("the checker's process died")
        else:
            assert document["verdict"] == "valid", document["reason"]


def test_one_alone_that_kills_its_worker(by: str, tmp_path: Path) -> None:
    (document,) = check_runs(runs(tmp_path, "killed"), checks=BREAKING)
    assert unknown(document).endswith(f": {tmp_path / 'killed'}")


@dataclass(frozen=True)
class Odd(RunDir):
    """A run at which ackloss itself fails, before any checker is asked."""

    @property
    def run(self) -> Path:  # type: ignore[override]
        """See RunDir."""
        raise ZeroDivisionError("planted")


def test_one_at_which_ackloss_fails_leaves_the_others_their_answers(
    by: str, tmp_path: Path
) -> None:
    first, odd, last = runs(tmp_path, "first", "odd", "last")
    errors: list[AcklossError] = []
    documents = check_runs([first, Odd(odd.path), last], errors=errors)
    assert [document["run_id"] for document in documents] == ["first", "last"]
    assert {document["verdict"] for document in documents} == {"valid"}
    (error,) = errors
    assert (type(error), error.file) == (HarnessFailure, str(odd.path))
    assert "ZeroDivisionError: planted" in error.what
    assert not odd.result.exists()


CHECKS = """
import signal, sys
from checkers.judging.many_runs import check_runs
from harness.history.run_folder import RunDir
from pathlib import Path
from tests.fixtures.breaking_checker import BREAKING
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
    check_runs([RunDir(Path(path)) for path in sys.argv[1:]], checks=BREAKING)
"""


def checking(tmp_path: Path, *names: str, closed: bool = False) -> subprocess.Popen[bytes]:
    """A process that judges such runs; `closed`: it has no stdout and no stderr."""
    script = tmp_path / "script.py"
    script.write_text(CHECKS)
    paths = [str(run.path) for run in runs(tmp_path, *names)]
    command = [sys.executable, str(script), *paths]
    if closed:
        command = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=None if closed else subprocess.PIPE,
    )


@pytest.mark.parametrize(
    ("names", "sent"),
    [(("slow-1", "slow-2"), signal.SIGKILL), (("killed", "slow"), signal.SIGINT)],
)
def test_processes_that_judge_do_not_outlast_who_asks(
    tmp_path: Path, names: tuple[str, ...], sent: signal.Signals
) -> None:
    """Whatever they are doing, also once more after one has died; and an interrupt need not be of
    the terminal's group."""
    slow = sum("slow" in name for name in names)
    with checking(tmp_path, *names) as judging:
        process = psutil.Process(judging.pid)
        until = time.monotonic() + 120
        while len(workers := asleep(process)) != slow:
            assert time.monotonic() < until, process.children()
        judging.send_signal(sent)
        judging.communicate(timeout=60)
    assert judging.returncode != 0
    gone, alive = psutil.wait_procs(workers, timeout=30)
    assert (len(gone), alive) == (slow, [])


def asleep(process: psutil.Process) -> list[psutil.Process]:
    """Those of its processes that judge: they have read what they import, and use no more time."""
    found = []
    for each in process.children():
        with suppress(psutil.NoSuchProcess):
            own = "resource_tracker" not in " ".join(each.cmdline())
            if own and not each.cpu_percent(interval=1):
                found.append(each)
    return found


def test_without_stdout_and_stderr_runs_are_judged_as_with_them(tmp_path: Path) -> None:
    with checking(tmp_path, "first", "second", closed=True) as judging:
        assert judging.wait(timeout=300) == 0
    for name in ("first", "second"):
        run = RunDir(tmp_path / name)
        assert run.read_json(run.result)["verdict"] == "valid"

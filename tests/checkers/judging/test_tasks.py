"""One input: what cannot be judged is its answer, whoever judges it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkers.judging import many_runs
from checkers.judging.many_runs import judge
from harness.errors import HarnessFailure, HistoryError
from harness.history.run_folder import RunDir


def planted(error: BaseException) -> Any:
    def judged_run(*_: object, **__: object) -> None:
        raise error

    return judged_run


def test_what_cannot_be_judged_is_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = HistoryError("is damaged")
    monkeypatch.setattr(many_runs, "judged_run", planted(damaged))
    assert judge(RunDir(tmp_path), None) is damaged


@pytest.mark.parametrize("error", [ZeroDivisionError("by\nzero"), SystemExit(3)], ids=repr)
def test_what_nobody_expects_is_a_failure_at_its_input_alone(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_runs, "judged_run", planted(error))
    failure = judge(RunDir(tmp_path), None)
    assert isinstance(failure, HarnessFailure)
    assert failure.file == str(tmp_path)
    assert failure.what.startswith(f"judging raised {type(error).__name__}: ")
    assert "test_tasks.py, line " in failure.what
    assert "\n" not in failure.what


def test_an_interrupt_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_runs, "judged_run", planted(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        judge(RunDir(tmp_path), None)

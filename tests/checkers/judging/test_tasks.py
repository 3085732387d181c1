"""A task: some inputs judged one after another, each written while the next is judged."""

from __future__ import annotations

from functools import partial
from threading import Event

import pytest

from checkers.judging.results import Document
from checkers.judging.tasks import Answer, Unwritten, judge_task
from harness.errors import EnvironmentFailure, HarnessFailure, HistoryError

LIMIT_S = 20.0


def written(place: int, *, after: Event | None = None) -> Document:
    if after is not None:
        assert after.wait(LIMIT_S)
    return {"written": place}


def refused(error: BaseException) -> Document:
    raise error


def test_a_run_is_written_while_the_next_is_judged() -> None:
    second_is_judged = Event()

    def judge(each: str) -> Unwritten:
        if each == "second":
            second_is_judged.set()
        return partial(written, 1, after=second_is_judged)

    answers = judge_task([(7, "first"), (3, "second")], judge)
    assert answers == [(7, {"written": 1}), (3, {"written": 1})]


def test_what_cannot_be_judged_or_written_is_the_answer_of_its_input_alone() -> None:
    damaged, full = HistoryError("is damaged"), EnvironmentFailure("the disk is full")
    of: dict[str, Answer | Unwritten] = {
        "full": partial(refused, full),
        "done": {"written": 0},
        "ok": partial(written, 2),
    }

    def judge(each: str) -> Answer | Unwritten:
        if each not in of:
            raise damaged
        return of[each]

    answers = judge_task(list(enumerate(["full", "bad", "done", "ok"])), judge)
    assert answers == [(0, full), (1, damaged), (2, {"written": 0}), (3, {"written": 2})]


@pytest.mark.parametrize("when", ["judged", "written"])
@pytest.mark.parametrize("error", [ZeroDivisionError("by\nzero"), SystemExit(3)], ids=repr)
def test_what_nobody_expects_is_a_failure_at_its_input_alone(
    error: BaseException, when: str
) -> None:
    def judge(each: str) -> Answer | Unwritten:
        if each == "odd":
            return partial(refused, error) if when == "written" else refused(error)
        return {"written": each}

    first, odd, last = judge_task(list(enumerate(["a", "odd", "b"])), judge)
    assert (first, last) == ((0, {"written": "a"}), (2, {"written": "b"}))
    failure = odd[1]
    assert isinstance(failure, HarnessFailure)
    assert failure.file == "odd"
    assert failure.what.startswith(f"judging raised {type(error).__name__}: ")
    assert "test_tasks.py, line " in failure.what
    assert "\n" not in failure.what


def test_an_interrupt_ends_the_task() -> None:
    with pytest.raises(KeyboardInterrupt):
        judge_task([(0, "a")], lambda _: refused(KeyboardInterrupt()))

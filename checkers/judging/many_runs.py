"""Judges stored runs, and histories from outside, many in one Spark session.

Spark deals them out to Python workers, each of which reads and judges whole runs
(`checkers.judging.one_run`); only documents come back. Rows never pass through the JVM: moving them
there and aggregating them is several times slower (docs/decisions/0003).

Each input that cannot be judged is one error, and one whose checker breaks, or kills its worker, is
`unknown`; the others are judged all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from checkers.judging.broken import DIED
from checkers.judging.isolation import Answers, Isolated
from checkers.judging.one_run import (
    Checks,
    Document,
    Task,
    broken_history,
    broken_run,
    checker_of,
    judge_history,
    judge_run,
    judge_task,
)
from checkers.judging.spark import context, told_clearly
from harness.errors import AcklossError
from harness.history.run_folder import RunDir

_TASKS_PER_CORE: Final = 4

Input = TypeVar("Input")


def check_runs(
    rundirs: Sequence[RunDir],
    *,
    checks: Checks | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    errors: list[AcklossError] | None = None,
) -> list[Document]:
    """Judge run folders; writes each one's `result.json`, and what was found below `findings/`.
    Each is judged by the checks of its plan unless some are given.

    The documents, in the order given, of those that could be judged. Why the others could not is
    appended to `errors`, or raised where that is null. The first call of a process decides Spark's
    `master` and `conf`.
    """

    def size_bytes(run: RunDir) -> int:
        parts = (*run.parts(run.history), *run.parts(run.reads))
        return sum(part.stat().st_size for part in parts)

    judge = partial(judge_run, checks=checks)
    died = partial(broken_run, why=DIED)
    sized = [(size_bytes(run), run) for run in rundirs]
    return _judged(judge, died, sized, master, conf, errors)


def check_histories(
    files: Sequence[Path],
    *,
    checker: str = "loss",
    options: Mapping[str, Any] | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    errors: list[AcklossError] | None = None,
) -> list[Document]:
    """Judge histories from outside (JSON lines), as `check_runs` does run folders.

    Raises PlanError for a checker or an option that is not known.
    """
    checks = {checker: checker_of(checker, options or {}, key="--checker")}
    judge = partial(judge_history, checks=checks)
    died = partial(broken_history, why=DIED)
    sized = [(file.stat().st_size if file.is_file() else 0, file) for file in files]
    return _judged(judge, died, sized, master, conf, errors)


def _judged(
    judge: Callable[[Input], Document],
    died: Callable[[Input], Document],
    sized: Sequence[tuple[int, Input]],
    master: str | None,
    conf: Mapping[str, str] | None,
    errors: list[AcklossError] | None,
) -> list[Document]:
    """The documents of those that could be judged, in the order given."""
    if not sized:
        return []
    spark = context(master, conf)
    tasks = _dealt(sized, _TASKS_PER_CORE * spark.defaultParallelism)

    def judge_all(tasks: Sequence[Task[Input]]) -> Answers:
        with told_clearly():
            dealt = spark.parallelize(tasks, len(tasks))
            answers: Answers = dealt.flatMap(partial(judge_task, judge=judge)).collect()
            return answers

    documents = []
    answers = Isolated(judge_all, died, spark.defaultParallelism).judged(tasks)
    for _, answer in sorted(answers, key=lambda told: told[0]):
        if not isinstance(answer, AcklossError):
            documents.append(answer)
        elif errors is None:
            raise answer
        else:
            errors.append(answer)
    return documents


def _dealt(sized: Sequence[tuple[int, Input]], tasks: int) -> list[Task[Input]]:
    """The inputs with their places, dealt out largest first to at most so many tasks."""
    places = sorted(range(len(sized)), key=lambda place: sized[place][0], reverse=True)
    dealt = [[(place, sized[place][1]) for place in places[task::tasks]] for task in range(tasks)]
    return [task for task in dealt if task]

"""Judges stored runs, and histories from outside: a few by processes of our own, many by Spark.

Spark distributes them to Python workers, each of which reads and judges complete runs
(`checkers.judging.tasks`); only documents and findings come back. Rows never pass through the JVM:
moving them there and aggregating them is several times slower (docs/decisions/0003). A few are
judged before Spark has started.

Each input that cannot be judged is one error, and one whose checker breaks, or kills its worker, is
`unknown`; the others are still judged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from checkers.judging import tasks
from checkers.judging.isolation import Answers, Isolated
from checkers.judging.one_run import Checks, checker_of, judge_history
from checkers.judging.outside import model_outside
from checkers.judging.processes import Processes
from checkers.judging.results import Document, Judged
from checkers.judging.tasks import Answer, Judge, Stored, Task
from harness.errors import AcklossError
from harness.history.outside import histories
from harness.history.remote_run import RemoteRun
from harness.history.run_folder import RunDir
from harness.storage import environment

_TASKS_PER_CORE: Final = 4
_INPUTS_PER_TASK: Final = 4
"""On a cluster at most: its cores are not all there when the first task is distributed, and a
machine that goes takes little with it."""
_FEW: Final = 5_000
"""Up to so many inputs Spark's start takes more than a few percent of the time: on one machine it
judges no faster (`bench.check --linear`)."""
_JOB_BYTES: Final = 2**31
"""Of inputs at most in one job on a cluster: what was found in them comes back through the JVM
here, which takes a GiB (`spark.driver.maxResultSize`)."""
_WRITERS: Final = 8

Input = TypeVar("Input")


def check_runs(
    runs: Sequence[Stored],
    *,
    checks: Checks | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    errors: list[AcklossError] | None = None,
    processes: Processes | None = None,
) -> list[Document]:
    """Judge run folders, here or at URLs; writes each one's `result.json`, and what was found below
    `findings/`. Each is judged by the checks of its plan unless some are given.

    The documents, in the order given, of those that could be judged. Why the others could not, or a
    result could not be written, is appended to `errors`, or raised where that is null. Spark is
    started for many, or where `master` or `conf` is given, and used where it has been; the first
    call that starts it in a process decides the two. `processes`: those that judge a few, if some
    were started beforehand.
    """
    sized = [(_size_bytes(run), run) for run in runs]
    here, there = (
        partial(tasks.judge_here, checks=checks),
        partial(tasks.judge_there, checks=checks),
    )
    judging = _Judging(here, there, tasks.died, _absolute_run, tasks.write, processes)
    return judging.judged(sized, master, conf, errors)


def check_histories(
    files: Sequence[Path],
    *,
    checker: str = "loss",
    options: Mapping[str, Any] | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    errors: list[AcklossError] | None = None,
    processes: Processes | None = None,
) -> list[Document]:
    """Judge histories from outside (JSON lines, EDN, or a folder of Jepsen's store, which may hold
    several), as `check_runs` does run folders.

    Raises PlanError for a checker or an option that is not known, and for a checker that judges no
    histories from outside.
    """
    checks = {checker: checker_of(checker, options or {}, key="--checker")}
    model_outside(checks)
    files = list(_histories(files, errors))
    sized = [(file.stat().st_size if file.is_file() else 0, file) for file in files]
    here, there = (
        partial(judge_history, checks=checks),
        partial(tasks.judge_history_there, checks=checks),
    )
    judging = _Judging(
        here,
        there,
        tasks.history_died,
        Path.absolute,
        lambda _, judged: judged.document,
        processes,
    )
    return judging.judged(sized, master, conf, errors)


def _histories(paths: Sequence[Path], errors: list[AcklossError] | None) -> Iterator[Path]:
    """The files of operations that paths mean."""
    for path in paths:
        try:
            yield from histories(path)
        except AcklossError as error:
            if errors is None:
                raise
            errors.append(error)


@dataclass(frozen=True)
class _Judging(Generic[Input]):
    """How inputs of one kind are judged: `here`, by processes of this machine, or `there`, on a
    cluster, which knows no relative path; what is reported about one that ended its process; what
    writes here what is handed back; `processes` that were started beforehand."""

    here: Judge[Input]
    there: Judge[Input]
    died: Callable[[Input], Answer]
    absolute: Callable[[Input], Input]
    write: Callable[[Input, Judged], Document]
    processes: Processes | None = None

    def judged(
        self,
        sized: Sequence[tuple[int, Input]],
        master: str | None,
        conf: Mapping[str, str] | None,
        errors: list[AcklossError] | None,
    ) -> list[Document]:
        """The documents of those that could be judged, in the order given."""
        if not sized:
            return []
        if master is None and not conf and len(sized) <= _FEW and not _spark_runs():
            return self._written(sized, self._by_processes(sized), errors)
        return self._by_spark(sized, master, conf, errors)

    def _by_processes(self, sized: Sequence[tuple[int, Input]]) -> Answers:
        at_once = min(len(sized), len(os.sched_getaffinity(0)))
        dealt = _dealt(sized, _TASKS_PER_CORE * at_once)
        with nullcontext(self.processes) if self.processes else Processes(at_once) as processes:
            job = partial(processes.judged, self.here)
            return Isolated(job, self.died, at_once).judged(dealt)

    def _by_spark(
        self,
        sized: Sequence[tuple[int, Input]],
        master: str | None,
        conf: Mapping[str, str] | None,
        errors: list[AcklossError] | None,
    ) -> list[Document]:
        from checkers.judging.spark import context, failures_in_words, is_local

        if self.processes is not None:
            self.processes.end()
        spark = context(master, conf)
        cluster = not is_local(str(spark.master))
        judge = self.there if cluster else self.here
        if not cluster:  # its workers would have the environment in which the JVM was started
            spark.environment.update(environment())

        def judge_all(dealt: Sequence[Task[Input]]) -> Answers:
            with failures_in_words():
                job = spark.parallelize(dealt, len(dealt))
                answers: Answers = job.flatMap(partial(tasks.judge_task, judge=judge)).collect()
                return answers

        documents: list[Document] = []
        at_most = _TASKS_PER_CORE * spark.defaultParallelism
        for job in _jobs(sized) if cluster else [sized]:
            given = job
            if cluster:
                given = [(size, self.absolute(each)) for size, each in job]
                at_most = max(at_most, -(-len(job) // _INPUTS_PER_TASK))
            isolated = Isolated(judge_all, self.died, spark.defaultParallelism)
            documents += self._written(job, isolated.judged(_dealt(given, at_most)), errors)
        return documents

    def _written(
        self,
        sized: Sequence[tuple[int, Input]],
        answers: Answers,
        errors: list[AcklossError] | None,
    ) -> list[Document]:
        """The documents, once everything that was handed back is written. A verdict that could not
        be written is still one."""

        def written(
            place_and_answer: tuple[int, Answer],
        ) -> tuple[Document | None, AcklossError | None]:
            place, answer = place_and_answer
            if isinstance(answer, AcklossError):
                return None, answer
            if not isinstance(answer, Judged):
                return answer, None
            _, each = sized[place]
            done = tasks.answered(each, partial(self.write, each, answer))
            if not isinstance(done, AcklossError):
                return done, None
            return (None if answer.refused else answer.document), done

        with ThreadPoolExecutor(_WRITERS) as pool:
            done = list(pool.map(written, sorted(answers, key=lambda answer: answer[0])))
        troubles = [error for _, error in done if error is not None]
        if errors is None and troubles:
            raise troubles[0]
        if errors is not None:
            errors.extend(troubles)
        return [document for document, _ in done if document is not None]


def _spark_runs() -> bool:
    """Whether Spark is started already; to ask must not import it, which takes long."""
    module = sys.modules.get("checkers.judging.spark")
    return module is not None and bool(module.running())


def _size_bytes(run: Stored) -> int:
    """The size of its operations and records, which take the time, and of those of its cells; 0
    where it is not known: who judges the run reports what cannot be read."""
    if isinstance(run, RemoteRun):
        return run.size_bytes
    kinds = (
        kind
        for each in run.with_cells()
        for kind in (each.parts(each.history), each.parts(each.reads))
    )
    try:
        return sum(part.stat().st_size for parts in kinds for part in parts)
    except OSError:
        return 0


def _absolute_run(run: Stored) -> Stored:
    return RunDir(run.path.absolute()) if isinstance(run, RunDir) else run


def _jobs(sized: Sequence[tuple[int, Input]]) -> Sequence[Sequence[tuple[int, Input]]]:
    """The inputs in order, in jobs of a limited size; one that is larger has its own."""
    jobs, left = [list[tuple[int, Input]]()], _JOB_BYTES
    for size, each in sized:
        if size > left and jobs[-1]:
            jobs.append([])
            left = _JOB_BYTES
        jobs[-1].append((size, each))
        left -= size
    return jobs


def _dealt(sized: Sequence[tuple[int, Input]], tasks: int) -> list[Task[Input]]:
    """The inputs with their places, distributed largest first to at most so many tasks."""
    places = sorted(range(len(sized)), key=lambda place: sized[place][0], reverse=True)
    dealt = [[(place, sized[place][1]) for place in places[task::tasks]] for task in range(tasks)]
    return [task for task in dealt if task]

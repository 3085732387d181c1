"""Judges stored runs, and histories from outside: by processes of this machine, or many by Spark.

Both call one function, `judge`, for each input. Only documents and findings come back, and the
process that requested them writes them: rows never pass through the JVM, as moving them there and
aggregating them is several times slower (docs/decisions/0003).

Each input that cannot be judged is one error. One whose checker breaks, or kills the process that
judges it, is `unknown`; the others are still judged.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any, Final

from checkers.judging.one_run import (
    Checks,
    broken_history,
    broken_run,
    checker_of,
    judge_history,
    judged_run,
)
from checkers.judging.outside import model_outside
from checkers.judging.results import DIED, Document, Judged, WorkerDied, raised
from harness.errors import AcklossError, HarnessFailure, HistoryError
from harness.history.outside import histories
from harness.history.remote_run import RemoteRun
from harness.history.run_folder import RunDir
from harness.machine.files import scratch
from harness.storage import environment

Stored = RunDir | RemoteRun
"""A run's folder: here, or at a URL."""
Input = Stored | Path
"""A stored run, or a history from outside."""
Answer = Judged | AcklossError
"""What is to be written of an input, or why it cannot be judged."""

_MANY: Final = 1_000
"""From so many inputs Spark judges them: its start is then under a third of the time."""
_TASKS_PER_CORE: Final = 4
_INPUTS_PER_TASK: Final = 4
"""On a cluster at most: its cores are not all there when the first task is distributed, and a
machine that goes takes little with it."""
_JOB_BYTES: Final = 2**31
"""Of inputs at most in one job of Spark: what was found in them comes back through the JVM here,
which takes a GiB (`spark.driver.maxResultSize`)."""
_PIECES: Final = 8
_WRITERS: Final = 8

Task = Sequence[tuple[int, Input]]
"""Some inputs, each with its place among all."""


def check_runs(
    runs: Sequence[Stored],
    *,
    checks: Checks | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    errors: list[AcklossError] | None = None,
    here: bool = False,
) -> list[Document]:
    """Judge run folders, here or at URLs; writes each one's `result.json`, and what was found below
    `findings/`. Each is judged by the checks of its plan unless some are given.

    The documents, in the order given, of those that could be judged. Why the others could not, or a
    result could not be written, is appended to `errors`, or raised where that is null. Spark is
    started for many, or where `master` or `conf` is given; the first call that starts it in a
    process decides the two. `here`: unless they are given, one after another in this process.
    """
    return _judged(runs, checks, master, conf, errors, here=here)


def check_histories(
    files: Sequence[Path],
    *,
    checker: str = "loss",
    options: Mapping[str, Any] | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    errors: list[AcklossError] | None = None,
) -> list[Document]:
    """Judge histories from outside (JSON lines, EDN, or a folder of Jepsen's store, which may hold
    several), as `check_runs` does run folders.

    Raises PlanError for a checker or an option that is not known, and for a checker that judges no
    histories from outside.
    """
    checks = {checker: checker_of(checker, options or {}, key="--checker")}
    model_outside(checks)
    found: list[Path] = []
    for path in files:
        try:
            found += histories(path)
        except AcklossError as error:
            if errors is None:
                raise
            errors.append(error)
    return _judged(found, checks, master, conf, errors)


def judge(each: Input, checks: Checks | None, *, elsewhere: bool = False) -> Answer:
    """What is to be written of one input, or why it cannot be judged. Nothing is written but
    temporary files. `elsewhere`: on a cluster, whose machines may not have the folder."""
    try:
        if isinstance(each, RemoteRun):
            return _fetched(each, partial(judged_run, checks=checks))
        path = each if isinstance(each, Path) else each.run
        if elsewhere and not path.is_file():
            raise HistoryError(
                f"there is no such file or folder on {socket.gethostname()}",
                file=_place(each),
                hint="put it where every executor reads it: s3://, hdfs://, or a folder that all "
                "of them mount",
            )
        if isinstance(each, Path):
            return Judged(judge_history(each, checks or {}))
        return judged_run(each, checks)
    except AcklossError as error:
        return error
    except (Exception, SystemExit) as error:  # a failure of ackloss at this input alone
        return HarnessFailure(raised(error), file=_place(each))


def write(each: Input, judged: Judged) -> Document:
    """Write what was judged where the input is; of a history there is nothing to write."""
    if isinstance(each, RemoteRun):
        return judged.send(each)
    return judged.document if isinstance(each, Path) else judged.write(each)


def _died(each: Input) -> Answer:
    """Of an input that ended the process which judged it."""
    try:
        if isinstance(each, RemoteRun):
            return _fetched(each, lambda rundir: broken_run(rundir, DIED), documents=True)
        if isinstance(each, Path):
            return Judged(broken_history(each, DIED))
        return broken_run(each, DIED)
    except AcklossError as error:
        return error


def _fetched(
    run: RemoteRun, judge: Callable[[RunDir], Judged], *, documents: bool = False
) -> Judged:
    """What `judge` returns for a copy, with the URL in place of the copy's path."""
    with scratch() as folder:
        copy = run.fetch(Path(folder), documents=documents)

        def renamed(text: str | None) -> str | None:
            return text and text.replace(str(copy.path), run.folder.place())

        def of_the_url(error: AcklossError) -> None:
            error.what, error.file = str(renamed(error.what)), renamed(error.file)

        try:
            judged = judge(copy)
        except AcklossError as error:
            of_the_url(error)
            raise
        if judged.refused is not None:
            of_the_url(judged.refused)
        judged.document["reason"] = renamed(judged.document["reason"])
        return judged


def _place(each: Input) -> str:
    if isinstance(each, RemoteRun):
        return each.folder.place()
    return str(each if isinstance(each, Path) else each.path)


def _judged(
    inputs: Sequence[Input],
    checks: Checks | None,
    master: str | None,
    conf: Mapping[str, str] | None,
    errors: list[AcklossError] | None,
    *,
    here: bool = False,
) -> list[Document]:
    """The documents of those that could be judged, in the order given, once everything is written.
    A verdict that could not be written is still one."""
    if not inputs:
        return []
    answers: Iterable[tuple[int, Answer]]
    if master is not None or conf or (len(inputs) >= _MANY and not here):
        answers = _by_spark(inputs, checks, master, conf)
    elif here:
        answers = ((place, judge(each, checks)) for place, each in enumerate(inputs))
    else:
        answers = _by_processes(inputs, checks)
    with ThreadPoolExecutor(_WRITERS) as writers:
        writing = {
            place: writers.submit(_written, inputs[place], answer) for place, answer in answers
        }
    done = [writing[place].result() for place in sorted(writing)]
    troubles = [error for _, error in done if error is not None]
    if errors is None and troubles:
        raise troubles[0]
    if errors is not None:
        errors.extend(troubles)
    return [document for document, _ in done if document is not None]


def _written(each: Input, answer: Answer) -> tuple[Document | None, AcklossError | None]:
    if isinstance(answer, AcklossError):
        return None, answer
    try:
        return write(each, answer), None
    except AcklossError as error:
        return None if answer.refused else answer.document, error
    except Exception as error:
        return answer.document, HarnessFailure(raised(error), file=_place(each))


class _Pool(ProcessPoolExecutor):
    """A process starts when there is something to submit; an interrupt is for the one that asks,
    and does not meet those that are just starting."""

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return super().submit(*args, **kwargs)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return super().submit(*args, **kwargs)
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def pool_of(at_once: int) -> Iterator[ProcessPoolExecutor]:
    """At most so many processes, which have what this one has imported: to import it takes longer
    than to judge a run. Only where other threads run, whose locks a copy would find closed for
    ever, do they begin with nothing. Where the context ends by an exception, an interrupt too, they
    end at once."""
    _open_missing()
    method = "fork" if threading.active_count() == 1 else "spawn"
    pool = _Pool(at_once, multiprocessing.get_context(method), _begin)
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.kill()  # or the pool waits for what it has begun
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _open_missing() -> None:
    """Where stdin, stdout or stderr is closed, here or in a new process, the next file that is
    opened, such as a pipe to another process, would be taken for it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        os.set_inheritable(number, True)


def _begin() -> None:
    """What a checker prints is not our output; an interrupt is for the process that asks; and
    when that is gone, nobody waits for an answer. What is imported stays, so that the collector of
    garbage need not look at it again and again."""
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # of Python itself, which may write elsewhere
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.freeze()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _by_processes(inputs: Sequence[Input], checks: Checks | None) -> Iterator[tuple[int, Answer]]:
    """By processes of this machine, the largest first. Where one dies, what was judged then is
    judged once more, each alone in a process, so that the one that kills it is known."""
    at_once = min(len(inputs), len(os.sched_getaffinity(0)))
    sizes = [_size_bytes(each) for each in inputs]
    waiting = deque(sorted(range(len(inputs)), key=lambda place: -sizes[place]))
    while waiting:
        running: dict[Future[Answer], int] = {}
        with pool_of(at_once) as processes:
            try:
                while waiting or running:
                    while waiting and len(running) < 2 * at_once:
                        task = processes.submit(judge, inputs[waiting[0]], checks)
                        running[task] = waiting.popleft()
                    for task in wait(running, return_when=FIRST_COMPLETED).done:
                        answer = task.result()
                        yield running.pop(task), answer
            except BrokenProcessPool:
                pass
        for place in running.values():
            yield place, _alone(inputs[place], checks)


def _alone(each: Input, checks: Checks | None) -> Answer:
    with pool_of(1) as process:
        try:
            return process.submit(judge, each, checks).result()
        except BrokenProcessPool:
            return _died(each)


def _by_spark(
    inputs: Sequence[Input],
    checks: Checks | None,
    master: str | None,
    conf: Mapping[str, str] | None,
) -> Iterator[tuple[int, Answer]]:
    from checkers.judging.spark import context, failures_in_words, is_local

    spark = context(master, conf)
    elsewhere = not is_local(str(spark.master))
    if not elsewhere:  # its workers would have the environment in which the JVM was started
        spark.environment.update(environment())
    judged = partial(_judge_task, checks=checks, elsewhere=elsewhere)

    def job(sized: Sequence[tuple[int, int]]) -> list[tuple[int, Answer]]:
        """The answers for these places. Where a worker dies, in ever smaller pieces, until the
        input that kills it is alone."""
        at_most = _TASKS_PER_CORE * spark.defaultParallelism
        if elsewhere:
            at_most = max(at_most, -(-len(sized) // _INPUTS_PER_TASK))
        places = [place for _, place in sorted(sized, key=lambda each: -each[0])]
        dealt = [
            [(place, _absolute(inputs[place])) for place in places[task::at_most]]
            for task in range(min(at_most, len(places)))
        ]
        try:
            with failures_in_words():
                tasks = spark.parallelize(dealt, len(dealt))
                answers: list[tuple[int, Answer]] = tasks.flatMap(judged).collect()
                return answers
        except WorkerDied:
            if len(sized) == 1:
                return [(places[0], _died(inputs[places[0]]))]
        size = -(-len(sized) // _PIECES)
        pieces = (sized[first : first + size] for first in range(0, len(sized), size))
        return [answer for piece in pieces for answer in job(piece)]

    for sized in _jobs(inputs):
        yield from job(sized)


def _judge_task(
    task: Task, checks: Checks | None, *, elsewhere: bool
) -> Iterator[tuple[int, Answer]]:
    return ((place, judge(each, checks, elsewhere=elsewhere)) for place, each in task)


def _absolute(each: Input) -> Input:
    """An executor knows no relative path."""
    if isinstance(each, RemoteRun):
        return each
    return each.absolute() if isinstance(each, Path) else type(each)(each.path.absolute())


def _jobs(inputs: Sequence[Input]) -> list[list[tuple[int, int]]]:
    """The sizes and places of the inputs in order, in jobs of a limited size; one that is larger
    has its own."""
    jobs, left = [list[tuple[int, int]]()], _JOB_BYTES
    for place, each in enumerate(inputs):
        size = _size_bytes(each)
        if size > left and jobs[-1]:
            jobs.append([])
            left = _JOB_BYTES
        jobs[-1].append((size, place))
        left -= size
    return jobs


def _size_bytes(each: Input) -> int:
    """The size of a history, or of the operations and records of a run and its cells, which take
    the time; 0 where it is not known: who judges it reports what cannot be read."""
    if isinstance(each, RemoteRun):
        return each.size_bytes
    try:
        if isinstance(each, Path):
            return each.stat().st_size
        return sum(
            part.stat().st_size
            for folder in each.with_cells()
            for part in (*folder.parts(folder.history), *folder.parts(folder.reads))
        )
    except OSError:
        return 0

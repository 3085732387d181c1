"""What Spark's workers execute: some inputs judged one after another, here or on another machine.

If a worker is a process of this machine, it writes its findings into a run's folder. On a
cluster it hands that back, and writes nothing but temporary files: the process that requested it is
the only writer of shared storage.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import TypeVar

from checkers.judging.contract import DIED, raised
from checkers.judging.one_run import (
    Checks,
    broken_history,
    broken_run,
    judge_history,
    judged_run,
)
from checkers.judging.results import Document, Judged
from harness.errors import AcklossError, HarnessFailure, HistoryError
from harness.history.remote_run import RemoteRun
from harness.history.run_folder import RunDir
from harness.machine.scratch import scratch

Stored = RunDir | RemoteRun
"""A run's folder: here, or at a URL."""

Input = TypeVar("Input")
Task = Sequence[tuple[int, Input]]
"""Some inputs, each with its place among all."""
Answer = Document | Judged | AcklossError
"""Of one input: its document, written already; what is still to be written; why there is none."""
Unwritten = Callable[[], Document]
"""Writes what was judged into the folder of its run here."""
Judge = Callable[[Input], Answer | Unwritten]
Made = TypeVar("Made")

_SHARED = "put it where every executor reads it: s3://, hdfs://, or a folder that all of them mount"


def judge_task(task: Task[Input], judge: Judge[Input]) -> list[tuple[int, Answer]]:
    """What `judge` returns for each input, or why it cannot be judged, with its place. What is to
    be written here is written while the next input is judged: most of that is waiting for a disk.
    """
    answers: list[tuple[int, Input, Answer | Future[Document]]] = []
    writing: list[Future[Document]] = []
    with ThreadPoolExecutor(1) as disk:
        for place, each in task:
            answer = answered(each, partial(judge, each))
            if callable(answer):
                wait(writing)  # so that findings of one run wait at most
                writing = [disk.submit(answer)]
                answers.append((place, each, writing[0]))
            else:
                answers.append((place, each, answer))
    return [
        (place, answered(each, answer.result) if isinstance(answer, Future) else answer)
        for place, each, answer in answers
    ]


def answered(each: Input, ask: Callable[[], Made]) -> Made | AcklossError:
    """What `ask` returns for an input, or why it returns nothing. An exception that nobody expects
    is a failure of ackloss at this input alone: the others are still judged."""
    try:
        return ask()
    except AcklossError as error:
        return error
    except (Exception, SystemExit) as error:
        return HarnessFailure(raised(error), file=_place(each))


def _place(each: object) -> str:
    """Where an input is."""
    if isinstance(each, RemoteRun):
        return each.folder.place()
    return str(each.path if isinstance(each, RunDir) else each)


def judge_and_write(run: Stored) -> Document:
    """In this process."""
    return write(run, judged_run(run, None) if isinstance(run, RunDir) else judge_there(run, None))


def write(run: Stored, judged: Judged) -> Document:
    """Write what was handed back, where the run is."""
    return judged.send(run) if isinstance(run, RemoteRun) else judged.write(run)


def judge_here(run: Stored, checks: Checks | None) -> Unwritten | Judged:
    """In a process of this machine: a folder here is to be written into."""
    if isinstance(run, RunDir):
        return partial(judged_run(run, checks).write, run)
    return judge_there(run, checks)


def judge_there(run: Stored, checks: Checks | None) -> Judged:
    """In an executor: nothing is written."""
    if isinstance(run, RemoteRun):
        return _fetched(run, lambda rundir: judged_run(rundir, checks))
    if not run.run.is_file():
        raise _out_of_sight(run.path)
    return judged_run(run, checks)


def judge_history_there(file: Path, checks: Checks) -> Answer:
    """A history from outside, in an executor."""
    if not file.is_file():
        raise _out_of_sight(file)
    return judge_history(file, checks)


def died(run: Stored) -> Answer:
    """Of a run that ended the process which judged it."""
    if isinstance(run, RemoteRun):
        return _fetched(run, lambda rundir: broken_run(rundir, DIED), documents=True)
    return broken_run(run, DIED)


def history_died(file: Path) -> Answer:
    """Of a history that ended the process which judged it."""
    return broken_history(file, DIED)


def _out_of_sight(path: Path) -> HistoryError:
    return HistoryError(
        f"there is no such file or folder on {socket.gethostname()}", file=str(path), hint=_SHARED
    )


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

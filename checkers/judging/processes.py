"""Judges inputs by processes of our own: for a few of them Spark would take longer to start."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from typing import Any

from checkers.judging.isolation import Answers, WorkerDied
from checkers.judging.tasks import Answer, Task, judge_task


def judged(tasks: Sequence[Task[Any]], *, judge: Callable[[Any], Answer], at_once: int) -> Answers:
    """The answers for all inputs of these tasks, in any order. Raises WorkerDied where a process
    ends while it judges."""
    with _pool(min(at_once, len(tasks))) as pool:
        try:
            answered = list(pool.map(partial(judge_task, judge=judge), tasks))
        except BrokenProcessPool as error:
            raise WorkerDied("a process that was judging died") from error
    return [answer for answers in answered for answer in answers]


@contextmanager
def _pool(size: int) -> Iterator[ProcessPoolExecutor]:
    """New processes, which do not outlast an interrupt: a pool would wait for what it has begun.
    (Where one of them died there may be other pools, whose processes are to go on.)"""
    others = set(active_children())
    with ProcessPoolExecutor(size, get_context("spawn"), initializer=_begin) as pool:
        try:
            yield pool
        except WorkerDied:
            raise
        except BaseException:
            for process in set(active_children()) - others:
                process.kill()
            raise


def _begin() -> None:
    """What a checker prints is none of our output; and an interrupt is for the process that
    asks."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)

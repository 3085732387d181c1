"""Finds the input whose judging kills its Python worker, so that every other has its answer.

A worker that dies ends the entire job. Each task that had not been answered is then judged again in
a separate job. A task whose worker dies once more is judged in ever smaller pieces, until the input
that kills its worker is alone. If no worker dies, nothing is judged twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, Generic, TypeVar

from checkers.judging.tasks import Answer, Task, answered
from harness.errors import HarnessFailure

Input = TypeVar("Input")
Answers = list[tuple[int, Answer]]

_PIECES: Final = 8


class WorkerDied(HarnessFailure):
    """A process that was judging is gone: killed, or out of memory. `answered`: the answers of each
    task that was over by then, by the task's place in the job."""

    def __init__(self, what: str, answered: Mapping[int, Answers] | None = None) -> None:
        super().__init__(what)
        self.answered = answered or {}


@dataclass(frozen=True)
class Isolated(Generic[Input]):
    """Judges by `job`, which runs some tasks as one job, at most `at_once` at the same
    time; `died` answers for an input that kills its worker."""

    job: Callable[[Sequence[Task[Input]]], Answers]
    died: Callable[[Input], Answer]
    at_once: int

    def judged(self, tasks: Sequence[Task[Input]]) -> Answers:
        """The answers for all inputs of these tasks, in any order."""
        try:
            return self.job(tasks)
        except WorkerDied as death:
            if len(tasks) == len(tasks[0]) == 1:
                return [self._dead(*tasks[0][0])]
            answered = death.answered
        left = [task for place, task in enumerate(tasks) if place not in answered]
        pool = ThreadPoolExecutor(self.at_once)
        try:
            return list(chain(*answered.values(), *pool.map(self._alone, left)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _alone(self, task: Task[Input]) -> Answers:
        try:
            return self.job([task])
        except WorkerDied:
            if len(task) == 1:
                return [self._dead(*task[0])]
        return [answer for piece in _pieces(task) for answer in self._alone(piece)]

    def _dead(self, place: int, culprit: Input) -> tuple[int, Answer]:
        return place, answered(culprit, partial(self.died, culprit))


def _pieces(task: Task[Input]) -> Iterator[Task[Input]]:
    size = -(-len(task) // _PIECES)
    return (task[begin : begin + size] for begin in range(0, len(task), size))

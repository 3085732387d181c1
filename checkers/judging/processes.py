"""Judges inputs by processes of our own: for a few of them Spark would take longer to start.

To judge one run takes less time than to import what that needs. So processes can be started while
it is not known yet what they will judge, and this module imports little.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.resource_tracker import ensure_running
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from checkers.judging.isolation import Answers
    from checkers.judging.tasks import Judge, Task


_AHEAD: Final = 2
"""So many are started beforehand: a large machine need not start more than it has inputs."""


class Processes(SpawnContext):
    """Judges tasks by at most so many processes, by default one a processor; by new ones for each
    call. A context: where it ends by an exception, an interrupt too, they end at once; they do not
    outlast this process either."""

    def __init__(self, at_once: int | None = None) -> None:
        _open_missing()
        self._at_once = at_once or len(os.sched_getaffinity(0))
        self._made: list[_Judging] = []
        self._ended = False
        self._first: ProcessPoolExecutor | None = None

    def start(self) -> None:
        """Start some of those of the first call."""
        with _uninterrupted():
            self._first = self._pool(self._at_once)
            for _ in range(min(self._at_once, _AHEAD)):
                self._first.submit(int)  # a pool starts a process when it has something to do

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        """See multiprocessing; called by the pool."""
        self._made.append(process := _Judging(*args, **kwargs))
        return process

    def judged(self, judge: Judge[Any], tasks: Sequence[Task[Any]]) -> Answers:
        """The answers for all inputs of these tasks, in any order. Raises WorkerDied where a
        process ends while it judges."""
        from checkers.judging.isolation import WorkerDied
        from checkers.judging.tasks import judge_task

        if self._ended:
            raise RuntimeError("nothing is judged any more")
        first, self._first = self._first, None
        with first or self._pool(min(self._at_once, len(tasks))) as pool:
            futures: list[Future[Answers]] = []
            try:
                with _uninterrupted():
                    futures.extend(pool.submit(judge_task, task, judge) for task in tasks)
                return [answer for future in futures for answer in future.result()]
            except BrokenProcessPool as error:
                answered = {
                    n: each.result()
                    for n, each in enumerate(futures)
                    if each.done() and each.exception() is None
                }
                raise WorkerDied("a process that was judging died", answered) from error
            except BaseException:
                self.end()  # or the pool waits for what it has begun
                raise

    def _pool(self, at_once: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(at_once, self, _begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None or self._first is not None:
            self.end()

    def end(self) -> None:
        """End them at once; nothing is judged any more."""
        self._ended = True
        for process in self._made:
            if process.pid is not None:
                process.kill()
        if self._first is not None:
            with suppress(RuntimeError):  # the system had no thread for it
                self._first.shutdown()


class _Judging(SpawnProcess):
    """Ends without taking its interpreter down: with all that checkers import, that takes as long
    as judging ten runs, and the process that asks waits for it. An interrupt is for the one that
    asks: this one does not even see those that come while it starts."""

    def start(self) -> None:
        """See multiprocessing."""
        with _uninterrupted():
            super().start()

    def run(self) -> None:
        """See multiprocessing."""
        super().run()
        atexit._run_exitfuncs()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):  # it may be closed
                stream.flush()
        os._exit(0)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """An interrupt comes afterwards. A process that is started meanwhile does not see it, nor does
    this thread if any other thread receives it: Python would raise it here."""
    ensure_running()  # or it is started with the next process, and unblocks the signal
    came: list[int] = []
    here = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if here else None
    if handler is not None:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


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
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from checkers.judging import tasks  # noqa: F401

    gc.freeze()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)

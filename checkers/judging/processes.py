"""Processes of this machine that judge.

To judge one run takes less time than to import what that needs. So they can be started while it is
not known yet what they will judge, and this module imports little.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

_AHEAD = 2
"""So many are started beforehand: a large machine need not start more than it has inputs."""


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
def pool_of(
    at_once: int | None = None, started: ProcessPoolExecutor | None = None
) -> Iterator[ProcessPoolExecutor]:
    """At most so many processes, by default one a processor, or those that were `started`. Where
    the context ends by an exception, an interrupt too, they end at once."""
    _open_missing()
    at_once = at_once or len(os.sched_getaffinity(0))
    pool = started or _Pool(at_once, get_context("spawn"), _begin)
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.kill()  # or the pool waits for what it has begun
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def start(pool: ProcessPoolExecutor) -> None:
    """Start some of its processes now."""
    for _ in range(_AHEAD):
        pool.submit(int)


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
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from checkers.judging import many_runs  # noqa: F401

    gc.freeze()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)

"""The load generator runs before everything else on this machine, where it may.

Often a cluster and its load share a few cores. A load generator that then waits for its turn like
all others begins operations late and sees answers late, and the run is starved (`harness.run.loop`)
by its own cluster. So while a paced load goes on, the threads of this process have Linux's
round-robin real-time policy (`man 7 sched`): they run when they have something to do, which at a
load of `MOST_PER_S` is a small share of one core. A flat-out load always has something to do and
stays among the others.

Commands that are started meanwhile (a lever's, a client of the user's) do not inherit the policy:
the kernel resets it (SCHED_RESET_ON_FORK). It resets it for new threads, too, which therefore get
it by a look at `/proc/self/task` ten times a second: a thread that is not scheduled while it holds
Python's interpreter lock holds up the load generator.

Needs root or CAP_SYS_NICE; without, nothing changes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from harness.protocols import Finding, Status

MOST_PER_S: Final = 5_000
"""The highest rate, of all that this process begins, at which its load runs before the rest."""

Policy = Literal["real-time", "ordinary"]
REAL_TIME: Final[Policy] = "real-time"
ORDINARY: Final[Policy] = "ordinary"

_PERIOD_S: Final = 0.1
_TASKS: Final = Path("/proc/self/task")
_AHEAD: Final = (os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
_LIKE_OTHERS: Final = (os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def ahead_of_others(rate_per_s: float) -> Iterator[Policy]:
    """Let this process run first while the context lasts; yields the policy that it has.

    `rate_per_s` is that of all operations which are to begin, 0 for flat out."""
    if not 0 < rate_per_s <= MOST_PER_S or not _schedule(_threads(), *_AHEAD):
        yield ORDINARY
        return
    over = threading.Event()
    sweep = threading.Thread(target=_include_new, args=(over,), name="priority", daemon=True)
    sweep.start()
    try:
        yield REAL_TIME
    finally:
        over.set()
        sweep.join()
        _schedule(_threads(), *_LIKE_OTHERS)


def finding() -> Finding:
    """Whether this process may run before others."""
    name = "priority of the load"
    thread = threading.get_native_id()
    if _schedule({thread}, *_AHEAD):
        _schedule({thread}, *_LIKE_OTHERS)
        return Finding(name, Status.OK, "real-time")
    detail = "ordinary: the load waits for its turn, and on a full machine runs are starved"
    return Finding(name, Status.WARN, detail, "run as root, or with CAP_SYS_NICE")


def _include_new(over: threading.Event) -> None:
    """Schedule threads that begin later as those that were there."""
    known: set[int] = set()
    while not over.wait(_PERIOD_S):
        new = (now := _threads()) - known
        _schedule(new, *_AHEAD)
        known = now


def _threads() -> set[int]:
    with suppress(FileNotFoundError):
        return {int(entry.name) for entry in _TASKS.iterdir()}
    return set()


def _schedule(threads: set[int], policy: int, how: os.sched_param) -> bool:
    """Give threads a policy. False: this process may not."""
    for thread in threads:
        with suppress(ProcessLookupError):  # it has ended
            try:
                os.sched_setscheduler(thread, policy, how)
            except PermissionError:
                return False
    return bool(threads)

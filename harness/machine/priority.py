"""A larger share of this machine's processors for the load generator, where it may have one.

Often clusters and load generators share a few cores, several of each in a campaign. Linux shares
its processors first among sessions and containers (`man 7 sched`, autogroups), and only then among
the threads of each: a load generator that begins a little every few milliseconds then waits behind
whatever starts, recovers or is judged meanwhile, and its run is starved (`harness.run.load`). So a
session that holds nothing but one load generator, which is that of a worker of a campaign, has a
higher weight during a paced load. A weight, not a real-time policy: even if something spins here,
others still get a share.

Needs root or CAP_SYS_NICE, and autogroups; without, nothing changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MOST_PER_S: Final = 5_000
"""The highest rate, of all that this process begins, at which its load has the larger share. A
faster load would take what its own cluster needs."""
NICE: Final = -10
"""Some nine times the weight of a session like others."""

_AUTOGROUP: Final = Path("/proc/self/autogroup")


@contextmanager
def larger_share(rate_per_s: float) -> Iterator[bool]:
    """Let the session of this process, if it leads one of its own, have a larger share of the
    processors while the context lasts; yields whether it has.

    `rate_per_s` is that of all operations which are to begin, 0 for full speed. Without effect
    on the session of a user's shell, in which other programs run."""
    before = _nice() if os.getsid(0) == os.getpid() else None
    if before is None or not 0 < rate_per_s <= MOST_PER_S or not _give(NICE):
        yield False
        return
    try:
        yield True
    finally:
        _give(before)


def _nice() -> int | None:
    """The nice value of this session; `None` where the kernel has no autogroups."""
    with suppress(OSError):
        if found := re.search(r"nice (-?\d+)", _AUTOGROUP.read_text(encoding="ascii")):
            return int(found[1])
    return None


def _give(nice: int) -> bool:
    """Set the nice value of this session. False: this process may not."""
    try:
        _AUTOGROUP.write_text(str(nice), encoding="ascii")
    except OSError:
        return False
    return True

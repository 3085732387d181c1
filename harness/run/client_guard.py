"""Runs a command and ends with it; ends it, with all that it started, when the harness is gone.

    python client_guard.py LIFELINE_FD COMMAND...

A separate process between the harness and a client of the user's, with the standard library only.
LIFELINE_FD is the read end of a pipe whose write end only the harness has: its end means that the
harness has closed it, or was killed. The guard adopts orphans (PR_SET_CHILD_SUBREAPER), so whatever
the command has started, also as a daemon, is found and killed. The command itself is killed with
the guard (PR_SET_PDEATHSIG, prctl(2)). Exits as the command did, with 128 + N for signal N.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_PDEATHSIG, _SUBREAPER = 1, 36
_ROUNDS, _ROUND_S = 500, 0.01
NOT_STARTED = 127


def main(lifeline: int, argv: list[str]) -> int:
    """Run the command; its exit code."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _become(argv, lifeline)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)  # the pipes are the command's alone:
    os.dup2(0, 1)  # their ends are noticed on both sides
    ended = os.pidfd_open(child)
    select.select([lifeline, ended], [], [])
    if not select.select([ended], [], [], 0)[0]:
        signal.pidfd_send_signal(ended, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _end_orphans()
    return code if code >= 0 else 128 - code


def _become(argv: list[str], lifeline: int) -> None:
    os.close(lifeline)
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        print(f"cannot start {argv[0]}: {error.strerror}", file=sys.stderr)
    os._exit(NOT_STARTED)


def _end_orphans() -> None:
    """Kill what is left, round by round: the children of one that was killed are adopted."""
    for _ in range(_ROUNDS):
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_ROUND_S)


def _children() -> list[int]:
    """Our own children, of /proc: a pid is ours until we have waited for it."""
    me, found = str(os.getpid()), []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            _, _, rest = stat.read_text().rpartition(")")
            if rest.split()[1] == me:
                found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

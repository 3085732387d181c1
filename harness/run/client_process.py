"""One process of the user's that is a client: its pipes, its log, its end.

It runs under a guard (`harness.run.client_guard`), so that it ends with the harness, with all that
it has started. What it writes to stderr is kept as its log, up to a limit: a thread copies it, so
that a process that writes a lot is not delayed and cannot fill the disk.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from harness.errors import EnvironmentFailure, PlanError
from harness.machine.client_processes import MARK
from harness.run import client_guard
from harness.run.client_lines import MAX_LINE

LOG_LIMIT: Final = 16 << 20
"""How much of a client's stderr is kept, in bytes, over all processes of one place."""

WAITING_LIMIT: Final = 1 << 20
"""Bytes that may wait until a client reads them; then it accepts no more operations."""

_CHUNK: Final = 1 << 16
_END_S: Final = 5.0


@dataclass(frozen=True)
class ClientCommand:
    """The command line of `--client`, as an argument list; no shell reads it."""

    argv: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> ClientCommand:
        """The command that a text means, found and executable. Raises PlanError."""
        try:
            argv = tuple(shlex.split(text))
        except ValueError as error:
            raise _refused(f"{text!r} is not a command line: {error}", "close the quotes") from None
        if not argv:
            raise _refused("the command is empty", "name a program and its arguments")
        if shutil.which(argv[0]) is None:
            path = Path(argv[0])
            if path.is_dir():
                raise _refused(f"{argv[0]!r} is a folder", "name a program")
            if "/" in argv[0] and path.exists():
                raise _refused(f"{argv[0]!r} is not executable", f"chmod +x {argv[0]}")
            raise _refused(f"there is no command {argv[0]!r}", "name a program that is there")
        return cls(argv)

    def __str__(self) -> str:
        return shlex.join(self.argv)


def client_command(text: str | None) -> ClientCommand | None:
    """The command of `--client`; `None` where none is given. Raises PlanError."""
    return None if text is None else ClientCommand.of(text)


def _refused(what: str, hint: str) -> PlanError:
    return PlanError(what, key="--client", hint=hint)


class Ended(Exception):
    """The process has closed its stdout."""


class TooLong(Exception):
    """A line is longer than any line may be."""


class ClientLog:
    """The log of a client's place: what its processes write to stderr, one after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left = LOG_LIMIT
        self._file: IO[bytes] = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    @property
    def cut_off(self) -> bool:
        """Whether more was written than is kept."""
        return self._left < 0

    def last_line(self) -> str:
        """The last line that is kept; empty if there is none."""
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - _CHUNK))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def copy(self, stream: IO[bytes]) -> None:
        """Keep what comes, until the stream ends."""
        with stream, suppress(OSError, ValueError):
            while chunk := os.read(stream.fileno(), _CHUNK):
                with self._lock:
                    kept, self._left = chunk[: max(0, self._left)], max(-1, self._left - len(chunk))
                    if kept:
                        self._file.write(kept)

    def close(self) -> None:
        """What comes later is dropped."""
        with self._lock:
            self._left = min(self._left, 0)
            self._file.close()


class ClientProcess:
    """A process under its guard. `pending` are the processes of the workload that wait for an
    answer, by the id of their operation."""

    def __init__(
        self, command: ClientCommand, *, run_id: str, log: ClientLog, name: str, setup: bytes
    ) -> None:
        """Start it and queue its setup line. Raises EnvironmentFailure where nothing can be
        started."""
        self.name, self.log = name, log
        self.pending: dict[int, int] = {}
        self._waiting, self._input = bytearray(setup), bytearray()
        lifeline, self._lifeline = os.pipe()
        guard = [sys.executable, "-I", "-S", client_guard.__file__, str(lifeline)]
        try:
            self._guard = subprocess.Popen(
                [*guard, *command.argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[lifeline],
                env=self._environment(run_id),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._lifeline)
            raise EnvironmentFailure(f"no client can be started: {error.strerror}") from error
        finally:
            os.close(lifeline)
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        assert self._guard.stderr is not None
        self.stdin, self.stdout = self._guard.stdin, self._guard.stdout
        os.set_blocking(self.stdin.fileno(), False)
        os.set_blocking(self.stdout.fileno(), False)
        self._copier = threading.Thread(
            target=log.copy, args=[self._guard.stderr], name=f"log of {name}", daemon=True
        )
        self._copier.start()

    @staticmethod
    def _environment(run_id: str) -> Mapping[str, str]:
        return {**os.environ, MARK: run_id}

    @property
    def full(self) -> bool:
        """Whether it reads too slowly to be given more."""
        return len(self._waiting) >= WAITING_LIMIT

    def write(self, line: bytes) -> None:
        """Queue a line."""
        self._waiting += line

    def flush(self) -> bool:
        """Write what it accepts now; whether that was everything. One that no longer reads is left
        to its end, which stdout shows."""
        while self._waiting:
            try:
                sent = os.write(self.stdin.fileno(), self._waiting[:_CHUNK])
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EBADF):
                    raise
                self._waiting.clear()
                return True
            del self._waiting[:sent]
        return True

    def lines(self) -> list[bytes]:
        """The complete lines so far. Raises TooLong, and Ended when there will be no more."""
        try:
            chunk = os.read(self.stdout.fileno(), _CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if not chunk:
            raise Ended
        *lines, rest = (self._input + chunk).split(b"\n")
        self._input = rest
        if len(rest) > MAX_LINE or any(len(line) > MAX_LINE for line in lines):
            raise TooLong
        return [bytes(line) for line in lines]

    @property
    def running(self) -> bool:
        """Whether its guard runs, and so perhaps the process."""
        return self._guard.poll() is None

    def end_input(self) -> None:
        """Write what waits, as far as it is accepted, then end its stdin."""
        with suppress(OSError):
            self.flush()
        with suppress(OSError):
            self.stdin.close()

    def end(self, grace_s: float) -> int | None:
        """Give it so long to end by itself, then kill it and all that it has started; its exit
        code, `None` where it had to be killed."""
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self._guard.wait(grace_s)
        os.close(self._lifeline)
        for pipe in (self.stdin, self.stdout):
            with suppress(OSError):
                pipe.close()
        try:
            self._guard.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the kernel kills the command with it
            self._guard.wait()
        self._copier.join(_END_S)
        return code


def exit_in_words(code: int | None) -> str:
    """How a process ended."""
    if code is None:
        return "it closed its stdout"
    if code > 128:
        with suppress(ValueError):
            return f"it was killed by {signal.Signals(code - 128).name}"
    return f"it ended with exit code {code}"

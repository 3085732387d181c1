"""Root shells that are kept on a host: a command costs one round trip, and not a channel, a login
and a sudo (0.1 ms and the command's own time, where those take 13).

A command is written to the shell's standard input; its output and its errors come on two streams,
and both end with a mark that no command knows. Both are read at once, as a command whose errors
fill a window would else wait for ever. Each command has a limit on the host (`timeout`), since
closing a channel ends nothing there, and one here.
"""

from __future__ import annotations

import re
import secrets
import select
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import paramiko

from harness.clusters.ssh.connection import TROUBLE, Connection
from harness.errors import HarnessFailure
from harness.protocols import Completed

_LATE_S: Final = 5.0
PATH: Final = "/run/ackloss/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BEGIN: Final = f"cd /; PATH={PATH}; LC_ALL=C; export PATH LC_ALL"
NO_ANSWER: Final = 124
_GONE_S: Final = 2.0
"""How long to wait for shells that end: they have nothing left to do."""


@dataclass(eq=False)
class Shell:
    """One shell. Not thread-safe: `Shells` hands it to one caller at a time."""

    channel: paramiko.Channel
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    begun: bool = False

    @property
    def ended(self) -> bool:
        """Whether it is known to be gone."""
        return bool(self.channel.closed or self.channel.eof_received)

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a command. Raises TimeoutError when nothing comes back in time, EOFError or OSError
        when the connection is lost; the shell is of no use after any of them."""
        limit = ["timeout", "-k", "1", f"{timeout_s:g}"]
        end = f"printf '\\n%s %d\\n' {self.mark} $?; printf '\\n%s\\n' {self.mark} >&2"
        command = f"{shlex.join([*limit, *argv])} </dev/null; {end}\n"
        if not self.begun:
            self.begun, command = True, f"{_BEGIN}\n{command}"
        self.channel.settimeout(timeout_s + _LATE_S)
        self.channel.sendall(command.encode())
        return self._answer(time.monotonic() + timeout_s + _LATE_S)

    def _answer(self, deadline: float) -> Completed:
        output, errors = bytearray(), bytearray()
        last, error_last = f"\n{self.mark} ".encode(), f"\n{self.mark}\n".encode()
        while True:
            if errors.endswith(error_last) and (place := output.rfind(last)) >= 0:
                code = re.fullmatch(rb"(\d+)\n", bytes(output[place + len(last) :]))
                if code is not None:
                    text = bytes(output[:place]) + bytes(errors[: -len(error_last)])
                    return Completed(int(code[1]), text.decode(errors="replace"))
            self._receive(output, errors, deadline)

    def _receive(self, output: bytearray, errors: bytearray, deadline: float) -> None:
        channel = self.channel
        if not (channel.recv_ready() or channel.recv_stderr_ready()):
            if self.ended:
                raise EOFError("the shell on it has ended")
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([channel], [], [], left_s)[0]:
                raise TimeoutError
        if channel.recv_ready():
            output += channel.recv(1 << 16)
        if channel.recv_stderr_ready():
            errors += channel.recv_stderr(1 << 16)


@dataclass(eq=False)
class Shells:
    """Some shells of one kind on one host, made when they are needed. Thread-safe: as many callers
    as there may be shells go on at once, others wait."""

    connection: Connection
    command: str
    most: int
    _idle: list[Shell] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _free: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = threading.Semaphore(self.most)

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Run a command in one of the shells. Raises HarnessFailure when the host is lost.

        Where the connection was lost before, it is made again; a command under which it is lost is
        not run twice, as it may have had its effect.
        """
        with self._taken() as shells:
            shell = shells.pop() if shells else self._open()
            if shell.ended or not self.connection.alive:
                self.connection.close_channel(shell.channel)
                shell = self._open()
            try:
                done = shell.run(argv, timeout_s)
            except TimeoutError:
                self.connection.close_channel(shell.channel)
                return Completed(NO_ANSWER, f"no answer within {timeout_s:g} s")
            except TROUBLE as error:
                self.connection.close_channel(shell.channel)
                raise HarnessFailure(self.connection.lost(error)) from error
            shells.append(shell)
            return done

    def close(self) -> None:
        """End those that are idle, and wait until they are gone from the host."""
        with self._lock:
            idle, self._idle = self._idle, []
        for shell in idle:
            with suppress(*TROUBLE):
                shell.channel.shutdown_write()
        deadline = time.monotonic() + (_GONE_S if self.connection.alive else 0)
        for shell in idle:
            shell.channel.status_event.wait(max(0, deadline - time.monotonic()))
            self.connection.close_channel(shell.channel)

    @contextmanager
    def _taken(self) -> Iterator[list[Shell]]:
        """A list with an idle shell, or empty; the shell that it has at the end is idle again."""
        with self._free:
            with self._lock:
                taken = [self._idle.pop()] if self._idle else []
            try:
                yield taken
            finally:
                with self._lock:
                    self._idle += taken

    def _open(self) -> Shell:
        return Shell(self.connection.open_channel(self.command))

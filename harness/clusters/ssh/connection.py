"""One connection to a host: kept, shared by several channels at once, made again when it is lost.

Host keys are strict: a host whose key is not in the user's known_hosts is refused. TCP_NODELAY is
set because a command's request is several small packets: without it each waits for an
acknowledgement, 49 ms instead of 4. TCP_USER_TIMEOUT is set because paramiko's keepalive notices
no cut, so that a connection whose packets are dropped stays "active". OpenSSH allows 10 sessions a
connection by default (MaxSessions), and refuses the next one at once: at most 8 are open here.
"""

from __future__ import annotations

import logging
import queue
import re
import secrets
import select
import shlex
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import paramiko

from harness.clusters.ssh.inventory import Access
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.protocols import Completed

# Root shells that are kept on a host: a command costs one round trip, and not a channel, a login
# and a sudo (0.1 ms and the command's own time, where those take 13).
#
# A command is written to the shell's standard input; its output and its errors come on two streams,
# and both end with a mark that no command knows. Both are read at once, as a command whose errors
# fill a window would else wait for ever. Each command has a limit on the host (`timeout`), since
# closing a channel ends nothing there, and one here.

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


class Shells:
    """Some shells of one kind on one host, made when they are needed. Thread-safe: as many callers
    as there may be shells go on at once, others wait."""

    def __init__(self, connection: Connection, command: str, most: int) -> None:
        self.connection, self.command = connection, command
        self._places = queue.LifoQueue[Shell | None]()  # the one that was used last comes first
        for _ in range(most):
            self._places.put(None)

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Run a command in one of the shells. Raises HarnessFailure when the host is lost.

        Where the connection was lost before, it is made again; a command under which it is lost is
        not run twice, as it may have had its effect.
        """
        shell, idle = self._places.get(), None
        try:
            if shell is not None and (shell.ended or not self.connection.alive):
                self.connection.close_channel(shell.channel)
                shell = None
            shell = shell or Shell(self.connection.open_channel(self.command))
            try:
                done = shell.run(argv, timeout_s)
            except TimeoutError:
                self.connection.close_channel(shell.channel)
                return Completed(NO_ANSWER, f"no answer within {timeout_s:g} s")
            except TROUBLE as error:
                self.connection.close_channel(shell.channel)
                raise HarnessFailure(self.connection.lost(error)) from error
            idle = shell
            return done
        finally:
            self._places.put(idle)

    def close(self) -> None:
        """End those that are idle, and wait until they are gone from the host."""
        taken = list[Shell | None]()
        with suppress(queue.Empty):
            while True:
                taken.append(self._places.get_nowait())
        idle = [shell for shell in taken if shell is not None]
        for _ in taken:
            self._places.put(None)
        for shell in idle:
            with suppress(*TROUBLE):
                shell.channel.shutdown_write()
        deadline = time.monotonic() + (_GONE_S if self.connection.alive else 0)
        for shell in idle:
            shell.channel.status_event.wait(max(0, deadline - time.monotonic()))
            self.connection.close_channel(shell.channel)


MOST_CHANNELS: Final = 8
CONNECT_S: Final = 10.0
NO_ANSWER_S: Final = 10.0
"""After this time without an acknowledgement of what was sent, a connection is lost."""
_TRIES: Final = 4
_WAIT_S: Final = 0.5
_TCP_USER_TIMEOUT: Final = 18  # linux/tcp.h; socket has the name only on some builds

TROUBLE: Final = (paramiko.SSHException, OSError, EOFError)
"""What paramiko raises for a connection that fails, one way or another."""

logging.getLogger("paramiko").setLevel(logging.CRITICAL)


@dataclass(eq=False)
class Connection:
    """The connection to one host. Thread-safe. One to a jump host is shared by the hosts behind it,
    and closed with the last of theirs."""

    name: str
    access: Access
    jump: Connection | None = None
    _client: paramiko.SSHClient | None = None
    _given_up: str | None = None
    _behind: set[Connection] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _channels: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(MOST_CHANNELS)
    )

    @property
    def where(self) -> str:
        """The host's name and address, as messages show them."""
        return f"{self.name} ({self.access.place})"

    def connect(self) -> None:
        """Connect unless it is connected. Raises EnvironmentFailure that says what is wrong."""
        with self._lock:
            if self._given_up is not None:
                raise EnvironmentFailure(self.lost(self._given_up))
            if self.alive:
                return
            self._drop()
            for left in reversed(range(_TRIES)):
                try:
                    self._client = self._connected()
                except (paramiko.SSHException, EOFError, ConnectionResetError) as error:
                    # sshd drops connections at random while many begin at once (MaxStartups)
                    if (left and "banner" in str(error)) or isinstance(error, ConnectionResetError):
                        time.sleep(_WAIT_S)
                        continue
                    raise self._failure(error) from error
                except OSError as error:
                    raise self._failure(error) from error
                return
            raise self._failure(ConnectionResetError("it closes every connection"))

    @property
    def alive(self) -> bool:
        """Whether it is connected, as far as is known."""
        transport = self._client.get_transport() if self._client is not None else None
        return transport is not None and transport.is_active()

    def close(self) -> None:
        """Close it; it is made again when it is needed."""
        with self._lock:
            self._drop()

    def give_up(self, why: str) -> None:
        """Close it for good: any later use of it fails at once."""
        self._given_up = why
        self.close()

    @contextmanager
    def channel(self, command: str) -> Iterator[paramiko.Channel]:
        """A channel on which a command runs, closed at the end; waits until one is free."""
        channel = self.open_channel(command)
        try:
            yield channel
        finally:
            self.close_channel(channel)

    def open_channel(self, command: str) -> paramiko.Channel:
        """A channel with a command, to be closed by `close_channel`. Raises HarnessFailure."""
        self._channels.acquire()
        try:
            channel = self._session()
            channel.exec_command(command)
        except AcklossError as error:
            self._channels.release()
            raise HarnessFailure(str(error)) from error
        except TROUBLE as error:
            self._channels.release()
            raise HarnessFailure(self.lost(error)) from error
        return channel

    def close_channel(self, channel: paramiko.Channel) -> None:
        """Close a channel of `open_channel`, once."""
        with suppress(*TROUBLE):
            channel.close()
        self._channels.release()

    def lost(self, error: BaseException | str) -> str:
        """That the host does not answer any more, as a sentence."""
        return f"{self.where} does not answer: {_in_words(error)}"

    def _session(self) -> paramiko.Channel:
        """A new session, on a new connection where the last one is lost."""
        for left in (True, False):
            self.connect()
            transport = self._client.get_transport() if self._client is not None else None
            try:
                if transport is None:
                    raise EOFError("it was closed")
                return transport.open_session(timeout=CONNECT_S)
            except TROUBLE:
                if not left:
                    raise
                self.close()
        raise AssertionError("the last try returns or raises")

    def _connected(self) -> paramiko.SSHClient:
        access = self.access
        client = paramiko.SSHClient()
        if access.known_hosts.exists():
            client.load_host_keys(str(access.known_hosts))
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        try:
            client.connect(
                access.address,
                port=access.port,
                username=access.user,
                pkey=self._key(),
                allow_agent=access.agent or access.key is None,
                look_for_keys=access.key is None,
                sock=self._socket(),
                timeout=CONNECT_S,
                banner_timeout=CONNECT_S,
                auth_timeout=CONNECT_S,
                channel_timeout=CONNECT_S,
            )
        except BaseException:
            client.close()
            raise
        return client

    def _key(self) -> paramiko.PKey | None:
        """The private key of the inventory. Raises EnvironmentFailure."""
        path = self.access.key
        if path is None:
            return None
        try:
            return paramiko.PKey.from_path(str(path))
        except TypeError as error:
            raise EnvironmentFailure(
                f"the key for {self.where} has a passphrase",
                file=str(path),
                hint="add it to the SSH agent, set agent = true and leave out `key`",
            ) from error
        except (OSError, ValueError, paramiko.SSHException) as error:
            raise EnvironmentFailure(
                f"the key for {self.where} cannot be read: {_in_words(error)}",
                file=str(path),
                hint="name the private key, in the form that ssh-keygen writes",
            ) from error

    def _socket(self) -> socket.socket | paramiko.Channel:
        """The way to the host's SSH server: of our own, or through the jump host's connection."""
        if self.jump is not None:
            transport = self.jump._leading_to(self)
            there, here = (self.access.address, self.access.port), ("127.0.0.1", 0)
            try:
                return transport.open_channel("direct-tcpip", there, here, timeout=CONNECT_S)
            except paramiko.ChannelException as error:
                raise ConnectionError(f"{self.jump.where} says {error.text!r}") from error
        made = socket.create_connection((self.access.address, self.access.port), timeout=CONNECT_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, int(NO_ANSWER_S * 1000))
        return made

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(*TROUBLE):
                client.close()
        if self.jump is not None:
            self.jump._no_more(self)

    def _leading_to(self, behind: Connection) -> paramiko.Transport:
        """This connection as the way to one behind it."""
        with self._lock:
            self._behind.add(behind)
            self.connect()
            transport = self._client.get_transport() if self._client else None
        if transport is None:
            raise EOFError(f"{self.where} closed the connection")
        return transport

    def _no_more(self, behind: Connection) -> None:
        with self._lock:
            if behind in self._behind:
                self._behind.remove(behind)
                if not self._behind:
                    self._drop()

    def _failure(self, error: BaseException) -> EnvironmentFailure:
        access, where = self.access, self.where
        known = str(access.known_hosts)
        entry = access.address if access.port == 22 else f"[{access.address}]:{access.port}"
        if isinstance(error, paramiko.BadHostKeyException):
            return EnvironmentFailure(
                f"{where} has another host key than the one that is known",
                file=known,
                hint=f"if it was installed again, remove the old key: ssh-keygen -R '{entry}'",
            )
        if "not found in known_hosts" in str(error):
            return EnvironmentFailure(
                f"the host key of {where} is not known",
                file=known,
                hint=f"check it and add it: ssh-keyscan -p {access.port} {access.address}",
            )
        if isinstance(error, paramiko.AuthenticationException):
            key = str(access.key) if access.key is not None else None
            return EnvironmentFailure(
                f"{where} does not let the user {access.user} in",
                file=key,
                hint="its public key has to be in that user's authorized_keys",
            )
        return EnvironmentFailure(
            f"{where} does not answer: {_in_words(error)}", hint="is its SSH server reachable?"
        )


def _in_words(error: BaseException | str) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_S:g} s"
    text = getattr(error, "strerror", None) or str(error)
    return str(text) or type(error).__name__

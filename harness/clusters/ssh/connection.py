"""One connection to a host: kept, shared by several channels at once, made again when it is lost.

Host keys are strict: a host whose key is not in the user's known_hosts is refused. TCP_NODELAY is
set because a command's request is several small packets: without it each waits for an
acknowledgement, 49 ms instead of 4. TCP_USER_TIMEOUT is set because paramiko's keepalive notices
no cut, so that a connection whose packets are dropped stays "active". OpenSSH allows 10 sessions a
connection by default (MaxSessions), and refuses the next one at once: at most 8 are open here.
"""

from __future__ import annotations

import logging
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
        """A channel on which a command runs, to be closed by `close_channel`. Raises
        HarnessFailure."""
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

    def upload(self, source: object, path: str, *, size_bytes: int) -> None:
        """Write what a binary file holds to a path on the host, as the user who logs in."""
        with self._channels:
            try:
                self.connect()
                assert self._client is not None
                with self._client.open_sftp() as sftp:
                    if (channel := sftp.get_channel()) is not None:
                        channel.settimeout(60)
                    sftp.putfo(source, path, file_size=size_bytes, confirm=True)  # type: ignore[arg-type]
            except TROUBLE as error:
                raise EnvironmentFailure(
                    f"{self.where}: a file cannot be written: {error}",
                    file=path,
                    hint="`ackloss doctor --inventory` shows the room on its disk",
                ) from error

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
        """What is wrong, as one sentence."""
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


def connected(connections: Sequence[Connection]) -> None:
    """Connect to all, side by side. Raises the first failure."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=12) as pool:
        list(pool.map(lambda each: each.connect(), connections))


def _in_words(error: BaseException | str) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_S:g} s"
    text = getattr(error, "strerror", None) or str(error)
    return str(text) or type(error).__name__

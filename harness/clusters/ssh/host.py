"""A host: commands on it as root, files, and what of a run is on it."""

from __future__ import annotations

import io
import shlex
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import PurePosixPath
from typing import IO, BinaryIO, Final, Literal, NamedTuple, TypeVar, cast

import paramiko

from harness.clusters.ssh import scripts
from harness.clusters.ssh.connection import TROUBLE, Connection, Shells
from harness.clusters.ssh.inventory import HostEntry, Inventory
from harness.errors import EnvironmentFailure, HarnessFailure
from harness.machine.files import packed, unpacked
from harness.protocols import NODE_DATA, Completed, Node, OwnConnection, ProcessState

# Of 8 channels; the other four are the host's, the lease's, the one for files, and that for SFTP.
_IN_NODE: Final = 4
_SFTP_SERVER: Final = "/usr/lib/openssh/sftp-server"
_SFTP_S: Final = 5.0
_TRANSFER_S: Final = 60.0
_CHUNK_BYTES: Final = 1 << 20
_DOWN_S: Final = 60.0


class Found(NamedTuple):
    """A run of which something is on a host; `alive`: its lease continues."""

    run_id: str
    alive: bool


@dataclass(eq=False)
class Host:
    """One host of an inventory. Nothing is changed on it before `claim`."""

    entry: HostEntry
    connection: Connection
    shells: Shells = field(init=False)
    node_shells: Shells | None = None

    def __post_init__(self) -> None:
        self.shells = Shells(self.connection, self.as_root("sh"), most=1)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def where(self) -> str:
        """Its name and address, as messages show them."""
        return self.connection.where

    @cached_property
    def address(self) -> str:
        """The IPv4 address by which nodes and clients reach it. Raises EnvironmentFailure."""
        name = self.entry.cluster_address or self.entry.address
        try:
            return socket.gethostbyname(name)
        except OSError as error:
            raise EnvironmentFailure(
                f"{self.name}: the address of {name} is not known: {error.strerror}"
            ) from error

    def as_root(self, command: str) -> str:
        """A command line for root, of the user who logs in."""
        if self.entry.user == "root" or not self.entry.sudo:
            return command
        return f"sudo -n {command}"

    def admit(self) -> None:
        """Connect, and be root. Raises EnvironmentFailure that says what is wrong."""
        self.connection.connect()
        code, output, errors = self.execute("true")
        if code:
            raise EnvironmentFailure(
                f"{self.where}: {self.entry.user} may not become root by `sudo -n`: "
                f"{(errors or output).decode(errors='replace').strip()[:200]}",
                hint=f'"{self.entry.user} ALL=(ALL) NOPASSWD: ALL" in a file of /etc/sudoers.d',
            )
        if (numeric := self.admin(["id", "-u"]).output.strip()) != "0":
            raise EnvironmentFailure(
                f"{self.where}: {self.entry.user} is not root there (its id is {numeric})",
                hint="set sudo = true",
            )

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command as root, outside of any node."""
        return self.shells.run(argv, timeout_s=timeout_s)

    def must(self, done: Completed) -> str:
        """What a command has printed that must not fail. Raises HarnessFailure."""
        if done.exit_code:
            raise HarnessFailure(f"{self.where}: {done.output.strip()[:300]}")
        return done.output

    def script(self, verb: str, *words: str, timeout_s: float = 15) -> Completed:
        """Run a verb of `scripts.HOST`."""
        text = scripts.text(scripts.HOST)
        return self.admin(["sh", "-c", text, "host.sh", verb, *words], timeout_s=timeout_s)

    @cached_property
    def seen(self) -> OwnConnection:
        """How the host sees our connection. Raises HarnessFailure."""
        with self.connection.channel('echo "$SSH_CONNECTION"') as channel:
            words = read_all(channel, b"", limit_s=10)[1].decode(errors="replace").split()
        if len(words) != 4:
            raise HarnessFailure(f"{self.where}: its SSH server does not say where we come from")
        return OwnConnection(peer=words[0].removeprefix("::ffff:"), port=int(words[3]))

    def claim(self, run_id: str) -> None:
        """Have the host for this run. Raises EnvironmentFailure when another run has it."""
        done = self.script("claim", run_id, scripts.text(scripts.HOST))
        if done.exit_code == scripts.TAKEN:
            raise EnvironmentFailure(
                f"{self.where} is in use by the run {done.output.strip() or 'of another'}",
                hint="wait for its end; `ackloss clean --inventory` removes it if it is dead",
            )
        if done.exit_code:
            raise HarnessFailure(f"{self.where} cannot be prepared: {done.output.strip()[:300]}")

    def found(self) -> list[Found]:
        """The runs of which something is here. Raises HarnessFailure."""
        pairs = (line.split() for line in self.must(self.script("list")).splitlines())
        return [Found(run, state == "alive") for run, state in pairs]

    def down(self, run_id: str) -> list[str]:
        """Remove everything of a run, faults first; what was removed. Raises HarnessFailure."""
        if self.node_shells is not None:
            self.node_shells.close()
        output = self.must(self.script("down", run_id, timeout_s=_DOWN_S))
        return [f"{self.name}: {line}" for line in output.splitlines() if line]

    def enter(self, holder: int) -> None:
        """Use the namespaces of a process for the node's commands."""
        self.node_shells = Shells(self.connection, self._entered(holder, "sh"), most=_IN_NODE)
        self._holder = holder

    def _entered(self, holder: int, command: str) -> str:
        return self.as_root(f"nsenter -t {holder} -m -p -r {command}")

    def in_node(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Run a command as root in the node's namespaces. Raises HarnessFailure."""
        if self.node_shells is None:
            raise HarnessFailure(f"{self.where}: it has no node")
        return self.node_shells.run(argv, timeout_s=timeout_s)

    def execute(
        self, command: str, stdin: bytes | BinaryIO = b"", *, in_node: bool = False
    ) -> tuple[int, bytes, bytes]:
        """Run a command line as root: exit code, output, errors. Raises HarnessFailure."""
        whole = self._entered(self._holder, command) if in_node else self.as_root(command)
        with self.connection.channel(whole) as channel:
            try:
                return read_all(channel, stdin, limit_s=_TRANSFER_S)
            except TROUBLE as error:
                raise HarnessFailure(self.connection.lost(error)) from error

    def write(self, folder: str, archive: bytes, *, in_node: bool) -> None:
        """Unpack a tar archive below a folder. Raises HarnessFailure."""
        command = shlex.join(["tar", "-x", "--no-same-owner", "-C", folder, "-f", "-"])
        code, _, errors = self.execute(command, archive, in_node=in_node)
        if code:
            why = errors.decode(errors="replace").strip()[:300]
            raise HarnessFailure(f"{self.where}: files cannot be written to {folder}: {why}")

    @cached_property
    def sftp(self) -> paramiko.SFTPClient:
        """Reads files as the node sees them. Raises HarnessFailure, or what paramiko raises."""
        channel = self.connection.open_channel(self._entered(self._holder, _SFTP_SERVER))
        channel.settimeout(_SFTP_S)
        return paramiko.SFTPClient(channel)

    def close(self) -> None:
        """End its shells, and close the connection."""
        for shells in (self.node_shells, self.shells):
            if shells is not None:
                shells.close()
        self.connection.close()


def read_all(
    channel: paramiko.Channel, stdin: bytes | BinaryIO, *, limit_s: float
) -> tuple[int, bytes, bytes]:
    """Write to a command, then read both of its streams to their end: exit code, output, errors.
    Raises TimeoutError where nothing comes for so long, or what paramiko raises. What it writes
    about errors has to fit the channel's window."""
    channel.settimeout(limit_s)
    with suppress(OSError):  # it has ended without reading all: its errors say why
        source = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        while chunk := source.read(_CHUNK_BYTES):
            channel.sendall(chunk)
        channel.shutdown_write()
    output = channel.makefile("rb").read()
    errors = channel.makefile_stderr("rb").read()
    if (code := channel.recv_exit_status()) < 0:
        raise EOFError("it ended without an exit code")
    return code, output, errors


def hosts_of(inventory: Inventory) -> list[Host]:
    """The hosts of an inventory; one connection to each, and to each jump host, not yet made."""
    jumps = {
        name: Connection(f"jump host {name.partition('@')[2] or name}", access)
        for name, access in inventory.jumps.items()
    }
    return [
        Host(entry, Connection(entry.name, entry, jumps[entry.jump] if entry.jump else None))
        for entry in inventory.hosts
    ]


_AT_ONCE: Final = 12
T = TypeVar("T")
Thing = TypeVar("Thing")


def side_by_side(call: Callable[[Thing], T], things: Iterable[Thing]) -> list[T]:
    """Call for all of them at once; waits for all, then raises the first failure."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        calls = [pool.submit(call, thing) for thing in things]
    return [each.result() for each in calls]


_PROCESS: Final = ["sh", f"{scripts.CLAIM}/process.sh"]
_CONSOLE: Final = f"{scripts.CLAIM}/out/console"
_CONSOLE_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class RemotePath:
    """A file or folder of a node, read over SFTP as a `Path` is."""

    host: Host = field(repr=False)
    path: PurePosixPath

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.host, self.path.parent)

    @property
    def stem(self) -> str:
        return self.path.stem

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.host, self.path / name)

    def glob(self, pattern: str) -> list[RemotePath]:
        try:
            names = self.host.sftp.listdir(str(self.path))
        except FileNotFoundError:
            return []
        return [self / name for name in names if fnmatch(name, pattern)]

    def open(self, mode: Literal["rb"]) -> IO[bytes]:
        return cast("IO[bytes]", self.host.sftp.open(str(self.path), mode))


@dataclass(frozen=True)
class SshNode(Node):
    """One node: the namespaces of a run on one host."""

    name: str
    roles: frozenset[str]
    address: str
    host: Host = field(repr=False)

    @property
    def own_connection(self) -> OwnConnection:
        return self.host.seen

    @property
    def clients_address(self) -> str | None:
        """Where clients on this machine come from: where our own connection does, unless a jump
        host leads to it or the cluster has another address."""
        direct = self.host.entry.jump is None and self.host.entry.cluster_address is None
        return self.host.seen.peer if direct else None

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        return self.host.in_node(argv, timeout_s=timeout_s)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        """Run a command there with as few rights as the system's process has. Raises
        HarnessFailure when that is not running."""
        done = self.host.in_node([*_PROCESS, "beside", *argv], timeout_s=timeout_s)
        if done.exit_code == scripts.NOT_RUNNING:
            raise HarnessFailure(f"{self.name}: its process is not running")
        return done

    def put(self, files: Mapping[str, bytes]) -> None:
        self.host.write(NODE_DATA, packed(files), in_node=True)

    def get(self, name: str) -> dict[str, bytes]:
        """A file, or all files of a folder, by their names below that folder; empty when absent."""
        path = PurePosixPath(NODE_DATA, name)
        command = f"tar -c -C '{path.parent}' -f - '{path.name}'"
        code, archive, errors = self.host.execute(command, in_node=True)
        if b"No such file" in errors or b"Cannot stat" in errors:
            return {}
        if code > 1:  # 1: a file changed while it was read
            why = errors.decode(errors="replace").strip()[:300]
            raise HarnessFailure(f"{self.name}: {path} cannot be read: {why}")
        return {file.partition("/")[2] or file: content for file, content in unpacked(archive)}

    def here(self, name: str) -> RemotePath:
        return RemotePath(self.host, PurePosixPath(NODE_DATA, name))

    def start(self) -> None:
        self._start("its process", "start")

    def start_beside(self, argv: Sequence[str]) -> None:
        """Start a second process with the rights of the system's, which ends with the node."""
        self._start("the process beside the system's", "second", *argv)

    def _start(self, what: str, *words: str) -> None:
        done = self.host.in_node([*_PROCESS, *words], timeout_s=10)
        if done.exit_code:
            raise HarnessFailure(f"{self.name}: {what} did not start: {done.output.strip()}")

    def pid(self) -> int | None:
        words = self._state()
        return int(words[1]) if words[0] == "running" else None

    def process(self) -> ProcessState:
        """The state of the system's process; a host that was started again knows no exit code."""
        state, *words = self._state()
        if state == "running":
            return ProcessState(running=True, started_at=words[1])
        if state == "ended":
            code, *times = words
            started = times[0] if len(times) > 1 else None
            return ProcessState(
                running=False, exit_code=int(code), started_at=started, finished_at=times[-1]
            )
        return ProcessState(running=False)

    def console(self) -> bytes:
        """What the process has printed."""
        command = f"tail -c {_CONSOLE_BYTES} {_CONSOLE}"
        return self.host.execute(command, in_node=True)[1]

    def _state(self) -> list[str]:
        done = self.host.in_node([*_PROCESS, "state"], timeout_s=10)
        words = done.output.split()
        if done.exit_code or not words:
            why = done.output.strip()[:300] or f"exit code {done.exit_code}"
            raise HarnessFailure(f"{self.name}: the state of its process is not known: {why}")
        return words

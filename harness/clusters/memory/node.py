"""A simulated node: a process that can be paused, killed and started again, and its disk.

It satisfies `harness.protocols.Node`, but no command can be run on it: what commands do on real
nodes, the levers of `harness.clusters.memory.levers` do to it directly. A target installs a program
on it, which is made again whenever the process starts: volatile state is the program's own, what
outlives it lies on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

from harness.clusters.memory.simulation import Host, Network
from harness.errors import EnvironmentFailure
from harness.faults.records import CLIENTS
from harness.protocols import Completed, Node, ProcessState

# A simulated disk: files of records, of which only what was fsynced survives a loss of power.
#
# Files lie in folders below the node's data folder, by the same names as a real node's would
# (`data/log-0/records`), so that the patterns of the disk nemesis fit. A process that dies leaves
# everything it has written (the page cache survives), a machine that loses power only what it has
# fsynced.

RECORD_BYTES: Final = 32
"""What one record takes: every one the same."""


@dataclass
class File:
    """Records in the order in which they were appended; the first `synced` are safe."""

    records: list[Any] = field(default_factory=list)
    synced: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.records) * RECORD_BYTES

    def sync(self) -> None:
        """Make all of it safe."""
        self.synced = len(self.records)

    def cut(self, count: int) -> None:
        """Keep the first `count` records."""
        del self.records[count:]
        self.synced = min(self.synced, count)


@dataclass
class Disk:
    """The files of one node by path."""

    files: dict[str, File] = field(default_factory=dict)

    def open(self, path: str) -> File:
        """The file of that path, made when it is missing."""
        return self.files.setdefault(path, File())

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in self.files

    def below(self, folder: str) -> list[str]:
        """The files in a folder or below it."""
        return sorted(path for path in self.files if path.startswith(f"{folder}/"))

    def sizes(self) -> dict[str, int]:
        """Every file with its size."""
        return {path: file.size_bytes for path, file in sorted(self.files.items())}

    def wipe(self, folder: str) -> None:
        """Delete a folder."""
        for path in self.below(folder):
            del self.files[path]

    def lose_power(self, folder: str, keep_share: float) -> dict[str, int]:
        """Drop what was not fsynced in a folder, but for the first `keep_share` of it; how many
        records each file has lost."""
        lost = {}
        for path in self.below(folder):
            file = self.files[path]
            loose = len(file.records) - file.synced
            kept = file.synced + int(keep_share * loose)
            if kept < len(file.records):
                lost[path] = len(file.records) - kept
                file.cut(kept)
            file.sync()
        return lost

    def shorten(self, folder: str, cut_bytes: int) -> dict[str, int]:
        """Cut the last bytes off the longest file of a folder: a record that was cut is gone."""
        paths = [path for path in self.below(folder) if self.files[path].records]
        if not paths:
            return {}
        path = max(paths, key=lambda each: len(self.files[each].records))
        file = self.files[path]
        lost = min(len(file.records), -(-cut_bytes // RECORD_BYTES))
        file.cut(len(file.records) - lost)
        return {path: lost}


EXIT_CODES: Final = {"KILL": 137, "TERM": 143}


class Process(Protocol):
    """What a program does on a node, from one start to the next death."""

    def start(self) -> None:
        """Read the disk, begin to send and to wait."""

    def receive(self, source: str, message: Any) -> None:
        """A message has come from a host."""


Program = Callable[["MemoryNode"], Process]
"""Makes the process of a node, each time it starts."""


@dataclass(eq=False)
class MemoryNode(Node):
    """One simulated node. `stored` are the files that commands of the harness see (`put`, `get`);
    what the process itself stores lies on `disk`. `kept_dead_by` are the faults that ended the last
    life of its process; none while it runs."""

    host: Host
    network: Network
    roles: frozenset[str]
    address: str
    disk: Disk = field(default_factory=Disk)
    process_now: Process | None = None
    paused_by: list[str] = field(default_factory=list)
    kept_dead_by: list[str] = field(default_factory=list)
    damage: dict[str, list[str]] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    _program: Program | None = None
    _pid: int = 0
    _exit_code: int | None = None
    _started_ns: int = 0
    _ended_ns: int | None = None

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def starts(self) -> int:
        """How often its process was started, the present one included."""
        return self._pid

    def install(self, program: Program) -> None:
        """The program that runs here from the next start on."""
        self._program = program

    def send(self, target: str, message: Any) -> None:
        """Send a message from here to a host."""
        self.network.send(self.host, target, message)

    def start(self) -> None:
        if self.process_now is not None:
            return
        if self._program is None:
            raise EnvironmentFailure(f"{self.name}: no program is installed on this simulated node")
        self._pid += 1
        self._started_ns, self._exit_code, self._ended_ns = self.host.now_ns(), None, None
        self.kept_dead_by.clear()
        self.host.running = True
        self.process_now = process = self._program(self)
        self.host.receive = process.receive
        process.start()

    def kill(self, signal: str = "KILL") -> None:
        """End the process, paused or not; nothing when there is none."""
        if self.process_now is None:
            return
        self.host.die()
        self.process_now = None
        self.paused_by.clear()
        self._exit_code, self._ended_ns = EXIT_CODES[signal], self.host.now_ns()

    def pause(self, fault: str) -> None:
        """Stop the process where it is, on behalf of a fault."""
        if self.process_now is not None and fault not in self.paused_by:
            self.paused_by.append(fault)
            self.host.pause()

    def resume(self, fault: str) -> None:
        """Let it go on, unless another fault wants it stopped; nothing when this one does not."""
        if fault in self.paused_by:
            self.paused_by.remove(fault)
            if not self.paused_by:
                self.host.resume()

    def pid(self) -> int | None:
        """Which process of this node it is, from 1 on; None when none runs."""
        return self._pid if self.process_now is not None else None

    def process(self) -> ProcessState:
        return ProcessState(
            running=self.process_now is not None,
            exit_code=self._exit_code,
            started_at=_at(self._started_ns),
            finished_at=None if self._ended_ns is None else _at(self._ended_ns),
        )

    def answers(self) -> bool:
        """Whether the harness would get an answer now: it runs, is not paused, and no fault cuts
        it from where the clients and the harness are."""
        return (
            self.process_now is not None
            and not self.host.paused
            and self.network.cut(CLIENTS, self.name) is None
            and self.network.cut(self.name, CLIENTS) is None
        )

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Raises EnvironmentFailure: there is nothing on which a command could run."""
        self._no_commands(argv)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        """Raises EnvironmentFailure: there is nothing on which a command could run."""
        self._no_commands(argv)

    def put(self, files: Mapping[str, bytes]) -> None:
        self.stored.update(files)

    def get(self, name: str) -> dict[str, bytes]:
        """A file, or all files of a folder, that were put here."""
        if name in self.stored:
            return {name.rpartition("/")[2]: self.stored[name]}
        folder = f"{name}/"
        return {
            path.removeprefix(folder): content
            for path, content in self.stored.items()
            if path.startswith(folder)
        }

    def _no_commands(self, argv: Sequence[str]) -> NoReturn:
        raise EnvironmentFailure(
            f"{self.name} is simulated and runs no commands: {' '.join(argv)[:80]}",
            hint="use what cluster.kind = 'memory' offers, or another kind of cluster",
        )


def _at(time_ns: int) -> str:
    return f"{time_ns / 1e9:.6f} s"

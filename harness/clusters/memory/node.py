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

from harness.clusters.memory.disk import Disk
from harness.clusters.memory.network import Network
from harness.clusters.memory.simulation import Host
from harness.errors import EnvironmentFailure
from harness.faults.records import CLIENTS
from harness.protocols import Completed, Node, ProcessState

EXIT_CODES: Final = {"KILL": 137, "TERM": 143}


class Process(Protocol):
    """What a program does on a node, from one start to the next death."""

    def start(self) -> None:
        """Read the disk, begin to send and to wait."""
        ...

    def receive(self, source: str, message: Any) -> None:
        """A message has come from a host."""
        ...


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
        """Start the process; nothing when it runs."""
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
        """The state of the process; times are virtual."""
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
        """Keep files of the harness."""
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

"""A node on a host: everything that levers and targets do to it goes through here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from harness.clusters.ssh import scripts
from harness.clusters.ssh.host import Host
from harness.errors import HarnessFailure
from harness.machine.files import packed, unpacked
from harness.protocols import NODE_DATA, Completed, Node, OwnConnection, ProcessState

_PROCESS: Final = ["sh", f"{scripts.CLAIM}/process.sh"]
_CONSOLE: Final = f"{scripts.CLAIM}/out/console"
_CONSOLE_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class SshNode(Node):
    """One node: the namespaces of a run on one host."""

    name: str
    roles: frozenset[str]
    address: str
    host: Host = field(repr=False)

    @property
    def own_connection(self) -> OwnConnection:
        seen = self.host.seen
        return OwnConnection(peer=seen.peer, port=seen.port)

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

    def start(self) -> None:
        done = self.host.in_node([*_PROCESS, "start"], timeout_s=10)
        if done.exit_code:
            raise HarnessFailure(f"{self.name}: its process did not start: {done.output.strip()}")

    def start_beside(self, argv: Sequence[str]) -> None:
        """Start a second process with the rights of the system's, which ends with the node."""
        done = self.host.in_node([*_PROCESS, "second", *argv], timeout_s=10)
        if done.exit_code:
            raise HarnessFailure(
                f"{self.name}: the process beside the system's did not start: "
                f"{done.output.strip()[:300]}"
            )

    def pid(self) -> int | None:
        words = self._state()
        return int(words[1]) if words[0] == "running" else None

    def process(self) -> ProcessState:
        """The state of the system's process. A host that was started again does not know how it
        ended."""
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

"""One life of a consumer, as the harness holds it: a process of this machine, or a connection to a
JVM in a node of the cluster, which does what `Member.java` explains.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.levers.commands import poll_until
from harness.machine.client_processes import MARK
from harness.protocols import INFO, Node
from harness.protocols.groups import KINDS, Delivery, consumer_name
from targets.kafka.clients.java import Lost, connected
from targets.kafka.groups.loop import parsed

Take = Callable[[list[Delivery]], None]
"""Takes rows as they come, from a thread of the life's own."""


class Life(ABC):
    """A consumer from its start to its end. `leaving`: it was asked to leave; `stopped`: it has
    reported itself that it has ended."""

    def __init__(self, number: int, life: int, take: Take) -> None:
        self.number, self.life, self._take = number, life, take
        self.leaving = self.stopped = False

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it runs, stopped or not."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Whether the kernel says that its process is stopped."""

    @abstractmethod
    def send(self, number: signal.Signals) -> None:
        """Send its process a signal, if it is there; SIGTERM: have the consumer leave."""

    @abstractmethod
    def kill(self) -> None:
        """End its process at once, and wait until it has ended."""

    @abstractmethod
    def wait(self, deadline_s: float) -> None:
        """Wait until it has ended by itself, until a time of the monotonic clock; else kill it."""

    @abstractmethod
    def ending(self) -> str:
        """How it ended, where it has not reported so itself."""

    def hear(self, lines: Iterable[bytes]) -> None:
        """Make rows of its lines to their end, and one of its own where it was cut short."""
        for line in lines:
            if (report := parsed(line)) is not None:
                self.stopped = self.stopped or report.f == KINDS.stop
                self._take(list(report.rows(consumer_name(self.number), self.life)))
        if not self.stopped:
            error, now_ns = self.ending(), time.monotonic_ns()
            name = consumer_name(self.number)
            row = Delivery(KINDS.stop, now_ns, now_ns, INFO, consumer=name, life=self.life)
            self._take([row._replace(error=error)])


def is_stopped(stat: str) -> bool:
    """What a process's file `stat` says of its state."""
    words = stat.rpartition(")")[2].split()
    return bool(words) and words[0] in "Tt"


MODULES: Final[Mapping[str, str]] = {
    "librdkafka": "targets.kafka.groups.librdkafka",
    "kafka-python": "targets.kafka.groups.kafka_python",
}
_KILLED_S: Final = 5.0
_TAIL_BYTES: Final = 4000
_ROOT: Final = Path(__file__).parents[3]


class ConsumerProcess(Life):
    """A process that consumes; its lines become rows as they come, in its own thread."""

    def __init__(
        self,
        library: str,
        setup: Mapping[str, Any],
        *,
        run_id: str,
        number: int,
        life: int,
        take: Take,
    ) -> None:
        super().__init__(number, life, take)
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (it is open as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULES[library], json.dumps(setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, MARK: run_id, "PYTHONPATH": path},
        )
        self._thread = threading.Thread(target=self._read, name=f"consumer-{number}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def paused(self) -> bool:
        try:
            return is_stopped(Path(f"/proc/{self._process.pid}/stat").read_text())
        except OSError:
            return False

    def send(self, number: signal.Signals) -> None:
        self.leaving = self.leaving or number == signal.SIGTERM
        if self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait(_KILLED_S)
        self._thread.join(_KILLED_S)

    def wait(self, deadline_s: float) -> None:
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(_KILLED_S)

    def ending(self) -> str:
        self._process.wait()
        code = self._process.returncode
        return self._last_words(code) if code >= 0 else signal.Signals(-code).name

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.hear(self._process.stdout)
        self._process.wait()
        self._process.stdout.close()
        self._log.close()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _last_words(self, code: int) -> str:
        """How it ended by itself, with the last line that it wrote to stderr."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _TAIL_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"it ended with {code}" + (f": {lines[-1]}" if lines else "")


MEMBER_PORT: Final = 9096
START_S: Final = 60.0
"""How long its JVM may take until it listens: eight of them start while brokers do."""

_JVM_KILLED_S: Final = 10.0
_GONE_S: Final = 2.0
_SIGNALLED: Final = 128
_NAMES: Final = {signal.SIGSTOP: "STOP", signal.SIGCONT: "CONT", signal.SIGKILL: "KILL"}


class JavaMember(Life):
    """A consumer in a node; the JVM outlives it, but for a crash. `lost` is called, in a thread of
    its own, when it has ended without a request from here: its node was killed."""

    def __init__(
        self,
        node: Node,
        setup: Mapping[str, Any],
        *,
        number: int,
        life: int,
        take: Take,
        lost: Callable[[], None],
        port: int = MEMBER_PORT,
    ) -> None:
        super().__init__(number, life, take)
        self._node, self._lost, self._port = node, lost, port
        self._killed = False
        self._socket: socket.socket | None = None
        self._error = "its node was killed, or the connection to it was lost"
        node.start()
        name = f"consumer-{number}"
        self._thread = threading.Thread(target=self._live, args=[setup], name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def paused(self) -> bool:
        pid = self._node.pid()
        if pid is None:
            return False
        return is_stopped(self._node.admin(["cat", f"/proc/{pid}/stat"]).output)

    def send(self, number: signal.Signals) -> None:
        if number == signal.SIGTERM:
            self.leaving = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.sendall(b"leave\n")
        elif self.alive and (pid := self._node.pid()) is not None:
            self._killed = self._killed or number == signal.SIGKILL
            self._node.admin(["kill", f"-{_NAMES[number]}", str(pid)])

    def kill(self) -> None:
        self._killed = True

        def is_gone() -> bool:  # signalled again: what has just begun may not have its pid yet
            self.send(signal.SIGKILL)
            return not self._node.process().running

        poll_until(is_gone, within_s=_JVM_KILLED_S)
        self._end(_JVM_KILLED_S)

    def wait(self, deadline_s: float) -> None:
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        if self.alive:
            self.kill()

    def ending(self) -> str:
        """See `Life`; Docker says a moment later than the connection that a process has ended."""
        poll_until(lambda: not self._node.process().running, within_s=_GONE_S)
        code = self._node.process().exit_code
        if code is None:
            return self._error
        if code > _SIGNALLED:
            return signal.Signals(code - _SIGNALLED).name
        return f"it ended with {code}"

    def _end(self, within_s: float) -> None:
        """Wait until everything that it has written was read; where nothing comes any more, not."""
        self._thread.join(within_s)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(within_s)

    def _live(self, setup: Mapping[str, Any]) -> None:
        self.hear(self._said(setup))
        if not (self.leaving or self._killed or self.stopped):
            threading.Thread(target=self._lost, name="lost", daemon=True).start()

    def _said(self, setup: Mapping[str, Any]) -> Iterator[bytes]:
        try:
            at = (self._node.address, self._port)
            self._socket = connection = connected(at, time.monotonic() + START_S)
        except Lost as error:
            self._error = str(error)
            return
        with connection, suppress(OSError):  # killed, it may not have read what was sent to it
            connection.settimeout(None)
            connection.sendall(_lines(setup))
            if self.leaving:
                connection.sendall(b"leave\n")
            with connection.makefile("rb") as lines:
                yield from lines


def _lines(setup: Mapping[str, Any]) -> bytes:
    lines = [
        f"topic {setup['topic']}",
        f"commit {setup['commit']}",
        f"commit_partitions {setup['commit_partitions']}",
        f"process_ns {round(setup['process_ms'] * 1e6)}",
    ]
    if (own := setup["partitions"]) is not None:
        lines.append(f"partitions {','.join(map(str, own))}")
    settings = {**setup["settings"], "max.poll.records": setup["batch_count"]}
    lines += [f"set {key}={value}" for key, value in settings.items()]
    return "\n".join([*lines, "begin", ""]).encode()

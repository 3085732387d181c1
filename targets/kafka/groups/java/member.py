"""One life of a Java consumer: a connection to the JVM in its node, which does what `Member.java`
explains."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from harness.levers.commands import poll_until
from harness.protocols import Node
from targets.kafka.clients.java.lines import Lost, connected
from targets.kafka.groups.life import Life, Take, is_stopped

MEMBER_PORT: Final = 9096
START_S: Final = 60.0
"""How long its JVM may take until it listens: eight of them start while brokers do."""

_KILLED_S: Final = 10.0
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
        """See `Life`."""
        return self._thread.is_alive()

    @property
    def paused(self) -> bool:
        """See `Life`."""
        pid = self._node.pid()
        if pid is None:
            return False
        return is_stopped(self._node.admin(["cat", f"/proc/{pid}/stat"]).output)

    def send(self, number: signal.Signals) -> None:
        """See `Life`."""
        if number == signal.SIGTERM:
            self.leaving = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.sendall(b"leave\n")
        elif self.alive and (pid := self._node.pid()) is not None:
            self._killed = self._killed or number == signal.SIGKILL
            self._node.admin(["kill", f"-{_NAMES[number]}", str(pid)])

    def kill(self) -> None:
        """See `Life`."""
        self._killed = True
        poll_until(self._is_gone, within_s=_KILLED_S)
        self._end(_KILLED_S)

    def wait(self, deadline_s: float) -> None:
        """See `Life`."""
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

    def _is_gone(self) -> bool:
        """Signal again while it runs: what has just begun may not have written its own pid yet."""
        self.send(signal.SIGKILL)
        return not self._node.process().running

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
    """What it gets."""
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

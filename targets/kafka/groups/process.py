"""One life of a consumer: a process of the operating system, as the harness holds it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from harness.machine.client_processes import MARK
from harness.protocols import INFO
from harness.protocols.groups import KINDS, Delivery, consumer_name
from targets.kafka.groups.lines import parsed

MODULES: Final[Mapping[str, str]] = {
    "librdkafka": "targets.kafka.groups.librdkafka",
    "kafka-python": "targets.kafka.groups.python",
}
_KILLED_S: Final = 5.0
_TAIL_BYTES: Final = 4000
_ROOT: Final = Path(__file__).parents[3]


class ConsumerProcess:
    """A process that consumes; its lines become rows as they come, in a thread of its own."""

    def __init__(
        self,
        library: str,
        setup: Mapping[str, Any],
        *,
        run_id: str,
        number: int,
        life: int,
        take: Callable[[list[Delivery]], None],
    ) -> None:
        self.number, self.life, self._take = number, life, take
        self.leaving = False
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
        """Whether it runs, stopped or not."""
        return self._process.poll() is None

    @property
    def paused(self) -> bool:
        """Whether the kernel says that it is stopped."""
        try:
            state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        return state[0] in "Tt"

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        self.leaving = self.leaving or number == signal.SIGTERM
        if self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, and wait until it has ended."""
        self.send(signal.SIGKILL)
        self._process.wait(_KILLED_S)
        self._thread.join(_KILLED_S)

    def wait(self, deadline_s: float) -> None:
        """Wait until it has ended by itself, until a time of the monotonic clock; else kill it."""
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(_KILLED_S)

    def _read(self) -> None:
        name, ended = consumer_name(self.number), False
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (report := parsed(line)) is not None:
                ended = ended or report.f == KINDS.stop
                self._take(list(report.rows(name, self.life)))
        self._process.wait()
        if not ended:
            now_ns, code = time.monotonic_ns(), self._process.returncode
            error = self._last_words(code) if code >= 0 else signal.Signals(-code).name
            row = Delivery(KINDS.stop, now_ns, now_ns, INFO, consumer=name, life=self.life)
            self._take([row._replace(error=error)])
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

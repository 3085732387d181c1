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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from harness.machine.client_processes import MARK
from targets.kafka.groups.life import Life, Take, is_stopped

MODULES: Final[Mapping[str, str]] = {
    "librdkafka": "targets.kafka.groups.librdkafka",
    "kafka-python": "targets.kafka.groups.python",
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
        """See `Life`."""
        return self._process.poll() is None

    @property
    def paused(self) -> bool:
        """See `Life`."""
        try:
            return is_stopped(Path(f"/proc/{self._process.pid}/stat").read_text())
        except OSError:
            return False

    def send(self, number: signal.Signals) -> None:
        """See `Life`."""
        self.leaving = self.leaving or number == signal.SIGTERM
        if self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        """See `Life`."""
        self.send(signal.SIGKILL)
        self._process.wait(_KILLED_S)
        self._thread.join(_KILLED_S)

    def wait(self, deadline_s: float) -> None:
        """See `Life`."""
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(_KILLED_S)

    def ending(self) -> str:
        """See `Life`."""
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

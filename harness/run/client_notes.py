"""What the processes of `--client` do in a run, noted as it happens; any thread may add to it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from harness.protocols.clock import Clock
from harness.protocols.conduct import COUNTED, INCIDENTS, Conduct, Incident
from harness.run.client_lines import Ready

KEPT: Final = 100
"""How many incidents are kept with their sentences; all are counted."""

_FIELD: Final = dict(zip(INCIDENTS, COUNTED, strict=True))


class Notes:
    """What the processes of a run have done; all threads may add to it."""

    def __init__(self, clock: Clock, command: Sequence[str] = ()) -> None:
        self._clock, self._command = clock, tuple(command)
        self._zero_ns = clock.now_ns()
        self._lock = threading.Lock()
        self._counts = dict.fromkeys((*COUNTED, "started", "late", "ended"), 0)
        self._incidents: list[tuple[int, Incident]] = []
        self._software: dict[str, None] = {}

    def begin_at(self, zero_ns: int) -> None:
        """Times are counted from here on."""
        self._zero_ns = zero_ns

    def incident(self, client: int, kind: str, what: str) -> None:
        """Note one incident of a client."""
        now_ns = self._clock.now_ns()
        with self._lock:
            self._counts[_FIELD[kind]] += 1
            if len(self._incidents) < KEPT:
                incident = Incident(client=client, at_s=0.0, kind=kind, what=what)
                self._incidents.append((now_ns, incident))

    def count(self, name: str, number: int = 1) -> None:
        """Count `started`, `late` or `ended`."""
        with self._lock:
            self._counts[name] += number

    def runs(self, software: Ready) -> None:
        """Note what a process states about itself."""
        with self._lock:
            self._software[str(software)] = None

    @property
    def software(self) -> str:
        """What processes have stated about themselves."""
        return ", ".join(self._software)

    def conduct(self) -> Conduct:
        """All of it."""
        with self._lock:
            incidents = tuple(
                replace(each, at_s=round((at_ns - self._zero_ns) / 1e9, 3))
                for at_ns, each in self._incidents
            )
            return Conduct(
                command=self._command,
                software=self.software,
                incidents=incidents,
                **self._counts,
            )

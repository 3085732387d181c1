"""What the processors of this machine did: how much of it was ours."""

from __future__ import annotations

import resource
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Processors:
    """Seconds that the processors of this machine worked since it was made."""

    _machine_s: float = field(default_factory=lambda: _machine_s())
    _ours_s: float = field(default_factory=lambda: _ours_s())

    def split(self) -> tuple[float, float]:
        """Of this process and its children that have ended, and of everything else."""
        ours_s = _ours_s() - self._ours_s
        return ours_s, _machine_s() - self._machine_s - ours_s


def _machine_s() -> float:
    """Not idle, not waiting for a disk, not taken by a hypervisor (proc(5), the first line)."""
    user, nice, system, _, _, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / 100


def _ours_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)

"""Appends of unique integers: what is acknowledged must be read back once the cluster is fully
replicated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.models import LOG
from harness.models.appends import increasing
from harness.protocols import Script, Workload


@dataclass(frozen=True)
class Append(Workload):
    """Each process appends increasing integers, unique in the run, to every partition in turn."""

    plugin: ClassVar[str] = "append"
    model: ClassVar[str] = LOG.name

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """See `increasing`."""
        del seed  # nothing is drawn
        return increasing(process, processes, partitions)

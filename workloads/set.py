"""A set that grows: every element that was added must be in every later read."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from harness.models import SET
from harness.protocols import OK, Script, Workload, invoke

_TRIES: Final = 10
"""How often a process tries its final read, until one is ok."""


@dataclass(frozen=True, kw_only=True)
class Set(Workload):
    """Each process adds increasing integers, unique in the run, to one set, and reads all of it now
    and then; at the end each reads it once more.

    read_share  reads on the way
    """

    plugin: ClassVar[str] = "set"
    model: ClassVar[str] = SET.name

    read_share: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P adds p, p + P, p + 2 P ..."""
        draw = random.Random(f"{seed}/set/{process}")
        value = process
        while True:
            if draw.random() < self.read_share:
                yield invoke("read")
            else:
                yield invoke("add", value)
                value += processes

    def final(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """A read of everything; again where it is not ok, a few times."""
        for _ in range(_TRIES):
            if (yield invoke("read"))[0] == OK:
                return

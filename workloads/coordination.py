"""What systems that coordinate others offer: locks that end with the session of their holder,
numbers handed out once each and in order, and keys whose watchers are notified of each change."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from harness.models import LOCK, SEQUENCE, WATCH
from harness.protocols import OK, Script, Workload, invoke

Count = Annotated[int, Field(ge=1, le=100_000)]


@dataclass(frozen=True, kw_only=True)
class Locks(Workload):
    """Each process acquires one of the locks, checks a few times whether it still holds it, and
    releases it; also where it cannot know whether it holds it.

    keys_count      locks; with fewer, more processes meet at each
    confirms_count  how often a holder checks whether it still holds the lock
    """

    plugin: ClassVar[str] = "locks"
    model: ClassVar[str] = LOCK.name

    keys_count: Count = 2
    confirms_count: Annotated[int, Field(ge=1, le=1_000_000)] = 20

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P stores p, p + P, p + 2 P ... in the locks that it takes."""
        draw = random.Random(f"{seed}/locks/{process}")
        value = process
        while True:
            key = f"k{draw.randrange(self.keys_count)}"
            taken = yield invoke("acquire", value, key=key)
            value += processes
            if taken[0] == "fail":
                continue
            held = taken[0] == OK
            for _ in range(self.confirms_count if held else 0):
                type_, *_, result = yield invoke("confirm", key=key)
                if type_ != OK or not result:
                    break
            yield invoke("release", value, key=key)
            value += processes


@dataclass(frozen=True)
class Sequence(Workload):
    """Each process requests the next number, again and again."""

    plugin: ClassVar[str] = "sequence"
    model: ClassVar[str] = SEQUENCE.name

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P stores p, p + P, p + 2 P ... under the numbers that it gets."""
        value = process
        while True:
            yield invoke("next", value)
            value += processes


@dataclass(frozen=True, kw_only=True)
class Watches(Workload):
    """Each process writes keys, and watches keys: it reads one and asks to be notified of its next
    change. Every value that it writes is unique in the run.

    keys_count   keys
    write_share  writes; all other operations are watches
    """

    plugin: ClassVar[str] = "watches"
    model: ClassVar[str] = WATCH.name

    keys_count: Count = 3
    write_share: Annotated[float, Field(gt=0, lt=1)] = 0.3

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P writes p, p + P, p + 2 P ..."""
        draw = random.Random(f"{seed}/watches/{process}")
        value = process
        while True:
            key = f"k{draw.randrange(self.keys_count)}"
            if draw.random() < self.write_share:
                yield invoke("write", value, key=key)
                value += processes
            else:
                yield invoke("watch", key=key)

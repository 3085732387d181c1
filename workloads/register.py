"""Registers that are read, written, and compared and set: what is read must have been the value."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from harness.models import REGISTER
from harness.protocols import OK, Completion, Invoke, Script, Workload, invoke

Share = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True, kw_only=True)
class Register(Workload):
    """Each process reads, writes and compares-and-sets registers, drawn from the seed; every value
    that it writes is unique in the run.

    keys_count   registers; with fewer, more processes meet on each
    read_share   reads
    cas_share    compare-and-sets, expecting the value that the process saw last; all others write
    """

    plugin: ClassVar[str] = "register"
    model: ClassVar[str] = REGISTER.name

    keys_count: Annotated[int, Field(ge=1, le=100_000)] = 5
    read_share: Share = 0.5
    cas_share: Share = 0.2

    def __post_init__(self) -> None:
        if self.read_share + self.cas_share >= 1:
            raise ValueError("read_share and cas_share leave nothing for writes; make them smaller")

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """Process p of P writes p, p + P, p + 2 P ..., each value once."""
        draw = random.Random(f"{seed}/register/{process}")
        value, seen = process, dict[str, int]()
        while True:
            op = self._drawn(draw, value, seen)
            value += processes if op[0] != "read" else 0
            _note(seen, op, (yield op))

    def _drawn(self, draw: random.Random, value: int, seen: dict[str, int]) -> Invoke:
        """The next operation; while this process has seen no value, a read in place of a
        compare-and-set."""
        chosen, key = draw.random(), f"k{draw.randrange(self.keys_count)}"
        if chosen < self.read_share:
            return invoke("read", key=key)
        if chosen >= self.read_share + self.cas_share:
            return invoke("write", value, key=key)
        if not seen:
            return invoke("read", key=key)
        key, expected = next(reversed(seen.items()))
        return invoke("cas", value, key=key, expected=expected)


def _note(seen: dict[str, int], op: Invoke, completion: Completion) -> None:
    """Remember the value of the key that was seen last, and no longer one that was refuted."""
    f, value, _, key, _ = op
    ended, *_, result = completion
    assert key is not None
    now = result if f == "read" else value
    seen.pop(key, None)
    if ended == OK and isinstance(now, int):
        seen[key] = now

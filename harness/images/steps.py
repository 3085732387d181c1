"""Telling a person what takes long: each step is named before it begins and timed when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]
"""Shows one line to a person; called from any thread."""


def quietly(line: str) -> None:
    """Shows nothing."""


@contextmanager
def step(say: Say, what: str) -> Iterator[None]:
    """One step: named before it begins, timed when it is done. A failure is told by its raiser."""
    say(f"{what} ...")
    begun_s = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - begun_s:.1f} s")

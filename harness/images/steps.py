"""Progress messages for long steps: each is named before it begins and timed when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]
"""Shows one line to the user; called from any thread."""


def quietly(line: str) -> None:
    """Shows nothing."""


@contextmanager
def step(say: Say, what: str) -> Iterator[None]:
    """Report a step before it begins and when it is done. The caller reports a failure."""
    say(f"{what} ...")
    begun_s = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - begun_s:.1f} s")

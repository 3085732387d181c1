"""Polling the world until something holds."""

from __future__ import annotations

import time
from collections.abc import Callable


def poll_until(holds: Callable[[], bool], *, within_s: float, every_s: float = 0.05) -> bool:
    """Poll until something holds; False when it did not within the time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True

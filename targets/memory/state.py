"""What the controller decides, as all other processes learn it."""

from __future__ import annotations

from typing import NamedTuple


class State(NamedTuple):
    """Who leads a partition in an epoch, and who is in sync; every change has a higher version. No
    leader: None."""

    epoch: int
    leader: str | None
    isr: tuple[str, ...]
    version: int

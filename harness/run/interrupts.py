"""Ctrl-C and its kin: stop soon, undo everything, whatever is pressed meanwhile.

A signal sets `stop`. Only inside `raising()`, where the interrupted code has nothing to undo by
itself, does it also raise; clean-up never runs there, so a second Ctrl-C cannot skip it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from harness.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Handles signals while it is entered; only the main thread may enter it."""

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self.stop = threading.Event()
        self._say = say
        self._raising = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, _: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.stop.is_set():
            self._say(f"{name}: still undoing what was begun, this takes a few seconds")
            return
        self.stop.set()
        self._say(f"{name}: stopping, and undoing what was begun")
        if self._raising:
            raise Interrupted(f"interrupted by {name}")

    @contextmanager
    def raising(self) -> Iterator[None]:
        """A region in which a signal raises Interrupted at once."""
        self._raising = True
        try:
            if self.stop.is_set():
                raise Interrupted("interrupted")
            yield
        finally:
            self._raising = False

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self.stop.is_set():
            raise Interrupted("interrupted")

"""What ends a run early: Ctrl-C and similar signals, or a lost cluster. Stop soon and undo
everything, whatever is pressed meanwhile.

A signal sets `stop`. Only inside `raising()`, where the interrupted code has nothing to undo by
itself, and inside `repeatable()`, does it also raise; cleanup never runs there, so a second Ctrl-C
cannot skip it. What it can end is a wait for the operator (`at_second`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from harness.errors import HarnessFailure, Interrupted
from harness.history.run_folder import RunDir
from harness.interruption import Interruption
from harness.protocols import RunCluster

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Handles signals while it is entered; only the main thread may enter it."""

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self.stop = threading.Event()
        self._say = say
        self._raising = self._signalled = False
        self._repeatable: Interruption | None = None
        self._before: dict[int, object] = {}
        self._at_second: Callable[[], None] = lambda: None

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        self._signalled = True
        if self._repeatable is not None:
            self.stop.set()
            self._repeatable.interrupt(frame)
            return
        if self.stop.is_set():
            self._say(f"{name}: still undoing what was begun, this takes a few seconds")
            self._at_second()
            return
        self.stop.set()
        self._say(f"{name}: stopping, and undoing what was begun")
        if self._raising:
            raise Interrupted(f"interrupted by {name}")

    def at_second(self, act: Callable[[], None]) -> None:
        """Call this at each signal after the first: in the main thread, between any two steps of
        it, so it may take no lock."""
        self._at_second = act

    @contextmanager
    def raising(self) -> Iterator[None]:
        """A region in which a signal raises Interrupted at once."""
        self._raising = True
        try:
            self.check()
            yield
        finally:
            self._raising = False

    @contextmanager
    def repeatable(self, rundir: RunDir) -> Iterator[None]:
        """A region in which a signal ends at once what is done with a run that is complete: it is
        checked, or its page is written. Raises Interrupted also where the code inside has lost the
        interrupt or made another error of it."""
        try:
            self.check()
            self._repeatable = Interruption()
            yield
            self.check()
        except BaseException as error:
            if not self.stop.is_set():
                raise
            checked = rundir.result.exists()
            verb, does = ("report", "writes its page") if checked else ("check", "judges it")
            raise Interrupted(
                "interrupted, but the run is complete",
                hint=f"`ackloss {verb} {rundir.path}` {does}",
            ) from error
        finally:
            self._repeatable = None

    @contextmanager
    def unless_lost(self, cluster: RunCluster) -> Iterator[None]:
        """A run, which stops when a host of its cluster is lost: raises HarnessFailure at its end.
        Later runs are not stopped by that."""
        lost: list[str] = []

        def stop(why: str) -> None:
            lost.append(why)
            self.stop.set()

        cluster.when_lost(stop)
        try:
            yield
        finally:
            cluster.when_lost(lambda _: None)
            if lost and not self._signalled:
                self.stop.clear()
        if lost:
            raise HarnessFailure(lost[0])

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self.stop.is_set():
            raise Interrupted("interrupted")

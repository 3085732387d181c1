"""The live view of a run: a status table at a terminal, otherwise plain lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.cli.output import Output, plain
from harness.plan import Plan
from harness.protocols import Situation
from harness.run.recorder import Live as Load
from harness.run.runner import Status

_LINE_EVERY_S = 5.0


@contextmanager
def watching(
    out: Output, plan: Plan, status: Status, *, operations: str = "writes"
) -> Iterator[None]:
    """Show the status of a run until it ends; `operations`: what its operations are called."""
    view = _View(out, plan, status, operations)
    if out.quiet:
        yield
    elif out.console.is_terminal:
        with Live(get_renderable=view.table, console=out.console, refresh_per_second=4):
            yield
    else:
        status.on_phase = lambda phase: out.progress(f"[{view.elapsed_s():5.1f} s] {phase}")
        with view.lines():
            yield


@dataclass
class _View:
    out: Output
    plan: Plan
    status: Status
    operations: str
    begun_s: float = field(default_factory=time.monotonic)

    def elapsed_s(self) -> float:
        return time.monotonic() - self.begun_s

    def table(self) -> Table:
        """The live table: phase, load, faults, leaders."""
        grid = Table.grid(padding=(0, 2))
        phase = f"{self.status.phase}  {self.elapsed_s():.0f} s"
        grid.add_row(Text("phase", style="dim"), Text(plain(phase)))
        if (load := self._load()) is not None:
            grid.add_row(Text(self.operations, style="dim"), load)
            grid.add_row(Text("fault", style="dim"), Text(plain(self._faults()), style="bold red"))
            if leaders := self._leaders():
                grid.add_row(Text("leader", style="dim"), Text(plain(leaders)))
        return grid

    @contextmanager
    def lines(self) -> Iterator[None]:
        """A line every few seconds while operations run."""
        stop = threading.Event()

        def report() -> None:
            while not stop.wait(_LINE_EVERY_S):
                if self.status.phase == "running" and (load := self._load()) is not None:
                    parts = [load, f"fault: {self._faults()}", self._leaders()]
                    line = "; ".join(part for part in parts if part)
                    self.out.progress(f"[{self.elapsed_s():5.1f} s] {line}")

        thread = threading.Thread(target=report, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _load(self) -> str | None:
        if not self.status.recorders:
            return None
        live = Load.of_all(recorder.live() for recorder in self.status.recorders)
        ok = "acknowledged" if self.operations == "writes" else "ok"
        return (
            f"{live.attempted:,} attempted ({live.per_s:,.0f}/s), {live.ok:,} {ok}, "
            f"{live.fail:,} failed, {live.info:,} unknown"
        )

    def _faults(self) -> str:
        faults = self.status.faults
        return ", ".join(list(faults.active)) if faults and faults.active else "none"

    def _leaders(self) -> str | None:
        """Who leads; `None` for a system that cannot be queried."""
        observer = self.status.observer
        return _in_words(observer.situation()) if observer and observer.observes else None


def _in_words(situation: Situation) -> str:
    """Leader and in-sync members of the first partitions, and the controller."""
    views = list(situation.partitions.values())
    parts = [
        f"p{v.partition}: {v.leader or 'none'} in sync {{{','.join(v.members)}}}" for v in views[:4]
    ]
    if len(views) > 4:
        parts.append(f"and {len(views) - 4} more")
    return "; ".join([*parts, f"controller {situation.controller or 'unknown'}"])

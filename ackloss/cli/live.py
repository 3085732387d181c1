"""The live view of a run: a bar with the time that is left and a status table at a terminal,
otherwise plain lines."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.columns import Columns
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ackloss.cli.output import Output, plain
from harness.plan import Plan
from harness.protocols import Situation
from harness.run.recorder import Live as Load
from harness.run.runner import Status

_LINE_EVERY_S = 5.0


@contextmanager
def watching(
    out: Output,
    plan: Plan,
    status: Status,
    *,
    operations: str = "writes",
    takes_s: float | None = None,
) -> Iterator[None]:
    """Show the status of a run until it ends; `operations`: what its operations are called;
    `takes_s`: about how long it takes, unless its time is simulated."""
    view = _View(out, plan, status, operations, takes_s)
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
    takes_s: float | None = None
    begun_s: float = field(default_factory=time.monotonic)
    _load_ended_s: float | None = None

    def elapsed_s(self) -> float:
        return time.monotonic() - self.begun_s

    def left_s(self) -> float | None:
        """About how long it still takes: the load's own time is known, and half of the rest is
        taken to come after it."""
        if self.takes_s is None:
            return None
        load_s, elapsed_s = self.plan.workload.duration_s, self.elapsed_s()
        after_s = max(0.0, self.takes_s - load_s) / 2
        if self.status.clock is None:
            return max(self.takes_s - elapsed_s, load_s + after_s)
        if self.status.phase == "running":
            return max(0.0, load_s - self.status.clock.now_ns() / 1e9) + after_s
        if self._load_ended_s is None:
            self._load_ended_s = elapsed_s
        return max(0.0, after_s - (elapsed_s - self._load_ended_s))

    def next_fault(self) -> str | None:
        """The step that begins next, and when."""
        step = self.status.schedule.next if self.status.schedule is not None else None
        if step is None:
            return None
        what = f"{step.nemesis} {step.nodes}" if step.nemesis else "heal"
        if step.at_s is None or self.status.clock is None:
            waits = f"when {step.when!r} holds" if step.when else f"{step.after_s:g} s later"
            return f"{step.id} ({what}) {waits}"
        in_s = max(0.0, step.at_s + step.after_s - self.status.clock.now_ns() / 1e9)
        return f"{step.id} ({what}) in {in_s:.0f} s"

    def table(self) -> Table:
        """The live table: time left, phase, load, faults, leaders."""
        grid = Table.grid(padding=(0, 2))
        if (left_s := self.left_s()) is not None:
            done = self.elapsed_s() / (self.elapsed_s() + left_s) if left_s else 1.0
            bar = ProgressBar(total=1, completed=done, width=40)
            left = Text(f"about {math.ceil(left_s)} s left")
            grid.add_row(Text("run", style="dim"), Columns([bar, left]))
        phase = f"{self.status.phase}  {self.elapsed_s():.0f} s"
        grid.add_row(Text("phase", style="dim"), Text(plain(phase)))
        if (load := self._load()) is not None:
            grid.add_row(Text(self.operations, style="dim"), load)
            grid.add_row(Text("fault", style="dim"), Text(plain(self._faults()), style="bold red"))
            if following := self.next_fault():
                grid.add_row(Text("next", style="dim"), Text(plain(following)))
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
                    following, left_s = self.next_fault(), self.left_s()
                    parts = [load, f"fault: {self._faults()}", self._leaders()]
                    parts += [f"next: {following}" if following else None]
                    parts += [None if left_s is None else f"about {math.ceil(left_s)} s left"]
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
    """Leader and in-sync members of the first partitions, and the controller, if there is one."""
    views = list(situation.partitions.values())
    parts = [
        f"{f'p{v.partition}: ' if len(views) > 1 else ''}{v.leader or 'no node'} leads, in sync "
        + ("unknown" if v.in_sync is None else f"{{{','.join(v.members)}}}")
        for v in views[:4]
    ]
    if len(views) > 4:
        parts.append(f"and {len(views) - 4} more")
    controller = [f"controller {situation.controller}"] if situation.controller else []
    return "; ".join([*parts, *controller])

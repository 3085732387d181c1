"""The progress of a campaign, at any time (`ackloss campaign status`) and while it runs, and its
cells before it begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ackloss.cli.options import FOLDER
from ackloss.cli.output import Output, plain, with_output
from analysis.wording import about, counted, of_runs

if TYPE_CHECKING:
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.journal import Progress
    from harness.campaigns.plan import Campaign, Cell
    from harness.campaigns.scheduler import Estimate
    from harness.campaigns.sharing import Along, Group
    from reports.answer import Answer

_VERDICTS = ("invalid", "valid", "unknown")
_MARKS = {"invalid": "✕", "valid": "✓", "unknown": "?", "failed": "!", "begun": "▸"}
_ALONG: Mapping[Along, str] = {"all": "along", "some": "in part along", "none": "not along"}


@dataclass(frozen=True, kw_only=True)
class CellStatus:
    """The runs of one cell, as `campaign status` counts them."""

    cell: str
    runs: int
    invalid: int
    valid: int
    unknown: int
    failed: int
    left: int


@click.command()
@click.argument("folder", type=FOLDER)
@with_output
def status(out: Output, folder: Path) -> None:
    """Show the progress of the campaign in FOLDER, even while it runs or after a crash."""
    from harness.campaigns.folder import CampaignDir

    where = CampaignDir.open(folder)
    campaign, progress = where.campaign(), where.progress()
    print_progress(out, where, campaign, progress)
    if where.alive and not out.json:
        view = Watched(campaign, progress, progress.workers)
        for line in (*view.under_way(), view.so_far()):
            out.say(line)


def print_plan(out: Output, campaign: Campaign) -> None:
    """Print the cells of a campaign, the number of runs, and an estimate of their time and disk."""
    from harness.campaigns.scheduler import estimate, if_shared
    from harness.campaigns.sharing import groups_of_campaign, sharing_by_axis

    estimated, groups = estimate(campaign), groups_of_campaign(campaign)
    group_of = {cell.name: group for group in groups for cell in group}
    cells = [
        {
            "key": cell.key,
            "runs": cell.repetitions,
            "impossible": cell.impossible,
            "shares_with": [o.key for o in group_of.get(cell.name, ()) if o is not cell],
        }
        for cell in campaign.cells
    ]
    by_axis = sharing_by_axis(campaign, groups)
    head = {"schema": 1, "name": campaign.plan.name, "plan_hash": campaign.digest, "cells": cells}
    # `lanes` is the former name of `workers`.
    out.document({**head, "shared": by_axis, **vars(estimated), "lanes": estimated.workers})
    if not out.json:
        _print_cells(out, campaign, groups)
        _print_sharing(out, by_axis)
        if (shared := if_shared(campaign)) is not None:
            out.progress(
                f'share = "auto" would take {about(shared[1])}, not {about(shared[0])}; cells '
                "are then compared as pairs; their absolute shares may differ from those of "
                "cells alone (docs/how-to/cells.md)"
            )
    count = len(campaign.cells) - len(campaign.possible)
    impossible = f", {count} of them impossible" if count else ""
    runs = of_runs(estimated.runs, estimated.executions)
    out.say(
        f"{campaign.plan.name}: {counted(len(campaign.cells), 'cell')}{impossible}, {runs}, "
        f"{time_in_words(estimated)} on {counted(estimated.workers, 'worker')}, "
        f"about {estimated.disk_mb:,.0f} MiB"
    )


def time_in_words(estimated: Estimate) -> str:
    """The time that the runs take, and how much of it the budget allows one session."""
    words = about(estimated.seconds)
    if estimated.session_s < estimated.seconds:
        words += f" (its budget allows {about(estimated.session_s)} a session)"
    return words


def _print_cells(out: Output, campaign: Campaign, groups: Sequence[Group]) -> None:
    """Print every cell that can be run, by the run that it shares, then the others by the reason
    why they cannot."""
    for group in groups:
        if len(group) > 1:
            out.say(f"  one run for {len(group)} cells:")
        for cell in group:
            out.say(f"  {cell.repetitions:5} x {cell.name}")
    for why in dict.fromkeys(cell.impossible for cell in campaign.cells if cell.impossible):
        out.say(f"  impossible, not run: {why}", style="yellow")
        for cell in campaign.cells:
            if cell.impossible == why:
                out.say(f"        {cell.name}")


def _print_sharing(out: Output, by_axis: Mapping[str, Along]) -> None:
    """Print in one line along which axes cells share their runs; nothing without axes."""
    parts = []
    for along, words in _ALONG.items():
        if axes := [axis for axis, found in by_axis.items() if found == along]:
            parts.append(f"{words} {', '.join(axes)}")
    if parts:
        out.progress(f"shared runs: {'; '.join(parts)}")


def print_progress(
    out: Output,
    where: CampaignDir,
    campaign: Campaign,
    progress: Progress,
    answer: Answer | None = None,
) -> None:
    """Print the runs of each cell, by verdict, and whether the campaign is running; or, instead of
    the cells, what it answers."""
    from reports.formatting import SIMULATED

    cells = [_status(cell.name, cell.repetitions, progress) for cell in campaign.possible]
    alive = where.alive
    out.document(
        {
            "schema": 1,
            "name": campaign.plan.name,
            "simulated": campaign.simulated,
            "alive": alive,
            "ended": progress.ended,
            "cells": cells,
            "said": progress.said,
            "answer": answer.json() if answer else None,
        }
    )
    if out.json:
        return
    if campaign.simulated:
        out.say(SIMULATED, style="yellow")
    word = "result" if any(run.shared for run in progress.runs.values()) else "run"
    if answer is None:
        names = ("cell", f"{word}s", *_VERDICTS, "failed", "left")
        out.table(names, (vars(cell).values() for cell in cells))
    else:
        _print_answer(out, answer)
    left = sum(cell.left for cell in cells)
    state = "is running" if alive else "is not running"
    out.say(f"{left:,} {word}s are left; the campaign {state}")


def _print_answer(out: Output, answer: Answer) -> None:
    from reports.formatting import seconds

    out.table(
        ("", *answer.choices, *("longest gap" for _ in answer.choices)),
        (
            (
                fault.about if fault.counts else f"({fault.about})",
                *(f"{_MARKS[each.verdict]} {each.lost_in_short}" for each in fault.shown),
                *(seconds(each.longest_gap_s) for each in fault.shown),
            )
            for fault in answer.faults
        ),
    )
    style = {"valid": "bold green", "invalid": "bold red"}.get(answer.verdict, "bold yellow")
    out.say(f"{answer.verdict.upper()}: {answer.headline}", style=style)
    for sentence in answer.sentences:
        out.say(f"  {sentence}")


@dataclass
class Watched:
    """A campaign while it runs: its cells, the runs under way, and the time that is left."""

    campaign: Campaign
    progress: Progress
    workers: int | None

    def so_far(self) -> str:
        """How many executions are over, and how long the others take."""
        from harness.campaigns.scheduler import estimate, left_s

        left = estimate(self.campaign, self.progress.finished(), self.workers)
        runs = map(self.progress.of_execution, list(self.progress.executions))
        over = sum(all(run.is_finished for run in each) for each in runs)
        seconds = left_s(self.campaign, self.progress, left.workers, datetime.now(UTC))
        words = f"{over:,} of {over + left.executions:,} runs"
        return f"{words}; {about(seconds)} left" if left.executions else words

    def under_way(self) -> list[str]:
        """A line for each run that has begun and not ended."""
        now, lines = datetime.now(UTC), []
        for name in list(self.progress.executions):
            if not self.progress.is_over(name):
                run = self.progress.of_execution(name)[0]
                what, seconds = self.named(name), run.lasted_s(now)
                lines.append(
                    f"worker {run.worker}  {what}, no. {run.repetition + 1}  {seconds:.0f} s"
                )
        return lines

    def named(self, execution: str) -> str:
        """What the cells of an execution have in common."""
        names = [run.cell for run in self.progress.of_execution(execution)]
        if len(names) == 1:
            return names[0]
        keys = [cell.key.items() for cell in self.campaign.cells if cell.name in names]
        common = [f"{axis}={of}" for axis, of in keys[0] if all((axis, of) in key for key in keys)]
        return f"{', '.join(common)} ({len(names)} cells)".lstrip()

    def ended(self, execution: str) -> str:
        """How an execution ended, in one line."""
        runs = self.progress.of_execution(execution)
        ends = Counter(run.verdict or f"{run.state}: {run.error}" for run in runs)
        took = max(run.seconds or run.lasted_s(datetime.now(UTC)) for run in runs)
        words = ", ".join(f"{n} {end}" if len(runs) > 1 else end for end, n in ends.items())
        return f"worker {runs[0].worker}  {self.named(execution)}  {words} in {took:.0f} s"

    def table(self, console: Console) -> Table:
        """Everything, for a terminal that shows it in place."""
        whole = Table.grid()
        whole.add_row(Text(self.so_far(), style="bold"))
        for line in self.under_way():
            whole.add_row(Text(f"  {line}", style="dim"))
        cells, grid = self.campaign.possible, Table.grid(padding=(0, 2))
        shown = max(4, console.height - 8)
        for cell in cells[:shown]:
            grid.add_row("", Text(plain(cell.name)), Text(self._marks(cell)))
        if len(cells) > shown:
            grid.add_row("", Text(f"and {len(cells) - shown} more cells", style="dim"))
        whole.add_row(grid)
        return whole

    def _marks(self, cell: Cell) -> str:
        """A mark for each repetition of a cell; of many their numbers."""
        runs = [run for run in list(self.progress.runs.values()) if run.cell == cell.name]
        states = {run.repetition: run.verdict or run.state for run in runs}
        if cell.repetitions > len(_MARKS) * 5:
            counts = Counter(states.values())
            words = [f"{number} {state}" for state, number in counts.items()]
            return ", ".join([*words, f"{cell.repetitions - len(states)} left"])
        return "".join(_MARKS.get(states.get(n, ""), "·") for n in range(cell.repetitions))


def _status(name: str, repetitions: int, progress: Progress) -> CellStatus:
    runs = [run for run in progress.runs.values() if run.cell == name]
    verdicts = {verdict: sum(run.verdict == verdict for run in runs) for verdict in _VERDICTS}
    done = sum(verdicts.values())
    failed = sum(run.state == "failed" for run in runs)
    left = repetitions - len({run.repetition for run in runs if run.is_finished})
    return CellStatus(cell=name, runs=done, **verdicts, failed=failed, left=left)

"""`ackloss run`: runs plans, shows each while it runs, checks them, writes their pages.

The live view is a bar with the time that is left and a status table at a terminal, otherwise plain
lines.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.columns import Columns
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ackloss.cli.options import (
    FOLDER,
    CommandWithSettingsFiles,
    FileOrName,
    print_own,
    taken,
    with_client_option,
    with_cluster,
    with_inventory,
    with_plan_options,
)
from ackloss.cli.output import Output, merged_exit_code, plain, print_result, with_output
from analysis.wording import about
from harness.errors import HarnessFailure, PlanError

if TYPE_CHECKING:
    from harness.history.run_folder import RunDir
    from harness.plan import Plan
    from harness.protocols import Situation
    from harness.run.by_hand import Person
    from harness.run.resolving import ResolvedPlan
    from harness.run.runner import Status

    Finished = tuple[RunDir, dict[str, Any]]


@click.command(cls=CommandWithSettingsFiles)
@click.argument("plans", nargs=-1, required=True, type=FileOrName())
@with_plan_options
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), default=Path("runs"), show_default=True
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and start nothing.")
@click.option("--force", is_flag=True, help="Also run settings that the version does not support.")
@click.option(
    "--keep-cluster", is_flag=True, help="Leave the cluster up; `clean --kept` removes it."
)
@click.option("--compare", is_flag=True, help="Write one page that compares two plans' runs.")
@click.option(
    "--and-prevention",
    is_flag=True,
    help="After a run that lost writes, run it once with each change that would have kept them.",
)
@click.option("--as-expected", is_flag=True, help="Exit 0 if each verdict is its plan's `expect`.")
@with_client_option
@click.option("--master", help="The Spark master that judges the runs; default: this process.")
@with_inventory
@with_cluster
@click.option(
    "--signals",
    type=FOLDER,
    help="The folder of the files that report what you did (nemesis manual).",
)
@with_output
def run(
    out: Output,
    plans: tuple[Path, ...],
    changes: tuple[str, ...],
    seed: int | None,
    folder: Path,
    dry_run: bool,
    force: bool,
    keep_cluster: bool,
    compare: bool,
    and_prevention: bool,
    as_expected: bool,
    client: str | None,
    master: str | None,
    inventory: Path | None,
    cluster: Path | None,
    signals: Path | None,
    **own: Any,
) -> None:
    """Run PLANS, count the lost writes, and write a page for each.

    A plan is a file, a name that `ackloss list plans` shows, or the plan.json of a stored run.

    The exit code is the verdict's: 0 valid, 1 invalid, 3 unknown.
    """
    if inventory is not None and cluster is not None:
        raise click.UsageError("--inventory and --cluster name two clusters: leave one out")
    if compare and len(plans) != 2:
        raise click.UsageError("--compare takes two plans")
    if len(plans) > 1 and out.json and not dry_run:
        raise click.UsageError("--json takes one plan: run prints one result document")
    from ackloss.session import Session
    from harness.history.documents import result_of

    session = Session(
        folder=folder,
        client=client,
        inventory=inventory,
        cluster=cluster,
        own=taken(own),
        force=force,
        keep_cluster=keep_cluster,
        master=master,
        say=partial(out.progress, style="yellow"),
        watching=partial(_watching, out),
    )

    def ready(path: Path, changes: Sequence[str]) -> ResolvedPlan:
        from harness.run.by_hand import with_operator

        plan = session.resolve(path, changes, seed)
        if dry_run:
            return plan
        return with_operator(plan, _operator(out, signals), file=str(path))

    def finish(plan: ResolvedPlan, path: Path, changes: Sequence[str]) -> Finished:
        command = session.command(path, changes, signals=signals)
        rundir, result = session.run(plan, plan=path, command=command, page=True)
        print_result(out, result_of(result), rundir)
        return rundir, result

    resolved = [ready(path, changes) for path in plans]
    print_own(out, *(each.plan.document() for each in resolved))
    for path, plan in zip(plans, resolved, strict=True):
        _refuse_unsuited(
            path, plan, keep_cluster=keep_cluster, prevention=and_prevention, expected=as_expected
        )
    if compare:
        _refuse_incomparable(plans, resolved)
    if dry_run:
        _print_dry_run(out, resolved)
        return
    finished = []
    for plan, path in zip(resolved, plans, strict=True):
        rundir, result = finish(plan, path, changes)
        if and_prevention:

            def again(change: str, path: Path = path) -> RunDir:
                more = (*changes, change)
                return finish(ready(path, more), path, more)[0]

            invalid = result["verdict"] == "invalid"
            result["preventions"] = try_preventions(out, rundir, again) if invalid else []
        out.document(result)
        finished.append((rundir, result))
    if compare:
        (first, _), (second, _) = finished
        out.say(f"comparison: {compared(first, second)}", style="bold")
    results = [result for _, result in finished]
    sys.exit(_exit_code(results, resolved, as_expected, out))


def compared(first: RunDir, second: RunDir) -> Path:
    """Write the page that compares two runs, beside them; its path."""
    from reports.compare import write_comparison

    page = second.path.parent / f"compare-{first.run_id}-{second.run_id}.html"
    write_comparison(first, second, page)
    return page


def try_preventions(
    out: Output, run: RunDir, again: Callable[[str], RunDir]
) -> list[dict[str, Any]]:
    """Run the plan of a run `again` with each change that is stated to have kept writes of it from
    being lost, and print what became of each sentence; as JSON."""
    from reports.why import Trial, tried, why

    found = why(run)
    trials = []
    for prevention, sentence in found.preventions if found else ():
        out.progress(f"again, with {prevention.change}", style="bold")
        try:
            other = again(prevention.change)
            trial = replace(tried(run, prevention, other), page=str(compared(run, other)))
        except (PlanError, HarnessFailure) as error:
            trial = Trial(change=prevention.change, sentence=sentence, before="", why=str(error))
        trials.append(trial)
    if trials:
        names = ("what is stated", "lost of acknowledged", "with the change", "the statement")
        out.table(names, ((t.sentence, t.before, t.after, t.in_words) for t in trials))
    else:
        out.say("nothing is stated that would have kept writes from being lost")
    for trial in trials:
        if trial.page:
            out.say(f"comparison: {trial.page}")
        if trial.holds is False:
            out.say(f"A SENTENCE DOES NOT HOLD: {trial.sentence}: {trial.why}", style="bold red")
    return [asdict(trial) for trial in trials]


def _operator(out: Output, signals: Path | None) -> Person | None:
    """Who makes faults by hand: one at this terminal, or one who creates files; or none."""
    from harness.run.by_hand import Person

    keys = sys.stdin if sys.stdin is not None and sys.stdin.isatty() else None
    if signals is None and keys is None:
        return None
    return Person(say=out.ask, folder=signals, keys=keys)


def _print_dry_run(out: Output, plans: list[ResolvedPlan]) -> None:
    """Each schedule as a picture, and what is measured; with -v also nodes, acts, and the plan."""
    from harness.run.preview import chart, dry_run, warnings

    documents = [{**dry_run(plan), "warnings": warnings(plan)} for plan in plans]
    out.document({"schema": 1, "plans": documents})
    for document in documents if not out.json else []:
        plan, nodes = document["plan"], document["nodes"]
        out.say(f"{plan['name']}  (nothing is started)", style="bold")
        load = plan["workload"]
        rate = f"{load['rate_per_s']:,g} operations/s" if load["rate_per_s"] else "full speed"
        on = f" on {', '.join(each['name'] for each in nodes)}" if nodes else ""
        out.say(f"  load: {load['name']} at {rate} for {document['load_s']:g} s{on}")
        for name, counted in document["measures"].items():
            out.say(f"  measured by {name}: {counted}")
        seconds = document["takes_s"]
        takes = f"about {seconds:.0f} s" if seconds < 90 else about(seconds)
        simulated = (
            ": time is simulated" if document["simulated"] else ", with start and final read"
        )
        out.say(f"  takes {takes}{simulated}")
        for line in chart(document):
            out.say(f"  {line}")
        for warning in document["warnings"]:
            out.say(f"  warning: {warning}", style="yellow")
        if out.verbose:
            _print_tree(
                out, {key: document.get(key) for key in ("image", "nodes", "cells", "faults")}, 1
            )
            out.say("  plan with its defaults")
            _print_tree(out, plan, 2)
        else:
            out.say("  -v shows nodes, their commands, each act, and the plan with its defaults")


def _print_tree(out: Output, data: Mapping[str, object] | Sequence[object], depth: int) -> None:
    """Nested data as indented lines."""
    pairs = data.items() if isinstance(data, Mapping) else ((None, item) for item in data)
    for key, value in pairs:
        label = "  " * depth + (f"{key}: " if key is not None else "- ")
        if isinstance(value, dict | list) and value:
            out.say(label.rstrip())
            _print_tree(out, value, depth + 1)
        else:
            text = " ".join(str(value).split()) if value not in ({}, []) else "none"
            out.say(label + text)


@contextmanager
def _watching(out: Output, resolved: ResolvedPlan, run_id: str, status: Status) -> Iterator[None]:
    """Announce a run and show it while it lasts."""
    from harness.models import LOG
    from harness.run.preview import warnings
    from reports.formatting import SIMULATED

    provider = resolved.provider
    out.progress(f"{resolved.plan.name}  seed {resolved.plan.seed}  run {run_id}", style="bold")
    if provider.simulated:
        out.progress(f"  {SIMULATED}", style="yellow")
    for warning in warnings(resolved):
        out.progress(f"  warning: {warning}", style="yellow")
    takes_s = None if provider.simulated else provider.cost(resolved.order, kept=False).seconds
    operations = "writes" if resolved.workload.model == LOG.name else "operations"
    view = _View(out, resolved.plan, status, operations, takes_s)
    if out.quiet:
        yield
    elif out.console.is_terminal:
        with Live(get_renderable=view.table, console=out.console, refresh_per_second=4):
            yield
    else:
        status.on_phase = lambda phase: out.progress(f"[{view.elapsed_s():5.1f} s] {phase}")
        with view.lines():
            yield


def _exit_code(
    results: Sequence[Mapping[str, Any]],
    plans: Sequence[ResolvedPlan],
    as_expected: bool,
    out: Output,
) -> int:
    if not as_expected:
        return merged_exit_code([str(result["verdict"]) for result in results])
    wrong = [
        sentence
        for resolved, result in zip(plans, results, strict=True)
        for sentence in unexpected(resolved.plan, result)
    ]
    for sentence in wrong:
        out.say(sentence, style="red")
    out.say("every verdict matches the plan's `expect`" if not wrong else "NOT as expected")
    return 1 if wrong else 0


def _refuse_unsuited(
    file: Path, resolved: ResolvedPlan, *, keep_cluster: bool, prevention: bool, expected: bool
) -> None:
    """Refuse a plan that an option does not suit: a cluster that cannot outlive the process; cells,
    each of which may state another change; and no `expect`, its own or that of each cell."""
    plan, of_cells = resolved.plan, [cell.expect for cell in resolved.plan.cells]
    if keep_cluster and not resolved.provider.outlives:
        raise PlanError(
            f"a cluster of kind {resolved.provider.plugin!r} ends with the process that runs it",
            file=str(file),
            key="cluster.kind",
            hint="leave out --keep-cluster",
        )
    if prevention and plan.cells:
        raise PlanError(
            "--and-prevention runs a plan without cells: each may need another change",
            file=str(file),
            key="cells",
            hint="leave out --and-prevention; `ackloss explain` prints the changes for each",
        )
    if expected and plan.expect is None and (not of_cells or None in of_cells):
        raise PlanError(
            "--as-expected needs the key `expect`",
            file=str(file),
            key="expect",
            hint="add the verdict that the plan should have, or each of its cells",
        )


def _refuse_incomparable(files: Sequence[Path], plans: Sequence[ResolvedPlan]) -> None:
    """Refuse two plans of which only one has cells, or which have none in common."""
    first, second = ({cell.name for cell in each.plan.cells} for each in plans)
    if (first or second) and not first & second:
        alone = "no cell in common" if first and second else "cells in one of them only"
        raise PlanError(
            f"--compare pairs cells by name, and these plans have {alone}",
            file=str(files[0] if first else files[1]),
            key="cells",
            hint="leave out --compare, or let cells of both plans have equal names",
        )


def unexpected(plan: Plan, result: Mapping[str, Any]) -> Iterator[str]:
    """What a plan expects of its verdict, and of those of its cells, and is otherwise."""
    verdicts = {cell["name"]: cell["verdict"] for cell in result.get("cells", ())}
    expectations = [(plan.name, plan.expect, result["verdict"])]
    expectations += [(f"{plan.name}: {c.name}", c.expect, verdicts.get(c.name)) for c in plan.cells]
    for name, expected, verdict in expectations:
        if expected not in (None, verdict):
            yield f"{name}: {verdict}, expected {expected}"


_LINE_EVERY_S = 5.0


@dataclass
class _View:
    """A run while it lasts. `operations`: what its operations are called; `takes_s`: about how long
    it takes, unless its time is simulated."""

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
        from harness.run.recorder import Live as Load

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

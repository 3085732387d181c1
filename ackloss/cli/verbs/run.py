"""`ackloss run`: runs plans, checks them, writes their pages."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from ackloss.cli.output import Output, with_client_option, with_output, with_plan_options
from ackloss.cli.own_settings import CommandWithSettingsFiles, print_own, taken
from ackloss.cli.plan_requirements import (
    require_clusters_to_keep,
    require_comparable,
    require_expectations,
    unexpected,
)
from ackloss.cli.plans import FileOrName, resolved_plan, with_cluster, with_inventory
from ackloss.cli.results import merged_exit_code, print_result
from analysis.wording import about

if TYPE_CHECKING:
    from harness.history.run_folder import RunDir
    from harness.run.by_hand import Person
    from harness.run.own_settings import OwnSettings
    from harness.run.resolving import ResolvedPlan

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class _Finished:
    """A run that has been judged and reported."""

    rundir: RunDir
    result: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What the command line requests beside its plans."""

    changes: tuple[str, ...]
    seed: int | None
    folder: Path
    dry_run: bool
    force: bool
    keep_cluster: bool
    compare: bool
    as_expected: bool
    client: str | None
    master: str | None
    inventory: Path | None
    cluster: Path | None
    signals: Path | None
    own: OwnSettings

    @classmethod
    def of(cls, chosen: Mapping[str, Any]) -> _Options:
        """The options of the command's keyword arguments: what it does not name is about files."""
        known = {name: chosen[name] for name in cls.__dataclass_fields__ if name in chosen}
        return cls(**known, own=taken({n: chosen[n] for n in chosen if n not in known}))

    def refuse_contradictions(self, plans: Sequence[Path], *, json: bool) -> None:
        """Raise UsageError for options that cannot be together."""
        if self.inventory is not None and self.cluster is not None:
            raise click.UsageError("--inventory and --cluster name two clusters: leave one out")
        if self.compare and len(plans) != 2:
            raise click.UsageError("--compare takes two plans")
        if len(plans) > 1 and json and not self.dry_run:
            raise click.UsageError("--json takes one plan: run prints one result document")

    def command(self, path: Path) -> list[str]:
        """The command that runs one of the plans again."""
        places = {"inventory": self.inventory, "cluster": self.cluster, "signals": self.signals}
        named = {name: path for name, path in places.items() if path is not None}
        command = command_of(
            path, self.changes, {**self.own.files, **named}, self.force, self.client
        )
        return [*command, *self.own.flags]


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
@click.option("--as-expected", is_flag=True, help="Exit 0 if each verdict is its plan's `expect`.")
@with_client_option
@click.option("--master", help="The Spark master that judges the runs; default: this process.")
@with_inventory
@with_cluster
@click.option(
    "--signals",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of the files that report what you did (nemesis manual).",
)
@with_output
def run(out: Output, plans: tuple[Path, ...], **chosen: Any) -> None:
    """Run PLANS, count the lost writes, and write a page for each.

    A plan is a file, a name that `ackloss list plans` shows, or the plan.json of a stored run.

    The exit code is the verdict's: 0 valid, 1 invalid, 3 unknown.
    """
    options = _Options.of(chosen)
    options.refuse_contradictions(plans, json=out.json)
    resolved = _resolved(out, plans, options)
    if options.keep_cluster:
        require_clusters_to_keep(plans, resolved)
    if options.compare:
        require_comparable(plans, resolved)
    if options.as_expected:
        require_expectations(plans, resolved)
    if options.dry_run:
        _print_dry_run(out, resolved)
        return
    finished = [
        _run_one(out, plan, options.command(path), options)
        for plan, path in zip(resolved, plans, strict=True)
    ]
    if options.compare:
        _compare(out, [each.rundir for each in finished])
    results = [each.result for each in finished]
    sys.exit(_exit_code(results, resolved, options.as_expected, out))


def _resolved(out: Output, plans: Sequence[Path], options: _Options) -> list[ResolvedPlan]:
    """The plans with their plug-ins. Raises PlanError before any of them is run."""
    from harness.run.by_hand import with_operator
    from harness.run.client_process import client_command
    from harness.run.resolving import with_client

    say = partial(out.progress, style="yellow")
    command = client_command(options.client)
    operator = _operator(out, options.signals)
    resolved = []
    for path in plans:
        plan = resolved_plan(
            path,
            options.changes,
            options.seed,
            options.own,
            force=options.force,
            inventory=options.inventory,
            cluster=options.cluster,
            say=say,
        )
        plan = with_client(plan, command, file=str(path))
        resolved.append(plan if options.dry_run else with_operator(plan, operator, file=str(path)))
    print_own(out, *(each.plan.document() for each in resolved))
    return resolved


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


def _run_one(
    out: Output, resolved: ResolvedPlan, command: list[str], options: _Options
) -> _Finished:
    """Run, check and report one plan."""
    from ackloss.cli.live import watching
    from harness.history.documents import result_of
    from harness.history.run_folder import new_run_id
    from harness.models import LOG
    from harness.run.interrupts import Interrupts
    from harness.run.runner import RunOptions, Status, clean_before, require, run_plan

    run_id, status = new_run_id(), Status()
    cost = resolved.provider.cost(resolved.order, kept=False)
    takes_s = None if resolved.provider.simulated else cost.seconds
    operations = "writes" if resolved.workload.model == LOG.name else "operations"
    clean_before(resolved.provider, partial(out.progress, style="yellow"))
    require(resolved.provider, resolved.order, runs=options.folder)

    from reports.page import write_report  # takes a second, and is not needed for a refusal

    _announce(out, resolved, run_id)
    with (
        Interrupts(say=partial(out.progress, style="yellow")) as interrupts,
        watching(out, resolved.plan, status, operations=operations, takes_s=takes_s),
    ):
        how = RunOptions(
            run_id=run_id,
            folder=options.folder,
            interrupts=interrupts,
            status=status,
            keep_cluster=options.keep_cluster,
            command=command,
            plan_file=command[2],
        )
        rundir = run_plan(resolved, how)
        with interrupts.repeatable(rundir):
            status.enter("checking")
            result = _judged(rundir, options.master)
            status.enter("writing the page")
            begun_s = time.monotonic()
            write_report(rundir)
            result["timings"]["report_s"] = round(time.monotonic() - begun_s, 3)
            rundir.write_json(rundir.result, result)
    interrupts.check()
    print_result(out, result_of(result), rundir)
    out.document(result)
    return _Finished(rundir, result)


def _announce(out: Output, resolved: ResolvedPlan, run_id: str) -> None:
    from harness.run.preview import warnings
    from reports.formatting import SIMULATED

    out.progress(f"{resolved.plan.name}  seed {resolved.plan.seed}  run {run_id}", style="bold")
    if resolved.provider.simulated:
        out.progress(f"  {SIMULATED}", style="yellow")
    for warning in warnings(resolved):
        out.progress(f"  warning: {warning}", style="yellow")


def _judged(rundir: RunDir, master: str | None) -> dict[str, Any]:
    """The result of a run: judged here, as Spark's start takes longer than most runs' judging; by
    Spark where its master is named."""
    from checkers.judging.many_runs import check_runs
    from checkers.judging.one_run import judge_run

    return judge_run(rundir) if master is None else check_runs([rundir], master=master)[0]


def command_of(
    path: Path,
    changes: tuple[str, ...],
    files: Mapping[str, Path],
    force: bool,
    client: str | None = None,
) -> list[str]:
    """The command that runs this one plan again, without options that only affect the output."""
    sets = [word for change in changes for word in ("--set", change)]
    options = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    options += ["--client", client] if client is not None else []
    return ["ackloss", "run", str(path), *sets, *options, *(["--force"] if force else [])]


def _compare(out: Output, rundirs: list[RunDir]) -> None:
    from reports.compare import write_comparison

    first, second = rundirs
    page = second.path.parent / f"compare-{first.run_id}-{second.run_id}.html"
    write_comparison(first, second, page)
    out.say(f"comparison: {page}", style="bold")


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

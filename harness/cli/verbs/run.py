"""`ackloss run`: play plans, check them, write their pages."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from harness.cli.cleanup import clean_before
from harness.cli.output import EXIT_BY_VERDICT, Output, with_output, with_plan_options
from harness.cli.own_settings import OwnSettings
from harness.errors import AcklossError, PlanError

if TYPE_CHECKING:
    from harness.history.run_folder import RunDir
    from harness.run.resolving import ResolvedPlan

_RATES = ("ack", "loss", "unacknowledged_success")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("plans", nargs=-1, required=True, type=_FILE)
@with_plan_options
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), default=Path("runs"), show_default=True
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, start nothing.")
@click.option("--force", is_flag=True, help="Play what this version is known not to honour, too.")
@click.option("--keep-cluster", is_flag=True, help="Leave the cluster up; `clean --kept` ends it.")
@click.option("--compare", is_flag=True, help="Write one page that compares two plans' runs.")
@click.option("--as-expected", is_flag=True, help="Exit 0 if each verdict is its plan's `expect`.")
@click.option("--broker-settings", type=_FILE, help="Your server.properties, for every broker.")
@click.option("--producer-settings", type=_FILE, help="Your producer.properties.")
@click.option("--master", help="Spark's master, default local[*].")
@with_output
def run(
    out: Output,
    plans: tuple[Path, ...],
    changes: tuple[str, ...],
    seed: int | None,
    dry_run: bool,
    force: bool,
    compare: bool,
    as_expected: bool,
    master: str | None,
    **how: Any,
) -> None:
    """Play PLANS on real clusters, count what was lost, and write a page for each.

    The exit code is the verdict's: 0 valid, 1 invalid, 3 unknown.
    """
    if compare and len(plans) != 2:
        raise click.UsageError("--compare takes two plans")
    if len(plans) > 1 and out.json and not dry_run:
        raise click.UsageError("--json takes one plan: run prints one result document")
    files = {f"{name}-settings": how.pop(f"{name}_settings") for name in ("broker", "producer")}
    given = files["broker-settings"], files["producer-settings"]
    own = OwnSettings(*given, say=lambda text: out.say(text, style="yellow"))
    bound = [resolved_plan(path, changes, seed, own, force=force) for path in plans]
    if dry_run:
        _say_dry_run(out, bound)
        return
    played = [
        _play_one(out, plan, command_of(path, changes, files, force), master=master, **how)
        for plan, path in zip(bound, plans, strict=True)
    ]
    if compare:
        _compare(out, [rundir for rundir, _ in played])
    sys.exit(_exit_code([result for _, result in played], bound, as_expected, out))


def resolved_plan(
    path: Path,
    changes: tuple[str, ...],
    seed: int | None,
    own: OwnSettings | None = None,
    *,
    force: bool = False,
) -> ResolvedPlan:
    """A plan from its file, changed, validated, its plug-ins found. Raises PlanError, unless with
    `force` also for what its version does not honour."""
    from harness.plan import parse_plan, read_plan
    from harness.run.resolving import refuse_unsupported, resolve

    document = read_plan(path, changes)
    if seed is not None:
        document["seed"] = seed
    plan = parse_plan(document, file=str(path))
    if own is not None:
        plan = parse_plan(own.added_to(document, plan), file=str(path))
    bound = resolve(plan, file=str(path))
    refuse_unsupported(bound, file=str(path), force=force)
    return bound


def _say_dry_run(out: Output, bound: list[ResolvedPlan]) -> None:
    from harness.run.preview import dry_run, warnings

    told = [{**dry_run(plan), "warnings": warnings(plan)} for plan in bound]
    out.document({"schema": 1, "plans": told})
    for document in told if not out.json else []:
        out.say(f"{document['plan']['name']}  (nothing is started)", style="bold")
        _say_tree(out, {key: value for key, value in document.items() if key != "plan"}, 1)
        out.say("  plan, defaults filled in")
        _say_tree(out, document["plan"], 2)


def _say_tree(out: Output, told: Any, depth: int) -> None:
    """Nested data as indented lines."""
    pairs = told.items() if isinstance(told, dict) else ((None, item) for item in told)
    for key, value in pairs:
        label = "  " * depth + (f"{key}: " if key is not None else "- ")
        if isinstance(value, dict | list) and value:
            out.say(label.rstrip())
            _say_tree(out, value, depth + 1)
        else:
            text = " ".join(str(value).split()) if value not in ({}, []) else "none"
            out.say(label + text)


def _play_one(
    out: Output, bound: ResolvedPlan, command: list[str], *, master: str | None, **how: Any
) -> tuple[RunDir, dict[str, Any]]:
    """Play, check and report one plan: its folder and its result."""
    from checkers.result import begin_warm_up, check_runs
    from harness.cli.checkup import require
    from harness.cli.live import watching
    from harness.history.run_folder import new_run_id
    from harness.run.interrupts import Interrupts
    from harness.run.runner import RunOptions, Status, play
    from reports.page import write_report

    plan, run_id, status = bound.plan, new_run_id(), Status()
    clean_before(out)
    require(plan, nodes=len(bound.target.names(plan)), runs=how["folder"])
    out.say(f"{plan.name}  seed {plan.seed}  run {run_id}", style="bold")
    for each in bound.unsupported:
        out.say(f"  forced: {each}", style="yellow")
    with (
        Interrupts(say=lambda text: out.say(text, style="yellow")) as interrupts,
        watching(out, plan, status),
    ):
        playing = RunOptions(
            run_id=run_id,
            interrupts=interrupts,
            status=status,
            command=command,
            plan_file=command[2],
            after_last_op=lambda: begin_warm_up(master),
            **how,
        )
        rundir = play(bound, playing)
        status.enter("checking")
        result = check_runs([rundir], master=master)[0]
        status.enter("writing the page")
        begun = time.monotonic()
        write_report(rundir)
        result["timings"]["report_s"] = round(time.monotonic() - begun, 3)
        rundir.write_json(rundir.result, result)
    say_result(out, result, rundir)
    out.document(result)
    return rundir, result


def command_of(
    path: Path, changes: tuple[str, ...], how: dict[str, Path | None], force: bool
) -> list[str]:
    """The command that plays this one plan again, without what only steers the output."""
    sets = [word for change in changes for word in ("--set", change)]
    files = [word for name, file in how.items() if file for word in (f"--{name}", str(file))]
    return ["ackloss", "run", str(path), *sets, *files, *(["--force"] if force else [])]


def say_result(out: Output, result: dict[str, Any], rundir: RunDir) -> None:
    """The verdict, the rates, and where the page is."""
    style = {"valid": "bold green", "invalid": "bold red"}.get(result["verdict"], "bold yellow")
    out.say(f"{result['verdict'].upper()}: {result['reason']}", style=style)
    counts, rates = result["counts"], result["rates"]
    out.say(
        f"  attempted {counts['attempted']:,}  acknowledged {counts['acknowledged']:,}"
        f"  survivors {counts['survivors']:,}  lost {counts['lost']:,}"
        f"  unacknowledged found {counts['unacknowledged_found']:,}"
    )
    told = (f"{name.replace('_', ' ')} rate {_rate(rates[name])}" for name in _RATES)
    out.say("  " + "  ".join(told))
    for kind, codes in result.get("errors", {}).items():
        if codes:
            named = (f"{code} {number:,}" for code, number in codes.items())
            out.say(f"  {kind} with {'  '.join(named)}")
    for fault in result["faults"]:
        proven = "proven" if fault["proven"] else "NOT PROVEN"
        begun = f", {fault['ops_begun']:,} writes begun" if "ops_begun" in fault else ""
        on = ", ".join(fault["nodes"])
        out.say(f"  fault {fault['id']} ({fault['nemesis']}) on {on}: {proven}{begun}")
    out.say(f"  page {rundir.report}  seed {result['seed']}")


def _rate(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.6g}"


def _compare(out: Output, rundirs: list[RunDir]) -> None:
    from reports.compare import write_comparison

    first, second = rundirs
    page = second.path.parent / f"compare-{first.run_id}-{second.run_id}.html"
    write_comparison(first, second, page)
    out.say(f"comparison: {page}", style="bold")


def _exit_code(
    results: list[dict[str, Any]], bound: list[ResolvedPlan], as_expected: bool, out: Output
) -> int:
    verdicts = [result["verdict"] for result in results]
    if as_expected:
        for plan in bound:
            if plan.plan.expect is None:
                raise PlanError("--as-expected needs the key `expect`", key="expect")
        wrong = [
            f"{p.plan.name}: {v}, expected {p.plan.expect}"
            for p, v in zip(bound, verdicts, strict=True)
            if v != p.plan.expect
        ]
        for sentence in wrong:
            out.say(sentence, style="red")
        out.say("verdicts are as the plans expect" if not wrong else "NOT as expected")
        return 1 if wrong else 0
    return merged_exit_code(verdicts)


def merged_exit_code(verdicts: list[str], *, errors: list[AcklossError] = []) -> int:  # noqa: B006
    """The exit code for several inputs: bad input, else invalid, else unknown, else 0."""
    codes = [EXIT_BY_VERDICT[verdict] for verdict in verdicts] + [e.exit_code for e in errors]
    return next((code for code in (4, 5, 6, 1, 3) if code in codes), 0)

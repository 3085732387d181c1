"""How results of runs are printed, and the exit code for several of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ackloss.cli.output import EXIT_BY_VERDICT, Output
from harness.errors import AcklossError

if TYPE_CHECKING:
    from harness.history.documents import RunResult
    from harness.history.run_folder import RunDir

_INCIDENTS = 5
_RATES = ("ack", "loss", "unacknowledged_success")
_MEANT = {
    "failed": "ackloss or its cluster broke, not the system; run it again",
    "interrupted": "it was stopped before its end; run it again",
    "vacuous": "nothing was put to the test, so nothing could be lost; see the faults below",
    "unproven": "a fault that was requested had no effect that could be seen on its nodes, so "
    "this run does not show what the system does under it; see NOT PROVEN below",
    "unmet": "the fault began although the moment that the plan waits for never came: use a "
    "longer within_s, or another condition",
    "incomplete": "not all that was stored could be read back, or a file is missing: what was "
    "not read may be lost or not",
    "replicas": "what only a replica that is behind has lost, nobody has seen: a longer "
    "final.settle_s gives it time",
    "starved": "this machine was too busy to make the load that the plan requests: use a "
    "lower rate, or run less beside it",
    "deleted": "the system has deleted the beginning of a log: what stood there cannot be judged",
    "not_yet_visible": "acknowledged writes may stand where consumers cannot read yet",
    "readers": "two client libraries read different data, so neither is believed",
    "client": "your clients broke their protocol; see the incidents below",
    "undecided": "the search for a legal order was ended at its limit",
    "checker": "a checker broke: that is a mistake in ackloss or in a plug-in",
}
"""What a doubt means for the user, and what to do."""
_STYLES = {"valid": "bold green", "invalid": "bold red"}


def print_result(out: Output, result: RunResult, rundir: RunDir) -> None:
    """Print the verdict, the counts and rates, the faults, and the path of the page."""
    from harness.history.documents import CONCLUSIVE, read_run
    from reports.checks import counts_losses, in_short, shown
    from reports.formatting import SIMULATED

    style = _STYLES.get(result.verdict, "bold yellow")
    out.say(f"{result.verdict.upper()}: {result.reason or 'no reason is recorded'}", style=style)
    for doubt in result.doubts or () if result.verdict not in CONCLUSIVE else ():
        if doubt in _MEANT:
            out.say(f"  {doubt}: {_MEANT[doubt]}", style="yellow")
    if result.simulated:
        out.say(f"  {SIMULATED}", style="yellow")
    if (gap_s := result.availability.longest_gap_s) is not None:
        out.say(f"  longest time without an acknowledgement: {gap_s:.1f} s")
    if result.cells:
        _print_cells(out, result)
    elif counts_losses(result):
        _print_losses(out, result)
    for check in shown(result):
        counted = "  ".join(f"{count.label} {count.value}" for count in in_short(check))
        out.say(f"  {check.name}: {counted or 'no result'}")
    for kind, codes in vars(result.errors).items():
        if codes:
            counted = "  ".join(f"{code} {number:,}" for code, number in codes.items())
            out.say(f"  {kind} with {counted}")
    _print_clients(out, result)
    _print_faults(out, result)
    if sentence := read_run(rundir).settings.short_timeouts:
        out.say(f"  {sentence}")
    seed = "" if result.seed is None else f"  seed {result.seed}"
    out.say(f"  page {rundir.report}{seed}")


def _print_faults(out: Output, result: RunResult) -> None:
    """Print for each fault whether it is proven, which leaders it met, and what was begun while it
    was in force."""
    from harness.models import LOG

    begun = "writes" if result.model == LOG.name else "operations"
    for fault in result.faults:
        met = result.met_by(fault.id)
        writes = "" if fault.ops_begun is None else f", {fault.ops_begun:,} {begun} begun"
        if fault.ops_begun and fault.ops_acknowledged == 0:
            writes += ", none acknowledged meanwhile"
        on = f" on {', '.join(fault.nodes)}" if fault.nodes else ""
        of = f", {met}" if met else ""
        nemesis = fault.nemesis or "unknown nemesis"
        out.say(f"  fault {fault.id} ({nemesis}){on}: {fault.proof}{of}{writes}")
        if not (fault.proven or fault.control or fault.claimed):
            seen = "; ".join(fault.evidence) or "nothing of it was seen"
            out.say(f"    {seen}: a fault counts only with an effect on the system", style="yellow")
    for caution in result.cautions:
        out.say(f"  caution: {caution}", style="yellow")


def _print_clients(out: Output, result: RunResult) -> None:
    """Print what clients that are processes of the user's are, and what they did wrong."""
    if (clients := result.clients) is None:
        return
    style = "" if clients.clean else "yellow"
    out.say(f"  clients {clients.software}: {clients.sentence}", style=style)
    for each in clients.incidents[:_INCIDENTS]:
        out.say(f"    client-{each.client} at {each.at_s:.1f} s: {each.what}", style=style)


def _print_cells(out: Output, result: RunResult) -> None:
    """Print a line for each cell: its verdict, what it lost, and whether a fault met its leader."""
    from harness.history.documents import CONCLUSIVE
    from reports.checks import counts_losses
    from reports.formatting import loss_rate

    width = max(len(cell.name) for cell in result.cells)
    for cell in result.cells:
        counts, losses = cell.counts, counts_losses(result)
        line = f"{cell.name:<{width}}  {cell.verdict.upper():<7}"
        if losses:
            line += f"  {_lost_of(cell.verdict, counts.lost, counts.acknowledged)}"
            line += f" ({loss_rate(cell)})" if counts.lost and cell.verdict in CONCLUSIVE else ""
        if not losses or cell.verdict not in CONCLUSIVE:
            line += f"  {cell.reason}"
        if cell.leader_met is False:
            line += "  (no fault met its leader)"
        if cell.expect not in (None, cell.verdict):
            line += f"  NOT AS EXPECTED: {cell.expect}"
        out.say(f"  {line}", style=_STYLES.get(cell.verdict, "bold yellow"))


def _print_losses(out: Output, result: RunResult) -> None:
    """Print the counts and rates of the loss check."""
    from reports.formatting import loss_rate, lost, rate

    counts = result.counts
    out.say(
        f"  attempted {counts.attempted:,}  acknowledged {counts.acknowledged:,}"
        f"  survivors {counts.survivors:,}  lost {lost(result)}"
        f"  unacknowledged found {counts.unacknowledged_found:,}"
        f"  duplicates {counts.duplicates:,}"
    )
    rates = {name: rate(getattr(result.rates, name)) for name in _RATES}
    rates["loss"] = loss_rate(result)
    out.say("  " + "  ".join(f"{name.replace('_', ' ')} rate {rates[name]}" for name in _RATES))


def print_verdict(out: Output, result: Mapping[str, Any]) -> None:
    """Print the verdict of a run in one line."""
    if out.json:
        return
    verdict, counts = result["verdict"].upper(), result["counts"]
    if result.get("simulated"):
        verdict += " (simulated: no real system was tested)"
    losses = "lost" in counts or not result.get("checks")
    if result.get("model", "log") == "log" and losses:
        verdict += f"  {_lost_of(result['verdict'], counts['lost'], counts['acknowledged'])}"
    out.say(f"{result['run_id']}  {verdict}: {result['reason']}")
    if result.get("cells"):
        from harness.history.documents import result_of

        _print_cells(out, result_of(result))


def _lost_of(verdict: str, lost: int, acknowledged: int) -> str:
    """How many acknowledged writes were lost; of a run whose verdict is unknown it is not known."""
    from harness.history.documents import CONCLUSIVE

    of = f"{acknowledged:,} acknowledged"
    return f"lost {lost:,} of {of}" if verdict in CONCLUSIVE else f"{of}, losses unknown"


def merged_exit_code(verdicts: Iterable[str], *, errors: Sequence[AcklossError] = ()) -> int:
    """The exit code for several inputs: bad input, else a failure of the environment or of the
    harness, else invalid, else unknown, else 0."""
    codes = {EXIT_BY_VERDICT[verdict] for verdict in verdicts} | {e.exit_code for e in errors}
    return next((code for code in (4, 5, 6, 1, 3) if code in codes), 0)

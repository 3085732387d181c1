"""How results of runs are printed, and the exit code for several of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.cli.output import EXIT_BY_VERDICT, Output
from harness.errors import AcklossError

if TYPE_CHECKING:
    from harness.history.run_folder import RunDir

_RATES = ("ack", "loss", "unacknowledged_success")
_STYLES = {"valid": "bold green", "invalid": "bold red"}


def print_result(out: Output, result: Mapping[str, Any], rundir: RunDir) -> None:
    """Print the verdict, the counts and rates, the faults, and the path of the page."""
    style = _STYLES.get(result["verdict"], "bold yellow")
    out.say(f"{result['verdict'].upper()}: {result['reason']}", style=style)
    counts, rates = result["counts"], result["rates"]
    out.say(
        f"  attempted {counts['attempted']:,}  acknowledged {counts['acknowledged']:,}"
        f"  survivors {counts['survivors']:,}  lost {counts['lost']:,}"
        f"  unacknowledged found {counts['unacknowledged_found']:,}"
    )
    shown = (f"{name.replace('_', ' ')} rate {_rate(rates[name])}" for name in _RATES)
    out.say("  " + "  ".join(shown))
    for kind, codes in result.get("errors", {}).items():
        if codes:
            counted = (f"{code} {number:,}" for code, number in codes.items())
            out.say(f"  {kind} with {'  '.join(counted)}")
    for fault in result["faults"]:
        proven = "proven" if fault["proven"] else "NOT PROVEN"
        writes = f", {fault['ops_begun']:,} writes begun" if "ops_begun" in fault else ""
        nodes = ", ".join(fault["nodes"])
        out.say(f"  fault {fault['id']} ({fault['nemesis']}) on {nodes}: {proven}{writes}")
    out.say(f"  page {rundir.report}  seed {result['seed']}")


def print_verdict(out: Output, result: Mapping[str, Any]) -> None:
    """Print the verdict of a run in one line."""
    counts = result["counts"]
    if not out.json:
        out.say(
            f"{result['run_id']}  {result['verdict'].upper()}  lost {counts['lost']:,} of "
            f"{counts['acknowledged']:,} acknowledged: {result['reason']}"
        )


def _rate(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.6g}"


def merged_exit_code(verdicts: Iterable[str], *, errors: Sequence[AcklossError] = ()) -> int:
    """The exit code for several inputs: bad input, else invalid, else unknown, else 0."""
    codes = {EXIT_BY_VERDICT[verdict] for verdict in verdicts} | {e.exit_code for e in errors}
    return next((code for code in (4, 5, 6, 1, 3) if code in codes), 0)

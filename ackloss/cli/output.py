"""What the command line prints, and how it ends: text for the user, or one JSON document; how
results of runs are printed, and the exit code for several of them."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, cast

import orjson
import rich_click as click
from click.exceptions import Exit
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import failures
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure, Interrupted

if TYPE_CHECKING:
    from harness.history.documents import RunResult
    from harness.history.run_folder import RunDir


P = ParamSpec("P")

_WIDEST = 100_000
EXIT_BY_VERDICT = {"valid": 0, "invalid": 1, "unknown": 3}


def plain(text: object) -> str:
    """Text from any source as one line, safe for a terminal: control characters and line ends are
    shown, not sent."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


class _Stream:
    """A standard stream whose loss does not stop the work: from the first write that fails (a
    closed pipe, a full disk) what is written is dropped, and `lost` is the reason."""

    def __init__(self, file: TextIO | None) -> None:
        self._file = file
        self.lost: OSError | None = None

    def write(self, text: str | bytes) -> int:
        """click writes bytes where a shell completes a command."""
        plain = text.decode() if isinstance(text, bytes) else text
        self._attempt(lambda file: file.write(plain))
        return len(text)

    def flush(self) -> None:
        self._attempt(lambda file: file.flush())

    def isatty(self) -> bool:
        return self._file is not None and self._file.isatty()

    @property
    def encoding(self) -> str:
        return "utf-8" if self._file is None else self._file.encoding

    def _attempt(self, act: Callable[[TextIO], object]) -> None:
        if self.lost is not None:
            return
        if self._file is None:  # it was closed before this process began
            self.lost = OSError(errno.EBADF, os.strerror(errno.EBADF))
            return
        try:
            act(self._file)
        except OSError as error:
            self.lost = error
            with suppress(OSError):  # what it has buffered must not be written at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())


@dataclass(frozen=True)
class Output:
    """The output of a command: with `json`, stdout holds one document and nothing else. Nothing
    here raises if the output cannot be written; the command's exit code shows it."""

    json: bool = False
    no_color: bool = False
    quiet: bool = False
    verbose: bool = False

    @functools.cached_property
    def stdout(self) -> _Stream:
        return _Stream(sys.stdout)

    @functools.cached_property
    def stderr(self) -> _Stream:
        return _Stream(sys.stderr)

    @functools.cached_property
    def console(self) -> Console:
        """For the user: on stderr if stdout holds the document."""
        return self._console(self.stderr if self.json else self.stdout)

    def _console(self, stream: _Stream) -> Console:
        return Console(
            file=cast("TextIO", stream),
            no_color=self.no_color or None,
            markup=False,  # brackets and colons in names are no markup
            emoji=False,
            highlight=False,
            soft_wrap=True,
        )

    def say(self, text: object = "", *, style: str = "") -> None:
        """Print one line of the result for the user. If the command is quiet, a document is the
        result by itself."""
        if not (self.quiet and self.json):
            self._line(text, style)

    def progress(self, text: object, *, style: str = "") -> None:
        """Print one line for the user about what is being done, or a remark, unless the command is
        quiet."""
        if not self.quiet:
            self._line(text, style)

    def _line(self, text: object, style: str) -> None:
        self.console.print(Text(plain(text), style=style))

    def table(self, names: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
        """Print all of a table, a line for each row: a value that is cut off is not an answer.
        `None` is an empty cell."""
        table = Table(*map(plain, names), box=None)
        for row in rows:
            table.add_row(*("" if value is None else plain(value) for value in row))
        wide = self.console.options.update(width=_WIDEST)
        table.width = self.console.measure(table, options=wide).maximum
        self.console.print(table)

    def ask(self, text: str) -> None:
        """Print one line for a user whose action is awaited, even if the command is quiet."""
        self._line(text, "bold yellow")

    def note(self, text: str) -> None:
        """Print one line beside the result, on stderr."""
        if not self.quiet:
            self._console(self.stderr).print(Text(plain(text)))

    def document(self, document: object) -> None:
        """Print the command's result, a dataclass or JSON data, when JSON is requested."""
        if self.json:
            self.write(_as_json(document) + "\n")

    def show(self, document: object) -> None:
        """Print a document also to the user who does not request JSON."""
        self.document(document)
        for line in _as_json(document).split("\n") if not self.json else ():
            self.say(line)

    def write(self, text: str) -> None:
        """Write data, such as a document, to stdout as it is."""
        self.stdout.write(text)
        self.stdout.flush()

    def fail(self, error: AcklossError) -> int:
        """Print an error as one sentence or a JSON document; returns its exit code."""
        self.document(error.document())
        self.error(error)
        return error.exit_code

    def error(self, error: AcklossError) -> None:
        """Print an error as one sentence on stderr, and each that came with it."""
        style = "yellow" if isinstance(error, Interrupted) else "red"
        for each in error.every():
            sentence = Text("ackloss: ", style=style) + Text(plain(each.sentence))
            self._console(self.stderr).print(sentence)

    def unless_lost(self, code: int) -> int:
        """The exit code of a command that ended with `code`. A result that was not received is not
        a result: then it is the environment's instead of a verdict's."""
        lost = self.stdout.lost
        if lost is None or code not in EXIT_BY_VERDICT.values():
            return code
        if lost.errno == errno.EPIPE:  # its reader has left, and knows
            return EnvironmentFailure.exit_code
        return self.fail(EnvironmentFailure(f"cannot be written: {lost.strerror}", file="stdout"))


class Program(click.RichGroup):
    """All commands: what click itself prints, such as help, may be lost like what they print, and
    then ends as that does; and an interrupt outside of a command, such as while its options are
    collected, ends as one inside (click ends both with 1, which is a verdict here)."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click's."""
        with _interruptible():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """As click's."""
        with _interruptible():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As click's."""
        out = Output()
        with redirect_stdout(cast("TextIO", out.stdout)):
            try:
                return super().main(*args, **kwargs)
            except SystemExit as ended:
                out.stdout.flush()
                sys.exit(out.unless_lost(cast("int", ended.code)))


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(Output().fail(Interrupted("interrupted")))


def _as_json(document: object) -> str:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()


def with_output(command: Callable[P, None]) -> Callable[..., None]:
    """Give a command the options --json, --no-color, -q and -v; no error ends in a traceback."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
    @click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
    @click.option("-q", "--quiet", is_flag=True, help="Print only the result.")
    @click.option("-v", "--verbose", is_flag=True, help="Print more, including tracebacks.")
    @functools.wraps(command)
    def wrapped(
        *args: Any, as_json: bool, no_color: bool, quiet: bool, verbose: bool, **kwargs: Any
    ) -> None:
        out = Output(as_json, no_color or bool(os.environ.get("NO_COLOR")), quiet, verbose)
        code = 0
        try:
            command(out, *args, **kwargs)  # type: ignore[arg-type]
        except (click.ClickException, Exit, click.Abort):
            raise  # click's own, with its own exit code
        except SystemExit as ended:
            code = cast("int", ended.code)
        except AcklossError as error:
            code = out.fail(error)
        except KeyboardInterrupt:
            code = out.fail(Interrupted("interrupted"))
        except Exception as error:
            if verbose:
                traceback.print_exc()
            code = out.fail(_unexpected(error))
        sys.exit(out.unless_lost(code))

    return wrapped


def _unexpected(error: Exception) -> AcklossError:
    """An exception that no code expected: the environment's if a disk is full, else ackloss' own or
    a plug-in's."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvironmentFailure(os.strerror(error.errno), file=error.filename)
    return HarnessFailure(failures.sentence(error), hint="-v shows the traceback")


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
        short = in_short(check, known=result.verdict in CONCLUSIVE)
        counted = "  ".join(f"{count.label} {count.value}" for count in short)
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
            seen = fault.unproven or "; ".join(fault.evidence) or "nothing of it was seen"
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
    from analysis.primary import why_lost
    from reports.alarms import summary
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
    if why := why_lost([result]).why_in_words:
        out.say(f"  why lost: {why} (`ackloss explain`)")
    if result.alarms and counts.lost:
        out.say(f"  alarms: {summary(result.alarms, lost=True)}")


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

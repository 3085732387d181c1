"""What the command line prints, and how it ends: text for the user, or one JSON document."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, ParamSpec, TextIO, cast

import orjson
import rich_click as click
from click.exceptions import Exit
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import failures
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure, Interrupted

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

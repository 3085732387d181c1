"""What the command line prints, and how it ends: text for the user, or one JSON document."""

from __future__ import annotations

import functools
import math
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, ParamSpec

import orjson
import rich_click as click
from click.exceptions import Exit
from rich.console import Console
from rich.text import Text

from harness import failures
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure, Interrupted

P = ParamSpec("P")

EXIT_BY_VERDICT = {"valid": 0, "invalid": 1, "unknown": 3}


def plain(text: object) -> str:
    """Text from any source, safe for a terminal: control characters are shown, not sent."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in str(text))


def about(seconds: float) -> str:
    """An estimated time: minutes, from an hour on hours."""
    if seconds < 3600:
        return f"about {math.ceil(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


@dataclass(frozen=True)
class Output:
    """The output of a command: with `json`, stdout holds one document and nothing else."""

    json: bool = False
    no_color: bool = False
    quiet: bool = False

    @functools.cached_property
    def console(self) -> Console:
        return Console(
            stderr=self.json, no_color=self.no_color or None, highlight=False, soft_wrap=True
        )

    def say(self, text: object = "", *, style: str = "") -> None:
        """Print one line for the user."""
        if not self.quiet:
            self.console.print(Text(plain(text), style=style))

    def ask(self, text: str) -> None:
        """Print one line for a user whose action is awaited, even if the command is quiet."""
        self.console.print(Text(plain(text), style="bold yellow"))

    def document(self, document: object) -> None:
        """Print the command's result, a dataclass or JSON data, when JSON is requested."""
        if self.json:
            body = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
            sys.stdout.write(body.decode() + "\n")
            sys.stdout.flush()

    def fail(self, error: AcklossError) -> NoReturn:
        """Print an error as one sentence or a JSON document, and exit with its exit code."""
        if self.json:
            self.document(error.document())
        console = Console(stderr=True, no_color=self.no_color or None, highlight=False)
        style = "yellow" if isinstance(error, Interrupted) else "red"
        console.print(Text("ackloss: ", style=style) + Text(plain(error)), soft_wrap=True)
        sys.exit(error.exit_code)


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
        out = Output(as_json, no_color or bool(os.environ.get("NO_COLOR")), quiet)
        try:
            command(out, *args, **kwargs)  # type: ignore[arg-type]
        except (click.ClickException, Exit, click.Abort):
            raise  # click's own, with its own exit code
        except AcklossError as error:
            out.fail(error)
        except KeyboardInterrupt:
            out.fail(Interrupted("interrupted"))
        except BrokenPipeError:
            # The reader of stdout is gone: the result was not received, so this is not a success.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(EnvironmentFailure.exit_code)
        except Exception as error:
            if verbose:
                traceback.print_exc()
            out.fail(HarnessFailure(failures.sentence(error), hint="-v shows the traceback"))

    return wrapped


plan_options = [
    click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a plan key."),
    click.option("--seed", type=click.IntRange(0), help="Overrides the plan's seed."),
]


with_client_option = click.option(
    "--client", metavar="CMD", help='Your own client, for workload.client = "exec".'
)
"""Gives a command the option --client."""


def with_plan_options(command: Callable[P, None]) -> Callable[P, None]:
    """Give a command the options --set and --seed."""
    for option in reversed(plan_options):
        command = option(command)
    return command

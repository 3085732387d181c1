"""What the command line prints, and how it ends: text for people, or one JSON document."""

from __future__ import annotations

import functools
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

from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure, Interrupted

P = ParamSpec("P")

EXIT_BY_VERDICT = {"valid": 0, "invalid": 1, "unknown": 3}


def plain(text: object) -> str:
    """Text from anywhere, made harmless for a terminal: control characters are shown, not sent."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in str(text))


@dataclass(frozen=True)
class Output:
    """Where a command's words go: with `json`, stdout holds one document and nothing else."""

    json: bool = False
    no_color: bool = False
    quiet: bool = False

    @functools.cached_property
    def console(self) -> Console:
        return Console(
            stderr=self.json, no_color=self.no_color or None, highlight=False, soft_wrap=True
        )

    def say(self, text: object = "", *, style: str = "") -> None:
        """One line for people."""
        if not self.quiet:
            self.console.print(Text(plain(text), style=style))

    def document(self, document: Any) -> None:
        """The command's result, when JSON was asked for."""
        if self.json:
            body = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
            sys.stdout.write(body.decode() + "\n")
            sys.stdout.flush()

    def fail(self, error: AcklossError) -> NoReturn:
        """One clear sentence, or its JSON document; ends with the error's exit code."""
        if self.json:
            self.document(error.document())
        console = Console(stderr=True, no_color=self.no_color or None, highlight=False)
        style = "yellow" if isinstance(error, Interrupted) else "red"
        console.print(Text("ackloss: ", style=style) + Text(plain(error)), soft_wrap=True)
        sys.exit(error.exit_code)


def with_output(command: Callable[P, None]) -> Callable[..., None]:
    """Options --json, --no-color, -q and -v for a command, and no traceback, whatever happens."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
    @click.option("--no-color", is_flag=True, help="No colours (also NO_COLOR).")
    @click.option("-q", "--quiet", is_flag=True, help="Only what was asked for.")
    @click.option("-v", "--verbose", is_flag=True, help="Say more, tracebacks included.")
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
            # Whoever read along has gone: what was found out was not heard, so it is not all well.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(EnvironmentFailure.exit_code)
        except Exception as error:
            if verbose:
                traceback.print_exc()
            what = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            out.fail(HarnessFailure(f"ackloss itself failed: {what}", hint="say more with -v"))

    return wrapped


plan_options = [
    click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a plan key."),
    click.option("--seed", type=click.IntRange(0), help="The seed, instead of the plan's."),
]


def with_plan_options(command: Callable[P, None]) -> Callable[P, None]:
    """Options --set and --seed."""
    for option in reversed(plan_options):
        command = option(command)
    return command

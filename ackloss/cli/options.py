"""Options that several commands share, and the types of their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from click import Context, Parameter
from click.shell_completion import CompletionItem

from harness import registry
from harness.urls import is_url

if TYPE_CHECKING:
    from ackloss.cli.output import Output
    from harness.run.own_settings import OwnSettings


class PathOrUrl(click.ParamType[str]):
    """A path that is there, or a URL, which is looked at later."""

    name = "path or url"

    def __init__(self, *, files: bool = True) -> None:
        self._path = click.Path(exists=True, file_okay=files)

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        text = str(value)
        return text if is_url(text) else str(self._path.convert(text, param, ctx))


def key_and_value(name: str, text: str) -> tuple[str, str]:
    """The two halves of an option K=V. Raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{name} {text!r} is not K=V")
    return key, value


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

with_inventory = click.option(
    "--inventory", type=FILE, help="Your hosts, over SSH: see docs/how-to/ssh.md."
)
with_cluster = click.option(
    "--cluster", type=FILE, help="A cluster that you run: see docs/how-to/external.md."
)


class FileOrName(click.ParamType[Path]):
    """A file that exists, or the name of one that comes with ackloss, which is looked up later."""

    name = "file or name"

    def __init__(self, kind: str = "plan") -> None:
        self._kind = kind

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        from harness.plan.parsing import is_path

        text = str(value)
        if not text:  # as a path it would be this folder
            hint = f"name a file, or one that `ackloss list {self._kind}s` shows"
            self.fail(f"the name of a {self._kind} is empty; {hint}", param, ctx)
        if is_path(text) or Path(text).is_file():
            return Path(FILE.convert(text, param, ctx))
        return Path(text)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so, also by their last part; the shell has the files."""
        from harness.plan.parsing import named_files

        names = list(named_files(f"{self._kind}s"))
        last = Counter(name.rpartition("/")[2] for name in names)
        names += [name for name, times in last.items() if times == 1 and name not in names]
        of_files = FILE.shell_complete(ctx, param, incomplete)
        return of_files + [CompletionItem(name) for name in names if name.startswith(incomplete)]


class CommandWithSettingsFiles(click.RichCommand):
    """A command with an option for each file of settings that some target takes. Its function is
    called with them as further keyword arguments."""

    _options: list[click.Parameter] | None = None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, and those options before its last one, --help."""
        if self._options is None:
            self._options = _options()
        params: list[click.Parameter] = super().get_params(ctx)
        return [*params[:-1], *self._options, *params[-1:]]


def _options() -> list[click.Parameter]:
    helps = {
        name: text
        for target in registry.usable("targets")
        for name, text in registry.target_named(target).settings_files.items()
    }
    return [
        *(click.Option([f"--{name}"], type=FILE, help=text) for name, text in helps.items()),
        click.Option(
            ["--strict"], is_flag=True, help="Refuse settings in these files that are not known."
        ),
        click.Option(
            ["--real-timeouts"],
            is_flag=True,
            help="The time-outs of these files or of the system, not the short ones of ackloss.",
        ),
    ]


def taken(options: dict[str, Any]) -> OwnSettings:
    """Take these options out of a command's keyword arguments; the files are what remains."""
    from harness.run.own_settings import OwnSettings

    flags = {name: bool(options.pop(name, False)) for name in ("strict", "real_timeouts")}
    files = {name: options.pop(name) for name in list(options) if isinstance(options[name], Path)}
    return OwnSettings(files={n.replace("_", "-"): f for n, f in files.items()}, **flags)


def print_own(out: Output, *documents: Mapping[str, Any]) -> None:
    """What came of the files in these plans, each line once."""
    from harness.plan.model import Yours, sentences

    yours = (Yours.model_validate(each.get("yours", {})) for each in documents)
    for line in dict.fromkeys(line for each in yours for line in sentences(each)):
        out.progress(line, style="yellow")


def with_options(options: Iterable[Callable[..., Any]]) -> Callable[..., Any]:
    """Give a command these options, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed([*options]), command)


with_plan_options = with_options(
    [
        click.option(
            "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a plan key."
        ),
        click.option("--seed", type=click.IntRange(0), help="Overrides the plan's seed."),
    ]
)
with_client_option = click.option(
    "--client", metavar="CMD", help='Your own client, for workload.client = "exec".'
)

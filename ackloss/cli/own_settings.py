"""The user's own settings files, for targets that accept some: options of the commands that run.

Each target defines the names of its options (`Target.settings_files`), so that
they are found only when the command itself is called, not for `ackloss --help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from harness import registry

if TYPE_CHECKING:
    from ackloss.cli.output import Output
    from harness.run.own_settings import OwnSettings

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


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
        *(click.Option([f"--{name}"], type=_FILE, help=text) for name, text in helps.items()),
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

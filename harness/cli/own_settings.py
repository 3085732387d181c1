"""The user's own settings files, for targets that accept some: options of `ackloss run`.

Each target defines the names of its options (`harness.protocols.tools.TakesSettingsFiles`), so that
they are found only when the command itself is called, not for `ackloss --help`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from harness import registry
from harness.errors import PlanError

if TYPE_CHECKING:
    from harness.plan import Plan

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
    from harness.protocols.tools import TakesSettingsFiles

    helps = {
        name: text
        for target in registry.usable("targets")
        if isinstance(plugin := registry.target_named(target), TakesSettingsFiles)
        for name, text in plugin.settings_files.items()
    }
    return [click.Option([f"--{name}"], type=_FILE, help=text) for name, text in helps.items()]


def given(options: Mapping[str, Path | None]) -> dict[str, Path]:
    """The files by the name of their option, of a command's keyword arguments."""
    return {name.replace("_", "-"): path for name, path in options.items() if path is not None}


@dataclass
class OwnSettings:
    """Files by the name of their option. `say` gets each remark about them once."""

    files: Mapping[str, Path]
    say: Callable[[str], None]
    _said: set[str] = field(default_factory=set)

    def added_to(self, document: Mapping[str, object], plan: Plan) -> dict[str, object]:
        """The plan's document with these settings; the plan's own override them.

        `plan` is the parsed document. Raises PlanError for a system that does not accept these
        files, and for a file that cannot be read.
        """
        from harness.protocols.tools import TakesSettingsFiles

        target = registry.target_named(plan.target.system)
        takes = target.settings_files if isinstance(target, TakesSettingsFiles) else {}
        for name in self.files:
            if name not in takes:
                raise PlanError(
                    f"{plan.target.system} takes no --{name}",
                    key="target.system",
                    hint="leave it out",
                )
        if not isinstance(target, TakesSettingsFiles) or not self.files:
            return dict(document)
        return target.with_settings_files(document, plan, self.files, self._say_once)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self.say(sentence)

"""`ackloss list`."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import rich_click as click

from harness import registry
from harness.cli.output import Output, with_output
from harness.installation import CAMPAIGNS, PLANS

if TYPE_CHECKING:
    from harness.protocols.tools import SettingHelp

SCHEDULES = "schedules"
SETTINGS = "settings"
_NAMED = (SCHEDULES, PLANS, CAMPAIGNS)
"""What is listed with one line about each."""

_FEW = 12


@dataclass(frozen=True)
class OptionHelp:
    """An option of a plug-in: a field of its dataclass."""

    name: str
    type: str
    default: object


@dataclass(frozen=True)
class PluginHelp:
    """A plug-in, as `list` describes it."""

    about: str
    options: builtins.list[OptionHelp]


@click.command()
@click.argument("kind", required=False, type=click.Choice((*registry.KINDS, *_NAMED, SETTINGS)))
@click.argument("words", nargs=-1)
@with_output
def list(out: Output, kind: str | None, words: tuple[str, ...]) -> None:
    """List the plug-ins with their options, and the schedules, plans and campaigns that come with
    ackloss; or the settings of systems that a plan may set, of a level or with WORDS in their name
    or help: `ackloss list settings topic retention`."""
    if kind == SETTINGS:
        _list_settings(out, [word.lower() for word in words])
        return
    if words:
        raise click.UsageError(f"words choose among settings: ackloss list {SETTINGS} {words[0]}")
    kinds = [kind] if kind else [*registry.KINDS, *_NAMED]
    plugins = {
        each: {name: _described(plugin) for name, plugin in registry.plugins(each).items()}
        for each in kinds
        if each not in _NAMED
    }
    named = {each: _abouts(each) if each in kinds else {} for each in _NAMED}
    unusable = {each: dict(_unusable(each)) for each in plugins}
    document = {"schema": 1, "plugins": plugins, **named}
    document["unusable"] = {each: why for each, why in unusable.items() if why}
    out.document({**document, "astray": registry.astray()})
    if out.json:
        return
    for each, of_kind in plugins.items():
        out.say(each, style="bold")
        for name, plugin in of_kind.items():
            out.say(f"  {name:12} {_first_sentence(plugin.about)}")
            for option in plugin.options:
                out.say(f"    {option.name} = {option.default}   {option.type}")
        for sentence in unusable[each].values():
            out.say(f"  {sentence}", style="yellow")
    for name in registry.astray():
        kinds_of = " or ".join(f"{each}.NAME" for each in registry.KINDS)
        out.say(
            f"the entry point {name!r} names no kind of plug-in: use {kinds_of}", style="yellow"
        )
    for each, by_name in named.items():
        if by_name:
            out.say(each, style="bold")
        for name, about in by_name.items():
            out.say(f"  {name:28} {about}")


def _list_settings(out: Output, words: Sequence[str]) -> None:
    """Those that have all the words; people see those that a plan may set, and of others the
    reason, if there are no more than a few."""
    from harness.protocols.tools import ListsSettings

    every = [
        (system, each)
        for system in registry.usable("targets")
        if isinstance(target := registry.target_named(system), ListsSettings)
        for each in target.listed_settings()
    ]
    levels = {each.level for _, each in every}
    found = [
        (system, each)
        for system, each in every
        if all(word == each.level if word in levels else word in _text(each) for word in words)
    ]
    out.document({"schema": 1, SETTINGS: [{"system": s, **asdict(each)} for s, each in found]})
    if out.json:
        return
    refused = [(system, each) for system, each in found if each.refused]
    place = ""
    for system, each in found:
        if each.refused:
            continue
        if each.place != place:
            place = each.place
            out.say(f"{system}: {place}", style="bold")
        facts = [each.values, each.default and f"default {each.default}"]
        named = each.names.items()
        facts.append(
            ", ".join(lib if name == each.name else f"{lib} ({name})" for lib, name in named)
        )
        out.say(f"  {each.name:45} {each.versions:15} {each.help}")
        out.say(f"  {'':45} {'; '.join(filter(None, facts))}", style="dim")
    if len(refused) > _FEW:
        out.say(f"{len(refused)} others that no plan may set: --json lists them with the reasons")
        return
    for system, each in refused:
        out.say(f"{system}: {each.level} {each.name}: no plan may set it: {each.refused}")


def _text(setting: SettingHelp) -> str:
    return " ".join((setting.name, *setting.names.values(), setting.help)).lower()


def _first_sentence(about: str) -> str:
    """The first sentence of a docstring, in one line."""
    return re.split(r"(?<=[^.]\.)\s", " ".join(about.partition("\n\n")[0].split()), maxsplit=1)[0]


def _abouts(kind: str) -> dict[str, str]:
    """What each named thing is about, in one line, by name."""
    from harness.plan.expansion import named_schedules
    from harness.plan.shipped import abouts

    if kind != SCHEDULES:
        return abouts(kind)
    return {name: schedule["about"] for name, schedule in named_schedules().items()}


def _unusable(kind: str) -> Iterator[tuple[str, str]]:
    """The names of the plug-ins of one kind that cannot be used, and why."""
    for name, why in registry.broken(kind).items():
        yield name, f"the plug-in {name!r} {why}"
    for name in registry.plugins(kind):
        if why_not := registry.why_unusable(kind, name):
            yield name, why_not


def _described(plugin: type) -> PluginHelp:
    if not dataclasses.is_dataclass(plugin):
        return PluginHelp(about=inspect.getdoc(plugin) or "", options=[])
    options = [
        OptionHelp(
            name=field.name,
            type=str(field.type),
            default=None if field.default is dataclasses.MISSING else field.default,
        )
        for field in dataclasses.fields(plugin)
    ]
    return PluginHelp(about=inspect.getdoc(plugin) or "", options=options)

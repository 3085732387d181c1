"""`ackloss list|version`: the plug-ins, plans and settings there are, and the versions in use."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import json
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version as installed
from typing import TYPE_CHECKING, Any

import rich_click as click

from ackloss.cli.output import Output, with_output
from harness import __version__, registry

if TYPE_CHECKING:
    from harness.plan import Plan
    from harness.protocols.systems import SettingHelp


SCHEDULES = "schedules"
SETTINGS = "settings"
_NAMED = (SCHEDULES, "plans", "campaigns")
"""What is listed with one line about each."""

Schema = dict[str, Any]
_FEW = 12


@dataclass(frozen=True)
class OptionHelp:
    """An option of a plug-in, or a key of a plan's section."""

    name: str
    type: str
    default: object
    help: str = ""


@dataclass(frozen=True)
class PluginHelp:
    """A plug-in, as `list` describes it."""

    about: str
    options: builtins.list[OptionHelp]
    sections: dict[str, builtins.list[OptionHelp]] = field(default_factory=dict)

    def about_these(self, name: str, words: Sequence[str]) -> PluginHelp | None:
        """What of it has all the words, each in the plug-in's name, a section, or an option."""
        left = [word for word in words if word not in f"{name} {self.about}".lower()]
        sections = {
            section: found
            for section, options in self.sections.items()
            if (found := _with_words(options, [w for w in left if w not in section]))
        }
        options = _with_words(self.options, left)
        if options or sections or not left:
            return replace(self, options=options, sections=sections)
        return None


@click.command()
@click.argument("kind", required=False, type=click.Choice((*registry.KINDS, *_NAMED, SETTINGS)))
@click.argument("words", nargs=-1)
@with_output
def list(out: Output, kind: str | None, words: tuple[str, ...]) -> None:
    """List the plug-ins with their options, and the schedules, plans and campaigns that come with
    ackloss; or the settings of systems that a plan may set. WORDS choose among them, by name, help,
    section or level: `ackloss list targets kafka topic`, `ackloss list settings topic retention`.
    """
    wanted = [word.lower() for word in words]
    if kind == SETTINGS:
        _list_settings(out, wanted)
        return
    kinds = [kind] if kind else [*registry.KINDS, *_NAMED]
    plugins = {
        each: {
            name: described
            for name, plugin in registry.plugins(each).items()
            if (described := _described(each, name, plugin).about_these(name, wanted))
        }
        for each in kinds
        if each not in _NAMED
    }
    named = {
        each: {
            name: about
            for name, about in (_abouts(each) if each in kinds else {}).items()
            if all(word in f"{name} {about}".lower() for word in wanted)
        }
        for each in _NAMED
    }
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
                out.say(f"    {_in_words(option)}")
            for section, keys in plugin.sections.items():
                out.say(f"    [{section}]")
                for key in keys:
                    out.say(f"      {_in_words(key)}")
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
    every = [
        (system, each)
        for system in registry.usable("targets")
        for each in registry.target_named(system).listed_settings()
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
    from harness.plan.parsing import abouts
    from harness.plan.steps import named_schedules

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


def _with_words(options: Sequence[OptionHelp], words: Sequence[str]) -> builtins.list[OptionHelp]:
    return [o for o in options if all(w in f"{o.name} {o.help}".lower() for w in words)]


def _in_words(option: OptionHelp) -> str:
    shown = option.default if isinstance(option.default, str) else json.dumps(option.default)
    default = "" if option.default in (None, "", [], ()) else f", default {shown}"
    return f"{option.name}: {option.type}{default}" + (f"   {option.help}" if option.help else "")


def _described(kind: str, name: str, plugin: type) -> PluginHelp:
    about = inspect.getdoc(plugin) or ""
    if not dataclasses.is_dataclass(plugin) or registry.why_unusable(kind, name) is not None:
        return PluginHelp(about=about, options=[])
    schema = registry.adapter(plugin).json_schema()
    sections = dict(_sections(registry.plugins(kind)[name].plan)) if kind == "targets" else {}
    return PluginHelp(about=about, options=_options(schema, schema), sections=sections)


def _sections(model: type[Plan]) -> Iterator[tuple[str, builtins.list[OptionHelp]]]:
    """The sections of a system's plans that no other system has, with their keys."""
    from harness.plan import Plan

    schema = model.model_json_schema(by_alias=True)
    for name, own in model.model_fields.items():  # of a core section with more keys, all
        core = Plan.model_fields.get(name)
        if core is None or core.annotation is not own.annotation:
            yield name, _options(_whole(schema["properties"][name], schema), schema)


def _options(table: Schema, schema: Schema) -> builtins.list[OptionHelp]:
    return [
        OptionHelp(name, _type(each, schema), each.get("default"), each.get("description", ""))
        for name, each in dict(table.get("properties", {})).items()
    ]


def _whole(part: Schema, schema: Schema) -> Schema:
    """A part of a JSON Schema, or what it refers to."""
    reference = part.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][reference] if reference else part


def _type(part: Schema, schema: Schema) -> str:
    """The type of a value in words."""
    part = _whole(part, schema)
    if values := part.get("enum") or ([part["const"]] if "const" in part else []):
        return " or ".join(map(str, values))
    forms = [_type(form, schema) for form in part.get("anyOf") or part.get("oneOf") or ()]
    if forms:
        return " or ".join(dict.fromkeys(form for form in forms if form != _TYPES["null"]))
    if part.get("type") == "array":
        items = part.get("items")
        return f"list of {_type(items, schema)}" if isinstance(items, dict) else "list"
    return _TYPES.get(part.get("type", ""), "any value")


_TYPES = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "true or false",
    "object": "table",
    "null": "nothing",
}


@click.command()
@with_output
def version(out: Output) -> None:
    """Show the versions of ackloss and of the libraries that it uses."""
    versions = {
        "ackloss": __version__,
        "python": platform.python_version(),
        **{name: installed(name) for name in (*_client_libraries(), "pyspark")},
    }
    for name, value in versions.items():
        if not out.json:
            out.say(f"{name:16} {value}")
    out.document({"schema": 1, "versions": versions})


def _client_libraries() -> builtins.list[str]:
    """The Python packages of every target's clients."""
    targets = (registry.target_named(name) for name in registry.usable("targets"))
    return [name for each in targets for name in each.packages]

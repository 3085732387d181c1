"""Finds plug-ins by name, without a list to edit, and refuses those that cannot be used.

A plug-in is a frozen dataclass with a class variable `plugin`, in a module of its kind's folder or
behind an entry point of the group `ackloss.plugins` (`nemeses.NAME`). Its fields are its options.
It inherits the protocol of its kind (`harness.protocols`), whose methods are abstract.

A plug-in that cannot be imported, or lacks something of its protocol, is refused with each plan
that names it; other plans are not affected.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from harness.errors import PlanError, nearest

GROUP = "ackloss.plugins"

PACKAGES = {
    "nemeses": "nemeses",
    "workloads": "workloads",
    "targets": "targets",
    "checkers": "checkers",
    "clusters": "harness.clusters",
}
"""The package of each kind of plug-in."""

CONTRACTS = {
    "nemeses": ("faults.Nemesis", "crashes.ClientNemesis"),
    "workloads": ("operations.Workload",),
    "targets": ("systems.Target",),
    "checkers": ("checkers.Checker",),
    "clusters": ("clusters.Provider",),
}
"""By kind, the protocols in `harness.protocols`, above this module, of which a plug-in has one."""

KINDS = tuple(PACKAGES)


@dataclass
class _Found:
    """The plug-ins of one kind by name, and by name why others cannot be imported."""

    plugins: dict[str, type[Any]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


def plugins(kind: str) -> dict[str, type[Any]]:
    """The plug-ins of one kind by name, sorted."""
    return _found(kind).plugins


def broken(kind: str) -> Mapping[str, str]:
    """By name, the plug-ins of one kind that cannot be imported, and why."""
    return _found(kind).broken


@cache
def _found(kind: str) -> _Found:
    found = _Found()
    package = importlib.import_module(PACKAGES[kind])
    for module in pkgutil.iter_modules(package.__path__):
        try:
            loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        except (Exception, SystemExit) as error:
            found.broken[module.name] = f"{type(error).__name__}: {error}"
        else:
            found.plugins |= {each.plugin: each for each in _declared(loaded, package.__name__)}
    for entry in entry_points(group=GROUP):
        if entry.name.partition(".")[0] == kind:
            _load(entry, found)
    found.plugins = dict(sorted(found.plugins.items()))
    return found


def _declared(module: object, package: str) -> Iterator[type[Any]]:
    """The plug-ins in a module of this package."""
    for _, thing in inspect.getmembers(module, inspect.isclass):
        if isinstance(thing.__dict__.get("plugin"), str) and thing.__module__.startswith(package):
            yield thing


def _load(entry: EntryPoint, found: _Found) -> None:
    name = entry.name.partition(".")[2]
    try:
        thing = entry.load()
    except (Exception, SystemExit) as error:
        found.broken[name] = f"{type(error).__name__}: {error}"
        return
    declared = getattr(thing, "plugin", None)
    if inspect.isclass(thing) and isinstance(declared, str):
        found.plugins[declared] = thing
    else:
        found.broken[name] = f"{entry.value} is no class with a class variable `plugin`"


def usable(kind: str) -> list[str]:
    """The names of the plug-ins of one kind that can be used."""
    return [name for name in plugins(kind) if why_unusable(kind, name) is None]


def default_target() -> str | None:
    """The name of the target that plans mean which name none: the one that says `default`."""
    return next((n for n, t in plugins("targets").items() if getattr(t, "default", False)), None)


def target_named(system: object) -> object | None:
    """The named target, or the default one for `None`; `None` if there is no such target."""
    name = str(default_target() if system is None else system)
    if name not in plugins("targets") or why_unusable("targets", name):
        return None
    target: object = plugins("targets")[name]()
    return target


def why_unusable(kind: str, name: str) -> str | None:
    """Why a plug-in that was found cannot be used, a sentence with its file; `None` if it can."""
    plugin = plugins(kind)[name]
    parameters = getattr(plugin, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        return f"the plug-in {name!r} is not a frozen dataclass ({_file(plugin)})"
    contracts = [_contract(path) for path in CONTRACTS[kind]]
    contract, lacking = min(
        ((each, _lacking(plugin, each)) for each in contracts), key=lambda pair: len(pair[1])
    )
    if not lacking:
        return None
    return (
        f"the plug-in {name!r} lacks {', '.join(lacking)} of the protocol {contract.__name__} "
        f"({_file(plugin)})"
    )


def _contract(path: str) -> type[Any]:
    module, _, name = path.partition(".")
    contract: type[Any] = getattr(importlib.import_module(f"harness.protocols.{module}"), name)
    return contract


def _lacking(plugin: type[Any], contract: type[Any]) -> list[str]:
    """What a plug-in has not of a protocol, and what it inherits without a body."""
    abstract: frozenset[str] = contract.__abstractmethods__
    unwritten: frozenset[str] = getattr(plugin, "__abstractmethods__", frozenset())
    absent = {name for name in abstract if getattr(plugin, name, None) is None}
    variables = {name for name in contract.__annotations__ if not hasattr(plugin, name)}
    return [*sorted(variables), *(f"{name}()" for name in sorted(absent | unwritten))]


def _file(plugin: type[Any]) -> str:
    try:
        return inspect.getsourcefile(plugin) or plugin.__module__
    except TypeError:
        return plugin.__module__


def check_name(kind: str, name: object, *, key: str, file: str = "") -> None:
    """Raise PlanError unless a plug-in of this kind has this name and can be used; the nearest name
    is suggested."""
    known, why_broken = plugins(kind), broken(kind)
    if name in known:
        if why := why_unusable(kind, str(name)):
            raise PlanError(why, file=file or None, key=key, hint="complete it or uninstall it")
        return
    if str(name) in why_broken:
        raise PlanError(
            f"the plug-in {name!r} in {kind} cannot be imported: {why_broken[str(name)]}",
            file=file or None,
            key=key,
            hint="fix it or uninstall it",
        )
    near = nearest(str(name), list(known))
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
    if why_broken:
        hint += f" (cannot be imported: {', '.join(why_broken)})"
    raise PlanError(f"there is no {name!r} in {kind}", file=file or None, key=key, hint=hint)


def make(kind: str, name: str, options: Mapping[str, Any], *, key: str, file: str = "") -> Any:
    """The named plug-in with its options validated.

    Raises PlanError for an unknown name (the nearest is suggested), a plug-in that cannot be used,
    an unknown option or a wrong value; `key` is where the name stands in the plan.
    """
    check_name(kind, name, key=key, file=file)
    plugin = plugins(kind)[name]
    place = key.rpartition(".")[0]
    fields = [field.name for field in dataclasses.fields(plugin)]
    for option in options:
        if option not in fields:
            near = nearest(option, fields)
            raise PlanError(
                f"{name} has no option {option!r}",
                file=file or None,
                key=f"{place}.{option}".lstrip("."),
                hint=f"did you mean {near!r}?"
                if near
                else f"it has: {', '.join(fields) or 'none'}",
            )
    try:
        return adapter(plugin).validate_python(dict(options))
    except PlanError as error:
        error.key = f"{place}.{error.key}".lstrip(".")
        raise
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in (place, *first["loc"]) if part != "")
        message = str(first["msg"]).removeprefix("Value error, ")
        raise PlanError(message[0].lower() + message[1:], file=file or None, key=at) from error


def adapter(plugin: type[Any]) -> TypeAdapter[Any]:
    """pydantic's view of a plug-in: validates its options and knows their JSON schema."""
    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(plugin))

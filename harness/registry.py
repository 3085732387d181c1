"""Finds plug-ins by name, without a list to edit, and refuses those that cannot be used.

A plug-in is a frozen dataclass with a class variable `plugin`, in a module of its kind's folder or
behind an entry point of the group `ackloss.plugins` (`nemeses.NAME`), or in a file of a folder that
the environment names (`FOLDERS`; `ackloss --plugin`). Its fields are its options.
It inherits the base class of its kind (`harness.protocols`), some of whose methods are abstract.

A plug-in that cannot be imported or used is refused with each plan that names it; other plans are
not affected. What only a call shows is checked where it is made (`harness.failures.validated`).
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.errors import PlanError, nearest
from harness.wrong_values import dotted, first_of, what_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

GROUP = "ackloss.plugins"
FOLDERS: Final = "ACKLOSS_PLUGINS"
"""The environment variable with folders of plug-in files, which processes that ackloss starts
inherit."""

PACKAGES = {
    "nemeses": "nemeses",
    "workloads": "workloads",
    "targets": "targets",
    "checkers": "checkers",
    "clusters": "harness.clusters",
}
"""The package of each kind of plug-in."""

KINDS = tuple(PACKAGES)

BASES: Final = {
    "nemeses": "Nemesis",
    "workloads": "Workload",
    "targets": "Target",
    "checkers": "Checker",
    "clusters": "Provider",
}
"""The base class of each kind, in `harness.protocols`."""

_BASE_MODULES: Final = ("harness.protocols", "harness.servers")

RESERVED: Final = {
    "nemeses": frozenset(
        {
            *("id", "at_s", "when", "within_s", "after_s", "else", "nemesis", "nodes", "for_s"),
            *("heal", "repeat", "weight"),
        }
    ),
    "checkers": frozenset({"name"}),
    "clusters": frozenset({"kind"}),
}
"""By kind, the keys of the core in the tables of a plan that hold a plug-in's options too."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

MODULE = "<module>"
"""How a traceback names the code of a module that is being imported."""


@dataclass
class _Found:
    """The plug-ins of one kind by name, by name the other classes that have the same name, and by
    name why others cannot be used, a predicate without a full stop."""

    plugins: dict[str, type[Any]] = field(default_factory=dict)
    rivals: dict[str, list[type[Any]]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def add(self, plugin: type[Any]) -> None:
        """A class, which may have been found before: in a module that imports it."""
        if self.plugins.setdefault(plugin.plugin, plugin) is not plugin:
            self.rivals.setdefault(plugin.plugin, []).append(plugin)


def plugins(kind: str) -> dict[str, type[Any]]:
    """The plug-ins of one kind by name, sorted."""
    return _found(kind).plugins


def broken(kind: str) -> Mapping[str, str]:
    """By name, the plug-ins of one kind that are not plug-ins of this name or cannot be imported,
    and why, a predicate."""
    return _found(kind).broken


def astray() -> list[str]:
    """The names of entry points of our group that name no kind of plug-in."""
    names = {entry.name for entry in entry_points(group=GROUP)}
    return sorted(name for name in names if not name.startswith(tuple(f"{k}." for k in KINDS)))


def _named(kind: str, name: object) -> type[Any] | None:
    """The plug-in of one kind that has this name, if any."""
    return _alone(kind, str(name)) or plugins(kind).get(str(name))


@cache
def _alone(kind: str, name: str) -> type[Any] | None:
    """The plug-in in the module of our package that has its name, so that no other one is imported;
    `None` if there is none, or a rival could be elsewhere: then all are to be looked at."""
    elsewhere = os.environ.get(FOLDERS) or entry_points(group=GROUP, name=f"{kind}.{name}")
    if elsewhere or name not in (each.name for each in _modules(kind)):
        return None
    try:
        loaded = importlib.import_module(f"{PACKAGES[kind]}.{name}")
    except (Exception, SystemExit):
        return None
    return next((p for p in _declared(loaded, PACKAGES[kind]) if p.plugin == name), None)


def _modules(kind: str) -> Iterator[pkgutil.ModuleInfo]:
    return pkgutil.iter_modules(importlib.import_module(PACKAGES[kind]).__path__)


@cache
def _found(kind: str) -> _Found:
    found = _Found()
    for module in _modules(kind):
        try:
            loaded = importlib.import_module(f"{PACKAGES[kind]}.{module.name}")
        except (Exception, SystemExit) as error:
            found.broken[module.name] = _not_imported(error)
        else:
            for each in _declared(loaded, PACKAGES[kind]):
                found.add(each)
    for entry in entry_points(group=GROUP):
        if entry.name.startswith(f"{kind}."):
            _load(entry, found)
    _load_files(kind, found)
    found.plugins = dict(sorted(found.plugins.items()))
    return found


def _load_files(kind: str, found: _Found) -> None:
    """The plug-ins of this kind in the folders that the environment names. A file that cannot be
    used is broken under its own name."""
    folders = [folder for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder]
    for file in (file for folder in folders for file in sorted(Path(folder).glob("*.py"))):
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))  # so other processes can import it by name
        try:
            loaded = importlib.import_module(file.stem)
        except (Exception, SystemExit) as error:
            found.broken[file.stem] = _not_imported(error)
            continue
        if not Path(loaded.__file__ or "").samefile(file):
            found.broken[file.stem] = f"is hidden by {loaded.__file__}: rename {file}"
            continue
        for each in _declared(loaded, file.stem):
            if any(base.__name__ == BASES[kind] for base in each.__mro__):
                found.add(each)


def _declared(module: object, package: str) -> Iterator[type[Any]]:
    """The plug-ins in a module of this package."""
    for _, thing in inspect.getmembers(module, inspect.isclass):
        if isinstance(thing.__dict__.get("plugin"), str) and thing.__module__.startswith(package):
            yield thing


def _not_imported(error: BaseException) -> str:
    """What an import raised, on one line, and the line of a module at which it ended."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    frames = traceback.extract_tb(error.__traceback__)
    place = next(
        (f" ({f.filename}, line {f.lineno})" for f in frames[::-1] if f.name == MODULE), ""
    )
    return f"cannot be imported: {what:.200}{place}"


def _load(entry: EntryPoint, found: _Found) -> None:
    name = entry.name.partition(".")[2]
    try:
        thing = entry.load()
    except (Exception, SystemExit) as error:
        found.broken[name] = _not_imported(error)
        return
    declared = getattr(thing, "plugin", None)
    if not (inspect.isclass(thing) and isinstance(declared, str)):
        found.broken[name] = f"is {entry.value}, no class with a class variable `plugin`"
    elif declared != name:
        found.broken[name] = f"is {entry.value}, whose `plugin` is {declared!r}: make them equal"
    else:
        found.add(thing)


def usable(kind: str) -> list[str]:
    """The names of the plug-ins of one kind that can be used."""
    return [name for name in plugins(kind) if why_unusable(kind, name) is None]


def default_target() -> str | None:
    """The name of the target that plans mean which name none: the one that says `default`."""
    return next((n for n, t in plugins("targets").items() if getattr(t, "default", False)), None)


def target_named(system: object) -> Any:
    """The named target (`harness.protocols.Target`), or the default one for `None`; `None` if there
    is no such target."""
    name = str(default_target() if system is None else system)
    plugin = _named("targets", name)
    return None if plugin is None or why_unusable("targets", name) else plugin()


def model_of(workload: str) -> str:
    """The model of a workload's operations. Raises KeyError for an unknown workload."""
    return str((_alone("workloads", workload) or plugins("workloads")[workload]).model)


def why_unusable(kind: str, name: str) -> str | None:
    """Why a plug-in that was found cannot be used, a sentence with its file; `None` if it can."""
    plugin: Any = _named(kind, name)
    if not _alone(kind, name) and (rivals := _found(kind).rivals.get(name)):
        files = " and ".join(sorted({_file_of(each) for each in (plugin, *rivals)}))
        return f"the plug-in {name!r} is there more than once, in {files}"
    why = _first_breach(kind, plugin)
    return f"the plug-in {name!r} {why} ({_file_of(plugin)})" if why else None


@cache
def _first_breach(kind: str, plugin: Any) -> str | None:
    return next(_breaches(kind, plugin), None)


def _breaches(kind: str, plugin: type[Any]) -> Iterator[str]:
    """What a plug-in lacks of its base class, and what it declares that no plan could hold."""
    from pydantic.errors import PydanticUserError

    parameters = getattr(plugin, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        yield "is not a frozen dataclass"
        return
    bases = [base for base in plugin.__mro__ if base.__module__.startswith(_BASE_MODULES)]
    if not bases:
        yield "inherits no base class of harness.protocols"
        return
    declared = {
        name
        for base in bases
        for name, kind in vars(base).get("__annotations__", {}).items()
        if str(kind).startswith("ClassVar")
    }
    methods = set(getattr(plugin, "__abstractmethods__", ())) | {
        one
        for one, other in getattr(plugin, "either", ())
        if all(getattr(plugin, name) is getattr(bases[0], name) for name in (one, other))
    }
    if lacking := [
        *sorted(name for name in declared if not hasattr(plugin, name)),
        *(f"{name}()" for name in sorted(methods)),
    ]:
        yield f"lacks {', '.join(lacking)} of {bases[0].__name__}"
    if not _NAME.fullmatch(plugin.plugin):
        yield f"has the name {plugin.plugin!r}, which no plan can hold: use a-z, 0-9, '-'"
    for option in dataclasses.fields(plugin):
        if option.name in declared:
            yield f"declares `{option.name}` as an option: annotate it as ClassVar"
        if option.default is option.default_factory is dataclasses.MISSING:
            yield f"has an option without a default: {option.name}"
        if option.name in RESERVED.get(kind, ()):
            yield f"has an option {option.name!r}, which is a key of every such table: rename it"
    try:
        adapter(plugin).json_schema()
    except PydanticUserError as error:
        what = str(error).partition(". ")[0]
        yield f"has an option of a type that no plan can hold: {what}"


def _file_of(plugin: type[Any]) -> str:
    """The source file of a plug-in, or else its module."""
    try:
        return inspect.getsourcefile(plugin) or plugin.__module__
    except TypeError:
        return plugin.__module__


def adapter(plugin: Any) -> TypeAdapter[Any]:
    """pydantic's view of a plug-in, a class: validates its options and knows their JSON schema."""
    return _adapter(plugin)


@cache
def _adapter(plugin: type[Any]) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter, with_config

    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(plugin))


def check_name(kind: str, name: object, *, key: str, file: str = "") -> None:
    """Raise PlanError unless a plug-in of this kind has this name and can be used; the nearest name
    is suggested."""
    why = None
    # A plan may hold a list here.
    if _named(kind, name) and (why := why_unusable(kind, str(name))) is None:
        return
    known, why_broken = plugins(kind), broken(kind)
    if why is None and str(name) in why_broken:
        why = f"the plug-in {name!r} in {kind} {why_broken[str(name)]}"
    if why is not None:
        raise PlanError(why, file=file or None, key=key, hint="fix it or uninstall it")
    near = nearest(str(name), list(known))
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
    if why_broken:
        hint += f" ({'; '.join(f'{each} {why}' for each, why in why_broken.items())})"
    if strays := [each for each in astray() if each.rpartition(".")[2] == name]:
        hint += f"; name the entry point {strays[0]!r} {f'{kind}.{name}'!r}"
    raise PlanError(f"there is no {name!r} in {kind}", file=file or None, key=key, hint=hint)


def make(kind: str, name: str, options: Mapping[str, Any], *, key: str, file: str = "") -> Any:
    """The named plug-in with its options validated.

    Raises PlanError for an unknown name (the nearest is suggested), a plug-in that cannot be used,
    an unknown option or a wrong value; `key` is where the name is in the plan.
    """
    from pydantic import ValidationError

    check_name(kind, name, key=key, file=file)
    plugin: Any = _named(kind, name)
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
        findings = first_of(error.errors(include_url=False))
        at = ".".join(filter(None, (place, dotted(findings[0]["loc"]))))
        what, hint = what_of(findings)
        raise PlanError(what, file=file or None, key=at or None, hint=hint) from error

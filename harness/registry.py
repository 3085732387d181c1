"""Finds plug-ins by name, without a list to edit.

A plug-in is a frozen dataclass with a class variable `plugin`, in a module of its kind's folder or
behind an entry point of the group `ackloss.plugins`. Its fields are its options.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from harness.errors import PlanError, nearest

PACKAGES = {
    "nemeses": "nemeses",
    "workloads": "workloads",
    "targets": "targets",
    "checkers": "checkers",
    "clusters": "harness.clusters",
}
"""The package of each kind of plug-in."""

KINDS = tuple(PACKAGES)


@cache
def plugins(kind: str) -> dict[str, type[Any]]:
    """The plug-ins of one kind by name, sorted."""
    found: dict[str, type[Any]] = {}
    package = importlib.import_module(PACKAGES[kind])
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        for _, thing in inspect.getmembers(loaded, inspect.isclass):
            name = thing.__dict__.get("plugin")
            if isinstance(name, str) and thing.__module__.startswith(package.__name__):
                found[name] = thing
    for entry in entry_points(group="ackloss.plugins"):
        if entry.name.partition(".")[0] == kind:
            thing = entry.load()
            found[thing.plugin] = thing
    return dict(sorted(found.items()))


def default_target() -> str | None:
    """The name of the target that plans mean which name none: the one that says `default`."""
    return next((n for n, t in plugins("targets").items() if getattr(t, "default", False)), None)


def target_named(system: object) -> object | None:
    """The named target, or the default one for `None`; `None` if there is no such target."""
    target = plugins("targets").get(str(default_target() if system is None else system))
    return None if target is None else target()


def check_name(kind: str, name: object, *, key: str, file: str = "") -> None:
    """Raise PlanError unless a plug-in of this kind has this name; the nearest is suggested."""
    known = plugins(kind)
    if name not in known:
        near = nearest(str(name), list(known))
        raise PlanError(
            f"there is no {name!r} in {kind}",
            file=file or None,
            key=key,
            hint=f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}",
        )


def make(kind: str, name: str, options: Mapping[str, Any], *, key: str, file: str = "") -> Any:
    """The named plug-in with its options validated.

    Raises PlanError for an unknown name (the nearest is suggested), an unknown option or a wrong
    value; `key` is where the name stands in the plan.
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

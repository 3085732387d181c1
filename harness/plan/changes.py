"""One key of a plan's document changed, before it is validated: `--set KEY=VALUE`, and axes of
campaigns."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import PlanError
from harness.plan.cells import keys_of
from harness.plan.explanations import whole_key
from harness.plan.model import Plan, plan_model
from harness.wrong_values import dotted


def apply_change(document: dict[str, Any], change: str) -> list[str]:
    """Apply one `KEY=VALUE`: KEY a TOML dotted key, VALUE a TOML value or else raw text. Returns
    the keys that it changed.

    A part that is a number, or the `id` or `name` of an entry, steps into a list (`faults.0.at_s`,
    `faults.kill.at_s`). Where the schema wants text and VALUE reads as a TOML number
    (`target.version=4.1`), the raw text is taken.
    """
    key, equals, raw = change.partition("=")
    if not equals or not key.strip():
        raise PlanError(f"{change!r} is not KEY=VALUE", key="--set")
    parts = dotted_parts(key.strip())
    value = raw if _wants_text(parts) else _toml_value(raw)
    set_key(document, parts, value)
    return [dotted(each) for each in keys_set(document, parts, value)]


def keys_set(document: Mapping[str, Any], parts: list[str], value: Any) -> list[tuple[str, ...]]:
    """The keys of a plan, each as its parts, that this value of a key sets: those in a table."""
    whole = whole_key(parts, _model_of(document))
    within = keys_of(value) if isinstance(value, Mapping) else [()]
    return [(*whole, *each) for each in within]


def change_of(key: str, value: object) -> str:
    """The `KEY=VALUE` that sets a key to this value when it is applied."""
    if isinstance(value, str) and (_wants_text(dotted_parts(key)) or _toml_value(value) == value):
        return f"{key}={value}"
    return f"{key}={_as_toml(value)}"


def toml_of(document: Mapping[str, object]) -> str:
    """A document as TOML, a line for each key."""
    return "".join(f"{json.dumps(key)} = {_as_toml(value)}\n" for key, value in document.items())


def _as_toml(value: object) -> str:
    """A value as TOML in one line, where texts, numbers and lists are written as in JSON."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_as_toml(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, default=str, ensure_ascii=False)


def set_key(document: dict[str, Any], parts: list[str], value: Any) -> None:
    """Put a value where the parts of a dotted key lead, in a table with free keys the rest of them.
    Raises PlanError if they lead nowhere."""
    key = ".".join(parts)
    parts = whole_key(parts, _model_of(document))
    place: Any = document
    for part in parts[:-1]:
        place = _step_into(place, part, key)
    last: Any = parts[-1]
    if isinstance(place, list):
        last = _index(place, last, key)
    place[last] = value


def dotted_parts(key: str) -> list[str]:
    """The parts of a TOML dotted key. Raises PlanError if it is not one."""
    try:
        node: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError as error:
        raise PlanError(
            f"{key!r} is not a TOML key", key="--set", hint='quote parts that hold dots: a."b.c"'
        ) from error
    parts = []
    while isinstance(node, dict):
        part, node = next(iter(node.items()))
        parts.append(part)
    return parts


def _step_into(place: Any, part: str, key: str) -> Any:
    if isinstance(place, list):
        return place[_index(place, part, key)]
    inner = place.setdefault(part, {})
    if not isinstance(inner, dict | list):
        raise PlanError(f"{part!r} is a value, nothing is below it", key=f"--set {key}")
    return inner


def _index(place: list[Any], part: str, key: str) -> int:
    for number, entry in enumerate(place):
        own = (entry.get("id"), entry.get("name")) if isinstance(entry, dict) else ()
        if part == str(number) or part in own:
            return number
    raise PlanError(f"the list has no entry {part!r}", key=f"--set {key}")


def _model_of(document: Mapping[str, Any]) -> type[Plan]:
    """The plan that a document is to be; what is wrong with its system is reported later."""
    target = document.get("target")
    try:
        return plan_model(target.get("system") if isinstance(target, dict) else None)
    except PlanError:
        return Plan


def _toml_value(raw: str) -> Any:
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        return raw


_TEXT_KEYS = {("name",), ("about",), ("expect",), ("target", "version"), ("target", "image")}


def _wants_text(parts: list[str]) -> bool:
    return tuple(parts) in _TEXT_KEYS

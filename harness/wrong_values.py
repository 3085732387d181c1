"""What is wrong with a value, in ackloss' own words: pydantic's messages name Python's types and
classes, but plans and documents are TOML and JSON.

    by_value  the findings about each wrong value: of a key that takes several forms, pydantic
              reports each form that the value does not have
    what_of   what is wrong
    remedy    what would be right
    expected  the same for a file that programs write
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

Finding = Mapping[str, Any]
"""One of pydantic's: `type`, `loc`, `input` and `ctx`."""

Loc = tuple[int | str, ...]
"""Where a value is: keys, places in lists, and the names of the forms that it could have."""

_FORM = re.compile(
    r"\[key\]|bool|int|float|str|none|constrained-\w+|Check|Reference"
    r"|(?:literal|list|tuple|set|frozenset|dict|nullable|function-\w+|lax-or-strict)\[.*\]"
)
"""How pydantic names a form in a location, and the key of a table in place of its value."""

_TABLE: Final = "a table"

_WANTED: Final = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "a smaller integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": _TABLE,
    "model_type": _TABLE,
    "dataclass_type": _TABLE,
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_too_short": "text of length {min_length} or more",
    "string_too_long": "text of length {max_length} or less",
    "string_pattern_mismatch": "text that matches {pattern}",
    "too_short": "a list of length {min_length} or more",
    "too_long": "a list of length {max_length} or less",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
"""By the kind of a finding, what the value should be."""

_MISSING: Final = "missing"
_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument")
_RAISED: Final = ("value_error", "assertion_error")


def place_of(loc: Loc) -> Loc:
    """A location without the names of forms."""
    return tuple(part for part in loc if not _is_form(part))


def dotted(loc: Loc) -> str:
    """A location as a TOML dotted key: `topic.settings."min.insync.replicas"`."""
    parts = map(str, place_of(loc))
    return ".".join(p if re.fullmatch(r"[A-Za-z0-9_-]+", p) else f'"{p}"' for p in parts)


def first_of(findings: Sequence[Finding]) -> list[Finding]:
    """The findings about the first wrong value."""
    return by_value(findings)[0]


def by_value(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings about each wrong value."""
    found: dict[Loc, list[Finding]] = {}
    for each in findings:
        loc: Loc = each["loc"]
        form = next((place for place, part in enumerate(loc) if _is_form(part)), len(loc))
        found.setdefault(loc[:form], []).append(each)
    return [_of_its_form(each) for each in found.values()]


def what_of(findings: Sequence[Finding]) -> str:
    """What is wrong with a value, a predicate or a sentence."""
    first = findings[0]
    if first["type"] == _MISSING:
        return "is missing"
    if first["type"] in _UNKNOWN:
        return "unknown key"
    if first["type"] in _RAISED:
        return str(first["ctx"]["error"])
    return f"{shown(first['input'])} is not allowed here"


def remedy(findings: Sequence[Finding]) -> str | None:
    """What would be right; `None` where `what_of` says it."""
    first = findings[0]
    if first["type"] == _MISSING:
        return "add it"
    if first["type"] in _UNKNOWN:
        return "remove it"
    if first["type"] in _RAISED:
        return None
    if first["type"] == "string_pattern_mismatch":
        return f"it must match {first['ctx']['pattern']}"
    return f"use {_wanted(findings)}"


def expected(findings: Sequence[Finding]) -> str:
    """What a value in a file that programs write should have been, a predicate."""
    first = findings[0]
    if first["type"] == _MISSING:
        return "is missing"
    if first["type"] in _UNKNOWN:
        return "is unknown"
    if first["type"] in _RAISED:
        return str(first["ctx"]["error"])
    return f"expected {_wanted(findings).replace(_TABLE, 'an object')}"


def shown(value: object) -> str:
    """A value as messages show it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_form(part: int | str) -> bool:
    return isinstance(part, str) and _FORM.fullmatch(part) is not None


def _of_its_form(findings: Sequence[Finding]) -> list[Finding]:
    """Those about the form that the value has; all of them where it has none."""
    depths = [len(place_of(each["loc"])) for each in findings]
    inside = [f for f, depth in zip(findings, depths, strict=True) if depth > min(depths)]
    chosen = inside or [each for each in findings if not _is_of_another_form(each)] or findings
    place = place_of(chosen[0]["loc"])
    return [each for each in chosen if place_of(each["loc"]) == place]


def _is_of_another_form(finding: Finding) -> bool:
    kind = str(finding["type"])
    return kind.endswith(("_type", "_parsing")) or kind in ("literal_error", "int_from_float")


def _wanted(findings: Sequence[Finding]) -> str:
    """What a value should be, in each form that it may have."""
    wanted = list(dict.fromkeys(map(_wanted_by, findings)))
    if "a number" in wanted:
        wanted = [each for each in wanted if each != "an integer"]
    return ", or ".join(wanted)


def _wanted_by(finding: Finding) -> str:
    words = _WANTED.get(finding["type"], "another value")
    given = finding["input"]
    if words == "a list" and isinstance(given, (bool, int, float, str)):
        return f"a list: [{shown(given)}]"
    return words.format(**{name: _plain(each) for name, each in finding.get("ctx", {}).items()})


def _plain(value: object) -> object:
    """A number as plans write it: pydantic makes 0 of a number's limits 0.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value

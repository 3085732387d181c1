"""What is wrong with a value, and with a plan, in one clear sentence each and in ackloss' own
words: what, at which key, and what would be right. pydantic's messages name Python's types and
classes, but plans and documents are TOML and JSON.

    by_value  the findings about each wrong value: of a key that takes several forms, pydantic
              reports each form that the value does not have
    what_of   what is wrong, and what would be right
    expected  what would be right in a file that programs write
    explain   the findings about a document, as errors; the words for keys and tables need its model

pydantic takes long to import, and the command line needs these words without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import isclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_origin

from harness.errors import PlanError, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo


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


def what_of(findings: Sequence[Finding]) -> tuple[str, str | None]:
    """What is wrong with a value, a predicate or a sentence; and what would be right, `None` where
    that is said already."""
    first = findings[0]
    if first["type"] == _MISSING:
        return "is missing", "add it"
    if first["type"] in _UNKNOWN:
        return "unknown key", "remove it"
    if first["type"] in _RAISED:
        return str(first["ctx"]["error"]), None
    what = f"{shown(first['input'])} is not allowed here"
    if first["type"] == "string_pattern_mismatch":
        return what, f"it must match {first['ctx']['pattern']}"
    return what, f"use {_wanted(findings)}"


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


Models: TypeAlias = "Mapping[str, type[BaseModel]]"
"""Models of plans by the system that they are for."""

_INSTEAD: Final[Mapping[Loc, str]] = {
    ("workload",): "remove it; options of the workload itself are in [workload.options]"
}
"""By table, what to do with a key that it does not have."""

_TABLE_TYPES: Final = ("model_type", "dict_type", "dataclass_type")


def explain(
    error: ValidationError,
    model: type[BaseModel],
    *,
    file: str,
    document: object = None,
    others: Models | None = None,
) -> PlanError:
    """The findings as PlanErrors, the first with the others; steps of `document` are named by their
    ids. `others`: the models of other systems' plans, which may have a key that this one lacks."""
    first, *further = [
        _explained(findings, model, file, document, others or {})
        for findings in by_value(error.errors(include_url=False))
    ]
    first.also = further
    return first


def _explained(
    findings: Sequence[Finding], model: type[BaseModel], file: str, document: object, others: Models
) -> PlanError:
    loc = place_of(findings[0]["loc"])
    key = dotted(_by_id(loc, document))
    what, hint = _sentence(findings, loc, model, others)
    if not loc and (split := re.match(r'^((?:[a-z_0-9]+\.)+[a-z_."]+): (.*)$', what)):
        key, what = split.groups()
    return PlanError(what, file=file, key=key or None, hint=hint)


def _by_id(loc: Loc, document: object) -> Loc:
    """A location with the id of an entry, if it has one, in place of its number."""
    named: list[int | str] = []
    for part in loc:
        try:
            document = document[part]  # type: ignore[index]
        except (TypeError, LookupError):
            document = None
        own = document.get("id") if isinstance(part, int) and isinstance(document, dict) else None
        named.append(own if isinstance(own, str) else part)
    return tuple(named)


def _sentence(
    findings: Sequence[Finding], loc: Loc, model: type[BaseModel], others: Models
) -> tuple[str, str | None]:
    kind, given = findings[0]["type"], findings[0]["input"]
    if kind == "extra_forbidden":
        *above, name = loc
        having = [system for system, other in others.items() if name in _keys(other, tuple(above))]
        if having:
            systems = " or ".join(map(repr, having))
            return "unknown key", f"remove it, or use target.system = {systems}, which has it"
        near = nearest(str(name), _keys(model, tuple(above)))
        what_to_do = _INSTEAD.get(tuple(above), "remove it")
        return "unknown key", f"did you mean {near!r}?" if near else what_to_do
    one = len(findings) == 1
    if one and (kind in _TABLE_TYPES or (kind == "list_type" and _holds_tables(model, loc))):
        header = dotted(tuple(part for part in loc if isinstance(part, str)))
        several = kind == "list_type" or (loc and isinstance(loc[-1], int))
        if several:
            what = "not a list of tables" if kind == "list_type" else "not a table"
            return f"{shown(given)} is {what}", f"write [[{header}]]"
        table = _table_at(model, loc)
        first, field = next(iter(table.model_fields.items())) if table else ("", None)
        named = isinstance(given, str) and field is not None and field.annotation is str
        with_key = f" with the key {first} = {shown(given)}" if named else ""
        return f"{shown(given)} is not a table", f"write [{header}]{with_key}"
    return what_of(findings)


def _keys(model: type[BaseModel], loc: Loc) -> list[str]:
    """The keys that a table of the model may have, as a document writes them."""
    table = _table_at(model, loc)
    return [field.alias or name for name, field in table.model_fields.items()] if table else []


def whole_key(parts: Sequence[str], model: type[BaseModel]) -> list[str]:
    """The parts of a key, where the rest is one part below a table whose keys have a grammar of
    their own: `topic.settings.min.insync.replicas` means `topic.settings."min.insync.replicas"`."""
    here, place = model, 0
    while place < len(parts):
        # what a cell changes are keys of the plan
        field = _field(here, parts[place]) or _field(model, parts[place])
        if field is None:
            break
        place += 1
        if get_origin(field.annotation) is dict and get_args(field.annotation)[0] is not str:
            return [*parts[:place], *([".".join(parts[place:])] if parts[place:] else ())]
        place += get_origin(field.annotation) is list  # its number, or its id
        here = next(_tables_in(field.annotation), here)
    return [*parts]


def _holds_tables(model: type[BaseModel], loc: Loc) -> bool:
    """Whether a list of tables belongs at a place of the model."""
    above = _table_at(model, loc[:-1])
    field = _field(above, loc[-1]) if above and loc else None
    return field is not None and any(map(_is_table, get_args(field.annotation)))


def _table_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """The model of the table at a place, or of each table in the list there."""
    here: type[BaseModel] = model
    parts = (part for part in loc if isinstance(part, str))
    for part in parts:
        field = _field(here, part)
        if field is None:
            return None
        if get_origin(field.annotation) is dict:
            next(parts, None)
        table = next(_tables_in(field.annotation), None)
        if table is None:
            return None
        here = table
    return here


def _field(model: type[BaseModel], key: int | str) -> FieldInfo | None:
    fields = model.model_fields
    return next((f for name, f in fields.items() if key in (name, f.alias)), None)


def _tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type names."""
    if _is_table(annotation):
        yield annotation
    for each in get_args(annotation):
        yield from _tables_in(each)


def _is_table(annotation: Any) -> bool:
    from pydantic import BaseModel

    return isclass(annotation) and issubclass(annotation, BaseModel)

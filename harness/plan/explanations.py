"""One clear sentence from pydantic's findings: what, at which key, and what would be right.

`harness.wrong_values` has the words for values; here are those for keys and tables, which need the
model of the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import isclass
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from harness.errors import PlanError, nearest
from harness.wrong_values import (
    Finding,
    Loc,
    by_value,
    dotted,
    place_of,
    remedy,
    shown,
    what_of,
)

Models = Mapping[str, type[BaseModel]]
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
    findings: Sequence[Finding],
    model: type[BaseModel],
    file: str,
    document: object,
    others: Models,
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
    return what_of(findings), remedy(findings)


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
    return isclass(annotation) and issubclass(annotation, BaseModel)

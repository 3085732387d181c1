"""One clear sentence from pydantic's findings: what, at which key, and what would be right."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.errors import PlanError, nearest


def explain(error: ValidationError, model: type[BaseModel], *, file: str) -> PlanError:
    """The first finding as a PlanError; the hint counts the others."""
    findings = [each for each in error.errors(include_url=False) if not _of_the_other_form(each)]
    first = findings[0]
    key = dotted(first["loc"])
    what, hint = _sentence(first, model)
    if not first["loc"] and (split := re.match(r'^((?:[a-z_0-9]+\.)+[a-z_."]+): (.*)$', what)):
        key, what = split.groups()
    if len(findings) > 1:
        more = f"{len(findings) - 1} more finding{'s' if len(findings) > 2 else ''}"
        hint = f"{hint} (and {more})" if hint else f"and {more}"
    return PlanError(what, file=file, key=key or None, hint=hint)


_ELSEWHERE = {("workload",): "remove it; options of the workload itself are in [workload.options]"}
"""By table, what to do with a key that it does not have."""

_TEXT, _TABLE = "constrained-str", "Check"
"""How pydantic names the two forms of a check in a location: a name, or a table with one."""


def _of_the_other_form(finding: Any) -> bool:
    """Whether a finding holds a check against the form that it does not have."""
    kind, last = finding["type"], finding["loc"][-1:]
    return (kind == "string_type" and last == (_TEXT,) and isinstance(finding["input"], dict)) or (
        kind == "model_type" and last == (_TABLE,) and isinstance(finding["input"], str)
    )


def dotted(loc: tuple[int | str, ...]) -> str:
    """A location as a TOML dotted key: `topic.settings."min.insync.replicas"`."""
    made = ("[key]", "bool", "int", "float", "str", _TEXT, _TABLE)
    parts = [p for p in map(str, loc) if p not in made]
    return ".".join(p if re.fullmatch(r"[A-Za-z0-9_-]+", p) else f'"{p}"' for p in parts)


def _sentence(finding: Any, model: type[BaseModel]) -> tuple[str, str | None]:
    kind, given = finding["type"], finding["input"]
    if kind == "extra_forbidden":
        near = nearest(str(finding["loc"][-1]), _siblings(model, finding["loc"][:-1]))
        otherwise = _ELSEWHERE.get(finding["loc"][:-1], "remove it")
        return "unknown key", f"did you mean {near!r}?" if near else otherwise
    if kind == "missing":
        return "is missing", "add it"
    if kind == "value_error":
        return str(finding["ctx"]["error"]), None
    if kind == "string_pattern_mismatch":
        return f"{_shown(given)} is not allowed here", f"it must match {finding['ctx']['pattern']}"
    message = finding["msg"]
    return f"{_shown(given)} is not allowed here", message[0].lower() + message[1:]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _siblings(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys that may stand at a place of the model, as a plan writes them."""
    here: Any = model
    for part in loc:
        if isinstance(part, int):
            continue
        field = here.model_fields.get(part)
        if field is None:
            return []
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        here = next(
            (c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None
        )
        if here is None:
            return []
    return [field.alias or name for name, field in here.model_fields.items()]

"""Reads plans: TOML or a stored plan.json, changes from the command line, named schedules and mixes
written out."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import ValidationError

from harness import registry
from harness.errors import PlanError
from harness.plan.changes import apply_change
from harness.plan.expansion import concrete, named_schedule
from harness.plan.explanations import explain
from harness.plan.model import PROCESSES_MOST, Plan, plan_model

_SPARE: Final = 1.25
"""Processes for each operation that waits: completions come late too."""
_OF_PLANS: Final = ("cluster", "target", "workload")
"""Tables of a plan: it has one of them at least, and a campaign has none."""


def parse_plan(document: Mapping[str, Any], *, file: str = "plan") -> Plan:
    """A validated plan. Raises PlanError that names the key and what would be right."""
    schema = document.get("schema")
    if isinstance(schema, int) and schema > 1:
        raise PlanError(
            f"this plan has schema {schema}, this ackloss reads 1",
            file=file,
            key="schema",
            hint="use a newer ackloss",
        )
    refuse_campaign(document, file=file)
    section = document.get("target", {})
    model = plan_model(section.get("system") if isinstance(section, dict) else None, file=file)
    try:
        plan = model.model_validate(document)
        if plan.schedule:
            document = {**document, "schedule": None, **named_schedule(plan.schedule)}
            plan = model.model_validate(document)
        steps = concrete(plan.faults, plan.mix, seed=plan.seed, duration_s=plan.workload.duration_s)
        document = {**plan.document(), "faults": steps}
        load, blocked_s = plan.workload, plan.blocked_s
        if "processes" not in load.model_fields_set and load.rate_per_s and blocked_s is not None:
            needed = math.ceil(load.rate_per_s * blocked_s * _SPARE)
            document["workload"]["processes"] = min(needed, PROCESSES_MOST)
        return model.model_validate(document)
    except ValidationError as error:
        others = _plan_models()
        raise explain(error, model, file=file, document=document, others=others) from error
    except PlanError as error:
        error.file = error.file or file
        raise


def refuse_campaign(document: Mapping[str, Any], *, file: str) -> None:
    """Raise PlanError for the document of a campaign: it names a plan, and holds none of a plan's
    tables."""
    if "plan" in document and document.keys().isdisjoint(_OF_PLANS):
        raise PlanError(
            "is a campaign, not a plan",
            file=file,
            hint="use the plan that it names, or run it with `ackloss campaign run`",
        )


def _plan_models() -> dict[str, type[Plan]]:
    """The plans of all targets, by their names."""
    targets = registry.plugins("targets")
    return {name: targets[name].plan for name in registry.usable("targets")}


def load_plan(path: Path, changes: Iterable[str] = ()) -> Plan:
    """Read a TOML plan, apply `--set KEY=VALUE` changes in order, and validate it."""
    return parse_plan(read_plan(path, changes), file=str(path))


def read_plan(path: Path, changes: Iterable[str] = ()) -> dict[str, Any]:
    """The raw document of a plan with changes applied, not yet validated: of a TOML file, or of the
    plan.json of a run's folder."""
    try:
        document = _read(path)
    except (tomllib.TOMLDecodeError, orjson.JSONDecodeError) as error:
        raise PlanError(
            f"is not JSON: {error}"
            if isinstance(error, orjson.JSONDecodeError)
            else f"cannot be read: {error}",
            file=str(path),
            hint="a plan is TOML (docs/reference/plan.md)",
        ) from error
    except UnicodeDecodeError as error:
        raise PlanError("is not UTF-8 text", file=str(path)) from error
    except OSError as error:
        raise PlanError(f"cannot be read: {error.strerror}", file=str(path)) from error
    changed = [key for change in changes for key in apply_change(document, change)]
    if changed:
        yours = document.setdefault("yours", {})
        yours["set"] = list(dict.fromkeys([*yours.get("set", []), *changed]))
    return document


def _read(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return tomllib.loads(text)
    document = orjson.loads(text)
    if not isinstance(document, dict) or "schema" not in document:
        raise PlanError(
            "is JSON, and not the plan.json of a run"
            if isinstance(document, dict)
            else "is not a JSON object",
            file=str(path),
            hint="a plan is TOML (docs/reference/plan.md)",
        )
    return document

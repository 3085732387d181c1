"""The user's own settings files in a plan: what is in a file decides over the plan's values.

What the command line's `--set` changed decides over the file, and where an axis of a campaign or a
cell has the same key, it goes first, by its name. Everything that is not used is kept in the plan
with the reason (`harness.plan.model`). What a key means is the target's to say
(`Target.settings_files`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness import registry
from harness.errors import PlanError
from harness.plan import FaultStep, FinalPlan, Plan, WorkloadPlan, parse_plan
from harness.plan.model import OVERRULED, UNKNOWN, OwnFile, OwnKey, Yours, is_default, keys_of
from harness.plan.parsing import dotted_parts
from harness.plan.steps import named_schedule
from harness.protocols import Target
from harness.wrong_values import dotted

Document = dict[str, Any]
Parts = tuple[str, ...]


class Decider(NamedTuple):
    """What else than a file decides a key of the plan: in every cell, or in some."""

    who: str
    everywhere: bool = True


Decided = Mapping[Parts, Decider]
SameKey = Callable[[Parts], Parts]
"""`Target.same_key` of a plan."""

SET: Final = "--set"
REAL_TIMEOUTS: Final = "real-timeouts"
_LONGEST_S: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class OwnSettings:
    """Files by the option that names each. `strict`: keys that are unknown are refused.
    `real_timeouts`: time-outs that a plan or ackloss shortens are the system's own."""

    files: Mapping[str, Path] = field(default_factory=dict)
    strict: bool = False
    real_timeouts: bool = False

    def __bool__(self) -> bool:
        return bool(self.files) or self.real_timeouts

    @property
    def flags(self) -> list[str]:
        """The options of the command line that are not files."""
        given = {"--strict": self.strict, f"--{REAL_TIMEOUTS}": self.real_timeouts}
        return [option for option, is_given in given.items() if is_given]

    def applied(self, document: Document, axes: Decided | None = None) -> Document:
        """A plan's document with these settings, where `--set` and `axes` do not decide. Raises
        PlanError for a system that does not take these files, and for a file that cannot be read
        or, if strict, holds what is unknown."""
        plan = parse_plan(document)
        target = _target(plan, self)
        same = partial(target.same_key, plan)
        yours = Yours.model_validate(document.get("yours", {}))
        decided = {tuple(dotted_parts(key)): Decider(SET) for key in yours.set}
        others = {**_of_cells(document), **(axes or {})}
        changed, sources = copy.deepcopy(document), list[OwnFile]()
        found = {o: (str(file), target.own_keys(plan, o, file)) for o, file in self.files.items()}
        if self.real_timeouts:
            found[REAL_TIMEOUTS] = "", target.real_timeouts(plan)
        for option, (file, keys) in found.items():
            placed = [_placed(each, changed, decided, others, same) for each in keys]
            if self.strict and (strange := [each for each in placed if each.state == UNKNOWN]):
                named = ", ".join(each.key for each in strange)
                hint = f"{strange[0].why}; remove it, or leave out --strict"
                raise PlanError(f"unknown, and --strict: {named}", file=file, hint=hint)
            decided |= {
                tuple(dotted_parts(place)): Decider(file or f"--{option}")
                for each in placed
                for place in each.places
            }
            sources.append(OwnFile(option=option, file=file, keys=placed))
        yours = yours.model_copy(update={"files": [*yours.files, *sources]})
        if any(file.option != REAL_TIMEOUTS for file, _ in yours.by_place().values()):
            yours = yours.model_copy(update={"expected": changed.pop("expect", yours.expected)})
            for cell in changed.get("cells", []):
                cell.pop("expect", None)
        changed["yours"] = yours.model_dump(mode="json")
        with blaming(changed):
            after = parse_plan(changed)
        longer_s = target.reacts_within_s(after) - target.reacts_within_s(plan)
        changed["yours"]["longer_s"] = max(0.0, round(longer_s, 3))
        if (after.blocked_s or 0) > (plan.blocked_s or 0) and "workload.processes" not in yours.set:
            changed.get("workload", {}).pop("processes", None)  # as many as such waits take
        return changed


def _target(plan: Plan, own: OwnSettings) -> Target[Any]:
    target: Target[Any] = registry.target_named(plan.target.system)
    takes = target.settings_files
    asked = [*own.files, *([REAL_TIMEOUTS] if own.real_timeouts else [])]
    for name in asked:
        if name not in (*takes, *([REAL_TIMEOUTS] if takes else [])):
            raise PlanError(
                f"{plan.target.system} takes no --{name}", key="target.system", hint="leave it out"
            )
    return target


def _of_cells(document: Document) -> Decided:
    """The keys that cells of the plan change, each with the cells' names."""
    names: dict[Parts, list[str]] = {}
    for cell in document.get("cells", []):
        own = {key: value for key, value in cell.items() if key not in ("name", "expect")}
        for parts in keys_of(own):
            names.setdefault(parts, []).append(str(cell.get("name")))
    every = len(document.get("cells", []))
    return {
        parts: Decider(f"the cells {', '.join(cells)}", len(cells) == every)
        for parts, cells in names.items()
    }


def _placed(
    each: OwnKey, document: Document, decided: Decided, others: Decided, same: SameKey
) -> OwnKey:
    """Put a key of a file where it belongs in the document, unless another decides."""
    places = [tuple(dotted_parts(place)) for place in each.places]
    for parts in places:
        if by := _who(parts, decided, same):
            return each.model_copy(update={"state": OVERRULED, "why": by.who, "places": []})
    overruled: list[Decider] = []
    names = []
    for own_parts in places:
        if by := _who(own_parts, others, same):
            overruled.append(by)
        meant = same(own_parts)
        # Under the name that others use, or both would be there.
        parts = next((o for o in others if same(o) == meant), own_parts)
        names.append(dotted(parts))
        table: Any = document
        for part in parts[:-1]:
            table = table.setdefault(part, {})
        for name in [n for n in table if same((*parts[:-1], n)) == meant]:
            del table[name]
        table[parts[-1]] = each.value
    each = each.model_copy(update={"places": names})
    if not overruled:
        return each
    who = ", ".join(by.who for by in overruled)
    if all(by.everywhere for by in overruled):
        return each.model_copy(update={"state": OVERRULED, "why": who})
    return each.model_copy(update={"why": f"where {who} does not decide"})


def _who(parts: Parts, decided: Decided, same: SameKey) -> Decider | None:
    """Who decides this key of the plan, under whatever name, or a table that holds it."""
    meant, keys = same(parts), ((same(own), by) for own, by in decided.items())
    return next((by for own, by in keys if meant[: len(own)] == own), None)


def origins_of(
    plan: Plan, requested: Mapping[str, Any], others: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Who decided each setting that is not the system's default: the user (a file, `--set`), the
    plan, or one of `others`."""
    target = registry.target_named(plan.target.system)
    tables = target.settings_places
    by_place, origins = plan.yours.by_place(), {g: dict(found) for g, found in others.items()}
    for group, settings in requested.items():
        for key, value in settings.items():
            own_key = target.setting_keys.get(key)
            place = own_key or dotted((*tables.get(group, group).split("."), key))
            who = "ackloss' default" if own_key and is_default(plan, own_key) else "the plan"
            who = f"yours: {SET}" if place in plan.yours.set else who
            if place in by_place:
                file, own = by_place[place]
                who = own.why if own.state == OVERRULED else who
                source = Path(file.file).name or f"--{file.option}"
                who = f"yours: {source}" if own.value == value else who
            origins.setdefault(group, {})[key] = who
    return origins


@contextmanager
def blaming(document: Mapping[str, Any]) -> Iterator[None]:
    """Make a PlanError about a key of the plan that a file set name the file and its key."""
    try:
        yield
    except PlanError as error:
        with suppress(PlanError):  # some keys are none of a plan
            place = dotted(tuple(dotted_parts(error.key or "")))
            by_place = Yours.model_validate(document.get("yours", {})).by_place()
            if found := by_place.get(place):
                error.file, error.key = found[0].file or None, found[1].key
        raise


def lengthened(document: Document) -> Document:
    """The plan with waits that are as much longer as its time-outs are, once: how long a step waits
    for its condition, how long until fully replicated, and the load that goes on meanwhile."""
    yours = document.get("yours") or {}
    if not (longer_s := yours.get("longer_s")) or yours.get("lengthened"):
        return document
    changed = {**document, "yours": {**yours, "lengthened": True}}
    if schedule := changed.pop("schedule", None):
        changed |= named_schedule(schedule)

    def longer(table: Mapping[str, Any], key: str, model: Any, times: int = 1) -> Document:
        before = table.get(key, model.model_fields[key].default)
        return {**table, key: max(before, min(_LONGEST_S, before + times * longer_s))}

    steps = changed.get("faults", [])
    changed["faults"] = [longer(s, "within_s", FaultStep) if s.get("when") else s for s in steps]
    waits = sum(1 for step in steps if step.get("when"))
    changed["workload"] = longer(changed.get("workload", {}), "duration_s", WorkloadPlan, waits)
    changed["final"] = longer(changed.get("final", {}), "settle_s", FinalPlan)
    return changed

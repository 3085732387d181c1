"""What the cells of a plan stand for: a complete plan for each.

The load of the plan is that of the run: rate and processes are divided evenly, so that a cell of
twelve has a twelfth of both. Each cell has its own clients, as many as the plan has but no more
than the cell has processes. Everything else is as in the plan, except for the keys that the cell
changes and the object that the target gives it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from harness import registry
from harness.errors import PlanError, nearest
from harness.plan import Cell, Plan
from harness.plan.model import dotted_keys, keys_of, merged
from harness.plan.parsing import dotted_parts
from harness.protocols import Target, Unsupported, Workload
from harness.protocols.groups import GroupSettings, TransactionSettings
from harness.protocols.systems import EXEC
from harness.wrong_values import dotted, explain


def workload_of(plan: Plan) -> Workload:
    """The workload that a plan names, or that of a cell, with its options. Raises PlanError."""
    name, options = plan.workload.name, plan.workload.options
    registry.check_name("workloads", name, key="workload.name")
    made: Workload = registry.make("workloads", name, options, key="workload.options.name")
    return made


def group_of(plan: Plan) -> GroupSettings | None:
    """What its consumers do; `None` if it has none. Raises PlanError."""
    workload = workload_of(plan)
    return workload if isinstance(workload, GroupSettings) else None


def transactions_of(plan: Plan) -> TransactionSettings | None:
    """What its transactions and readers do; `None` if it has none. Raises PlanError."""
    workload = workload_of(plan)
    return workload if isinstance(workload, TransactionSettings) else None


_NAME_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """One cell with its own plan, or a plan without `[[cells]]` as a cell. `overrides`: the keys
    that it changes, dotted."""

    plan: Plan
    name: str = ""
    number: int = 0
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def key(self, key: str) -> str:
        """A key of its plan as a key of the run's plan: below the cell, where the cell has set
        it or something below it."""
        below = any(_within(dotted_parts(key), dotted_parts(own)) for own in self.overrides)
        return f"cells.{self.number}.{key}" if below else key


def cell_plans(plan: Plan, target: Target[Any]) -> tuple[CellPlan, ...]:
    """The cells of a plan in its order; a plan without `[[cells]]` is one cell, without a name.
    Raises PlanError for a target without cells, for a key that no cell may change, and for an
    impossible plan."""
    if not plan.cells:
        return (CellPlan(plan=plan),)
    if not target.cell_keys:
        raise PlanError(
            f"{target.plugin} cannot hold several cells in one run here",
            key="cells",
            hint="leave them out, or make a campaign of them",
        )
    return tuple(_cell_plan(plan, target, number) for number in range(len(plan.cells)))


def checked_cells(plan: Plan, target: Target[Any]) -> tuple[CellPlan, ...]:
    """The cells of a plan, each of which the target accepts. Raises PlanError, also for clients
    that each cell cannot have separately."""
    cells = cell_plans(plan, target)
    if not plan.cells:
        return cells
    if plan.workload.client == EXEC:
        raise PlanError(
            "cells have clients of ackloss: a command makes those of one object",
            key="workload.client",
            hint="leave it out, or leave out cells",
        )
    for cell in cells:
        with _blaming(cell.number, cell.overrides):
            workload_of(cell.plan)
            target.check(cell.plan)
    return cells


def asked_in_vain(
    plan: Plan, cells: Sequence[CellPlan], target: Target[Any]
) -> tuple[Unsupported, ...]:
    """What the plan and its cells request and the version does not honour, each thing once."""
    found = {(each.key, each.what): each for each in target.unsupported(plan)}
    for cell in cells:
        for each in target.unsupported(cell.plan):
            if (each.key, each.what) not in found:
                own = replace(each, key=cell.key(each.key))
                found[own.key, own.what] = own
    return tuple(found.values())


def _cell_plan(plan: Plan, target: Target[Any], number: int) -> CellPlan:
    cell = plan.cells[number]
    _check_keys(cell, number, target.cell_keys)
    overrides = dotted_keys(cell.overrides)
    with _blaming(number, overrides):
        try:
            own = type(plan).model_validate(_document(plan, cell))
        except ValidationError as error:
            raise explain(error, type(plan), file="") from error
        own = target.of_cell(own, cell.name, number)
    _check_stored(own, cell.name, number)
    return CellPlan(name=cell.name, number=number, overrides=overrides, plan=own)


def _check_stored(own: Plan, name: str, number: int) -> None:
    """Refuse a cell whose plan could not be read again from its folder: the name of its object
    holds that of the cell, and may be too long with it."""
    try:
        type(own).model_validate(own.document())
    except ValidationError as error:
        refused = explain(error, type(own), file="")
        raise PlanError(
            f"the cell {name!r} would have a {refused.key} that is not allowed",
            key=f"cells.{number}.name",
            hint="give it a shorter name, of letters, digits and dashes",
        ) from error


def _document(plan: Plan, cell: Cell) -> dict[str, Any]:
    """The plan of a cell, before the target gives it its own object."""
    document, many = merged(plan.document(), cell.overrides), len(plan.cells)
    load = document["workload"]
    load["rate_per_s"] = plan.workload.rate_per_s / many
    load["processes"] = math.ceil(plan.workload.processes / many)
    load["clients"] = min(load["clients"], load["processes"])
    name = f"{plan.name[: _NAME_LENGTH - len(cell.name) - 2]}: {cell.name}"
    return {**document, "name": name, "expect": cell.expect, "cells": []}


def _check_keys(cell: Cell, number: int, allowed: tuple[str, ...]) -> None:
    """Refuse a key that no cell of this target may change."""
    roots = [dotted_parts(key) for key in allowed]
    for parts in keys_of(cell.overrides):
        if any(_within(list(parts), root) for root in roots):
            continue
        key = dotted(parts)
        near = nearest(key, allowed)
        raise PlanError(
            "no cell may change this key: all cells have it in common",
            key=f"cells.{number}.{key}",
            hint=f"did you mean {near!r}?" if near else f"a cell may change: {', '.join(allowed)}",
        )


def _within(parts: list[str], root: list[str]) -> bool:
    return parts[: len(root)] == root


@contextmanager
def _blaming(number: int, overrides: Mapping[str, Any]) -> Iterator[None]:
    """Make a PlanError about a key of a cell's plan name the cell; one about what all cells have in
    common keeps its key."""
    try:
        yield
    except PlanError as error:
        if error.key and not error.key.startswith("cells."):
            parts = dotted_parts(error.key)
            own = [dotted_parts(key) for key in overrides]
            if any(_within(parts, each) or _within(each, parts) for each in own):
                error.key = f"cells.{number}.{error.key}"
        raise

"""Which cells of a campaign may share a run, and the plan of a run that several cells share.

Cells share a run if their plans differ only in keys that the target lets a cell of a run change,
such as the settings of its topic. Everything else (versions, settings of nodes, features, faults,
load) is equal: these cells meet one fault at one instant, and their results are pairs
(docs/reference/statistics.md). A file that demands sharing, `share = "always"`, is refused where
its plans do not allow it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, Literal

import orjson

from harness.campaigns.plan import Campaign, CampaignPlan, Cell, Document, Label
from harness.errors import PlanError
from harness.plan.model import dotted_keys, merged
from harness.plan.parsing import dotted_parts

MOST: Final = 16
"""Cells of one run: each has its own clients, which share one machine."""

MOST_PER_S: Final = 4_000
"""Operations per second of all cells of a run together. The load of a cell is the same whether it
shares its run or not, so cells with a high load share a run with few others, or with none."""

MOST_PROCESSES: Final = 20_000

_OF_ANY_CELL: Final = ("expect",)
"""Keys that a cell may have separately, whatever its target."""

Along = Literal["all", "some", "none"]
"""How many of the cells that differ in one axis alone share their runs."""

Group = tuple[Cell, ...]
"""Cells that share their runs; a cell that shares with no other is a group of one."""


def cell_keys(cell: Cell) -> Sequence[str]:
    """The keys of a plan, dotted, that the cell's target lets a cell of a run change with all that
    is below them; none: its runs cannot be shared."""
    target = cell.resolved.target
    return () if why_without_cells(cell) else target.cell_keys


def why_without_cells(cell: Cell) -> str | None:
    """Why a run of this cell's plan can hold no cells; `None`: it can."""
    target, plan = cell.resolved.target, cell.resolved.plan
    if not target.cell_keys:
        return f"{target.plugin} cannot hold several cells in one run"
    if plan.cells:
        return "their plan has cells itself"
    try:
        target.of_cell(plan, "cell", 0)
    except PlanError as error:  # with these clients, say
        return error.what
    return None


def groups_of_campaign(campaign: Campaign) -> list[Group]:
    """The cells that can be run, grouped as the campaign's `share` and those of its axes say."""
    cells, together = campaign.possible, axes_together(campaign.plan)
    units = units_of(cells, together) if campaign.plan.share == "never" else [cells]
    return [group for unit in units for group in groups_of(unit, cell_keys, together=together)]


def axes_together(plan: CampaignPlan) -> tuple[str, ...]:
    """The axes along which cells must share their runs."""
    every = plan.share == "always"
    return tuple(name for name, axis in plan.axes.items() if every or axis.share == "always")


def units_of(cells: Iterable[Cell], together: Collection[str]) -> list[list[Cell]]:
    """The cells that differ in these axes alone, together."""
    units: dict[tuple[Label, ...], list[Cell]] = {}
    for cell in cells:
        others = tuple(choice for axis, choice in cell.key.items() if axis not in together)
        units.setdefault(others, []).append(cell)
    return list(units.values())


def groups_of(
    cells: Iterable[Cell],
    keys_of: Callable[[Cell], Sequence[str]],
    *,
    most: int = MOST,
    together: Collection[str] = (),
) -> list[Group]:
    """Every cell in one group; `keys_of`: see `cell_keys`.

    Cells that may share are cut into as few groups as possible, of sizes as even as possible, in
    the order of the cells. No cut separates cells that differ in the axes `together` alone.
    """
    alike: dict[bytes, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(_in_common(cell, keys_of(cell)), []).append(cell)
    return [group for each in alike.values() for group in _cut(each, most, together)]


def _in_common(cell: Cell, keys: Sequence[str]) -> bytes:
    """Equal for cells that may share a run. A cell without keys shares with no other, nor does one
    that takes all the load that it can get, or one whose choices forbid it."""
    alone = not (cell.may_share and keys and cell.resolved.plan.workload.rate_per_s)
    common = [cell.name, cell.document] if alone else split(cell.document, keys)[0]
    return orjson.dumps(common, option=orjson.OPT_SORT_KEYS)


def _cut(cells: Sequence[Cell], most: int, together: Collection[str]) -> list[Group]:
    units = units_of(cells, together)
    fit = min(most, bearable(cells[0])) // max(map(len, units))
    number = math.ceil(len(units) / max(1, fit))
    ends = [len(units) * place // number for place in range(number + 1)]
    place_of = {cell.name: place for place, cell in enumerate(cells)}
    return [
        tuple(sorted(chain(*units[begin:end]), key=lambda cell: place_of[cell.name]))
        for begin, end in pairwise(ends)
    ]


def bearable(cell: Cell) -> int:
    """How many cells with the load of this one a run may have."""
    load = cell.resolved.plan.workload
    by_rate = int(MOST_PER_S / load.rate_per_s) if load.rate_per_s else 1
    return min(by_rate, MOST_PROCESSES // load.processes)


def split(document: Mapping[str, object], keys: Sequence[str]) -> tuple[Document, Document]:
    """A cell's plan in two: what it has in common with the cells of its run, and its own keys."""
    return _split(document, [dotted_parts(key) for key in (*keys, *_OF_ANY_CELL)])


def _split(document: Mapping[str, Any], roots: Sequence[list[str]]) -> tuple[Document, Document]:
    common: Document = {}
    own: Document = {}
    for key, value in document.items():
        below = [root[1:] for root in roots if root[0] == key]
        if [] in below:
            own[key] = value
        elif below and isinstance(value, Mapping):
            for into, part in zip((common, own), _split(value, below), strict=True):
                if part:
                    into[key] = part
        else:
            common[key] = value
    return common, own


def shared_plan(cells: Sequence[Cell]) -> tuple[Document, tuple[str, ...]]:
    """The plan of a run of these cells, without a seed, and the names that it gives to them. Its
    load is that of all cells together: a run shares it out evenly. A key that every cell has stands
    before its cells too, as the plan has to be valid without them: two brokers do not hold the
    three replicas that a topic has by default."""
    if len(cells) == 1:
        return cells[0].document, ()
    halves = [split(cell.document, cell_keys(cell)) for cell in cells]
    names = tuple(f"cell-{number}" for number in range(1, len(cells) + 1))
    named = [{"name": name, **own} for name, (_, own) in zip(names, halves, strict=True)]
    common, load = halves[0][0], cells[0].resolved.plan.workload
    of_all = {"rate_per_s": load.rate_per_s * len(cells), "processes": load.processes * len(cells)}
    every = _in_all([own for _, own in halves])
    for key in _OF_ANY_CELL:
        every.pop(key, None)
    return merged(merged(common, every), {"workload": of_all, "cells": named}), names


def _in_all(owns: Sequence[Mapping[str, Any]]) -> Document:
    """The keys that all of these have, with the values of the first; tables are looked into."""
    kept: Document = {}
    for key in owns[0]:
        if all(key in own for own in owns):
            values = [own[key] for own in owns]
            tables = all(isinstance(value, Mapping) for value in values)
            kept[key] = _in_all(values) if tables else values[0]
    return kept


def check_demands(campaign: Campaign, *, file: str) -> None:
    """Raise PlanError for an axis along which cells must share their runs and cannot."""
    together = axes_together(campaign.plan)
    of_all = "share" if campaign.plan.share == "always" else "axes"
    for axes, key in [*(((axis,), f"axes.{axis}") for axis in together), (together, of_all)]:
        for cells in units_of(campaign.possible, axes):
            if len(groups_of(cells, cell_keys)) > 1:
                why, hint = _why_apart(campaign, cells)
                raise PlanError(
                    f"cells that differ in {'it' if len(axes) == 1 else ', '.join(axes)} alone "
                    f'cannot share their runs, as `share = "always"` demands: {why}',
                    file=file,
                    key=key,
                    hint=hint,
                )


def sharing_by_axis(campaign: Campaign, groups: Sequence[Group]) -> dict[str, Along]:
    """For each axis in which cells differ, whether those that differ in it alone share a run."""
    group_of = {cell.name: place for place, group in enumerate(groups) for cell in group}
    found: dict[str, Along] = {}
    for axis in campaign.plan.axes:
        lines = [line for line in units_of(campaign.possible, (axis,)) if len(line) > 1]
        places = [[group_of[cell.name] for cell in line] for line in lines]
        if not places:
            continue
        if all(len(set(each)) == 1 for each in places):
            found[axis] = "all"
        else:
            apart = all(len(set(each)) == len(each) for each in places)
            found[axis] = "none" if apart else "some"
    return found


def _why_apart(campaign: Campaign, cells: Sequence[Cell]) -> tuple[str, str]:
    """Why these cells do not share one run, and what would help."""
    every = campaign.plan.share == "always"
    leave_out = 'write `share = "auto"`' if every else "leave out the `share` of this axis"
    for cell in cells:
        for axis, label in cell.key.items():
            if campaign.plan.axes[axis].by_label()[label].share == "never":
                return f'the choice {axis}={label} has `share = "never"`', "use one of the two"
    for cell in cells:
        if why := why_without_cells(cell):
            return why, leave_out
    if not all(cell.resolved.plan.workload.rate_per_s for cell in cells):
        return "their load has no limit (workload.rate_per_s = 0)", "set a rate, or " + leave_out
    common = [dotted_keys(split(cell.document, cell_keys(cell))[0]) for cell in cells]
    differing = [
        key
        for key in dict.fromkeys(key for each in common for key in each)
        if any(key not in each or each[key] != common[0].get(key) for each in common)
    ]
    if differing:
        allowed = ", ".join(cell_keys(cells[0]))
        return (
            f"they differ in {', '.join(differing)}",
            f"{leave_out}: only these keys may differ between cells of one run: {allowed}",
        )
    load, fit = cells[0].resolved.plan.workload, min(MOST, bearable(cells[0]))
    return (
        f"with {load.rate_per_s:g} operations per second and {load.processes:,} processes each, "
        f"one run has at most {fit} of these {len(cells)} cells",
        f"a run has at most {MOST} cells, {MOST_PER_S:,} operations per second and "
        f"{MOST_PROCESSES:,} processes",
    )

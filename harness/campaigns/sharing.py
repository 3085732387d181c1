"""Which cells of a campaign may share a run, and the plan of a run that several cells share.

Cells share a run if their plans differ only in keys that the target lets a cell of a run change,
such as the settings of its topic. Everything else (versions, settings of nodes, features, faults,
load) is equal: these cells meet one fault at one instant, and their results are pairs
(docs/statistics.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import orjson

from harness.campaigns.plan import Campaign, Cell, Document
from harness.errors import PlanError
from harness.plan.cells import merged
from harness.plan.changes import dotted_parts
from harness.protocols import HoldsCells

MOST: Final = 16
"""Cells of one run: each has its own clients, which share one machine."""

MOST_PER_S: Final = 4_000
"""Operations per second of all cells of a run together. The load of a cell is the same whether it
shares its run or not, so cells with a high load share a run with few others, or with none."""

_MOST_PROCESSES: Final = 20_000

_OF_ANY_CELL: Final = ("expect",)
"""Keys that a cell may have separately, whatever its target."""

Group = tuple[Cell, ...]
"""Cells that share their runs; a cell that shares with no other is a group of one."""


def cell_keys(cell: Cell) -> Sequence[str]:
    """The keys of a plan, dotted, that the cell's target lets a cell of a run change with all that
    is below them; none: its runs cannot be shared."""
    target, plan = cell.resolved.target, cell.resolved.plan
    if not isinstance(target, HoldsCells):
        return ()
    try:
        target.of_cell(plan, "cell", 0)
    except PlanError:  # with these clients, say, a run has no cells
        return ()
    return target.cell_keys


def groups_of_campaign(campaign: Campaign) -> list[Group]:
    """The cells that can be run, grouped as the campaign's `share` says."""
    if campaign.plan.share == "never":
        return [(cell,) for cell in campaign.possible]
    return groups_of(campaign.possible, cell_keys)


def groups_of(
    cells: Iterable[Cell], keys_of: Callable[[Cell], Sequence[str]], *, most: int = MOST
) -> list[Group]:
    """Every cell in one group, in the order of the cells; `keys_of`: see `cell_keys`.

    Cells that may share are cut into as few groups as possible, of sizes as even as possible.
    """
    alike: dict[bytes, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(_in_common(cell, keys_of(cell)), []).append(cell)
    return [group for each in alike.values() for group in _cut(each, most)]


def _in_common(cell: Cell, keys: Sequence[str]) -> bytes:
    """Equal for cells that may share a run. A cell without keys shares with no other, nor does one
    that takes all the load that it can get, or one whose choices forbid it."""
    alone = not (cell.may_share and keys and cell.resolved.plan.workload.rate_per_s)
    common = [cell.name, cell.document] if alone else split(cell.document, keys)[0]
    return orjson.dumps(common, option=orjson.OPT_SORT_KEYS)


def _cut(cells: Sequence[Cell], most: int) -> list[Group]:
    number = math.ceil(len(cells) / max(1, min(most, _bearable(cells[0]))))
    ends = [len(cells) * place // number for place in range(number + 1)]
    return [tuple(cells[begin:end]) for begin, end in pairwise(ends)]


def _bearable(cell: Cell) -> int:
    """How many cells with the load of this one a run may have."""
    load = cell.resolved.plan.workload
    by_rate = int(MOST_PER_S / load.rate_per_s) if load.rate_per_s else 1
    return min(by_rate, _MOST_PROCESSES // load.processes)


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
            parts = _split(value, below)
            for into, part in zip((common, own), parts, strict=True):
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
    of_all = {
        "rate_per_s": load.rate_per_s * len(cells),
        "processes": load.processes * len(cells),
    }
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

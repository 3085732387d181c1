"""What a campaign file demands of shared runs, `share = "always"`: whether its plans allow it, and
along which axes cells share their runs in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from harness.campaigns.plan import Campaign, Cell
from harness.campaigns.sharing import (
    MOST,
    MOST_PER_S,
    MOST_PROCESSES,
    Group,
    axes_together,
    bearable,
    cell_keys,
    groups_of,
    split,
    units_of,
    why_without_cells,
)
from harness.errors import PlanError
from harness.plan.cells import dotted_keys

Along = Literal["all", "some", "none"]
"""How many of the cells that differ in one axis alone share their runs."""

_NAMED: Final = 3
"""Keys that a sentence names."""


def check_demands(campaign: Campaign, *, file: str) -> None:
    """Raise PlanError for an axis along which cells must share their runs and cannot."""
    together = axes_together(campaign.plan)
    every = campaign.plan.share == "always"
    for axis in together:
        _check(campaign, (axis,), f"axes.{axis}", file)
    _check(campaign, together, "share" if every else "axes", file)


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


def _check(campaign: Campaign, together: Sequence[str], key: str, file: str) -> None:
    for cells in units_of(campaign.possible, together):
        if len(groups_of(cells, cell_keys)) > 1:
            why, hint = _why_apart(campaign, cells)
            which = "it" if len(together) == 1 else ", ".join(together)
            raise PlanError(
                f"cells that differ in {which} alone cannot share their runs, as "
                f'`share = "always"` demands: {why}',
                file=file,
                key=key,
                hint=hint,
            )


def _why_apart(campaign: Campaign, cells: Sequence[Cell]) -> tuple[str, str]:
    """Why these cells do not share one run, and what would help."""
    every = campaign.plan.share == "always"
    leave_out = 'write `share = "auto"`' if every else "leave out the `share` of this axis"
    if never := next(_never(campaign, cells), None):
        return f'{never} has `share = "never"`', "use one of the two"
    for cell in cells:
        if why := why_without_cells(cell):
            return why, leave_out
    if not all(cell.resolved.plan.workload.rate_per_s for cell in cells):
        return "their load has no limit (workload.rate_per_s = 0)", "set a rate, or " + leave_out
    if differing := list(_differing(cells)):
        more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
        allowed = ", ".join(cell_keys(cells[0]))
        return (
            f"they differ in {', '.join(differing[:_NAMED])}{more}",
            f"{leave_out}: only these keys may differ between cells of one run: {allowed}",
        )
    load, fit = cells[0].resolved.plan.workload, min(MOST, bearable(cells[0]))
    return (
        f"with {load.rate_per_s:g} operations per second and {load.processes:,} processes each, "
        f"one run has at most {fit} of these {len(cells)} cells",
        f"a run has at most {MOST} cells, {MOST_PER_S:,} operations per second and "
        f"{MOST_PROCESSES:,} processes",
    )


def _never(campaign: Campaign, cells: Sequence[Cell]) -> Iterator[str]:
    """The choices of these cells that share no run."""
    for cell in cells:
        for axis, label in cell.key.items():
            if campaign.plan.axes[axis].by_label()[label].share == "never":
                yield f"the choice {axis}={label}"


def _differing(cells: Sequence[Cell]) -> Iterator[str]:
    """The keys in which these cells differ, of those that all cells of a run have in common."""
    common = [dotted_keys(split(cell.document, cell_keys(cell))[0]) for cell in cells]
    for key in dict.fromkeys(key for each in common for key in each):
        if any(key not in each or each[key] != common[0].get(key) for each in common):
            yield key

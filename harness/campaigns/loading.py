"""Reads a campaign file: its base plan is found, each of its cells resolved, and what it demands of
shared runs is checked."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

from harness.campaigns.plan import (
    Campaign,
    CampaignPlan,
    campaign_of,
    decided_by_axes,
    parse_campaign,
)
from harness.campaigns.sharing import check_demands
from harness.errors import PlanError
from harness.plan import read_plan
from harness.plan.parsing import PLANS, dotted_parts, find, is_path, read_text, toml_of
from harness.run.own_settings import OwnSettings
from harness.wrong_values import dotted


def load_campaign(
    path: Path,
    changes: tuple[str, ...] = (),
    *,
    only: Mapping[str, Collection[str]] = {},
    repetitions: int | None = None,
    own: OwnSettings | None = None,
) -> Campaign:
    """Read a campaign file and its base plan, apply `--set` changes to the plan, and resolve every
    cell. `only`: by axis, the choices whose cells are run; `repetitions`: instead of the file's;
    `own`: the user's settings, where no axis decides. Raises PlanError that names the file, which
    is that of the base plan for a mistake in it, and the cell when only one is wrong; or the axis
    along which cells must share their runs, and cannot."""
    text = read_text(path)
    plan = parse_campaign(text, file=str(path))
    base_file = _base_file(plan, path)
    if only or repetitions is not None:
        document = tomllib.loads(text)
        left_out = [_others(plan, axis, labels) for axis, labels in only.items()]
        document["exclude"] = [*document.get("exclude", ()), *left_out]
        document["repetitions"] = repetitions or plan.repetitions
        text = toml_of(document)
        plan = parse_campaign(text, file=str(path))
    base = read_plan(base_file, changes)
    if own:
        base = own.applied(base, decided_by_axes(plan.axes, base))
    campaign = campaign_of(plan, text, base, file=str(path), base_file=str(base_file))
    _refuse_seeds(plan, path)
    check_demands(campaign, file=str(path))
    return campaign


def _others(plan: CampaignPlan, axis: str, labels: Collection[str]) -> dict[str, list[str]]:
    """An entry of `exclude`: the other choices of an axis. Raises PlanError."""
    if axis not in plan.axes:
        known = ", ".join(plan.axes)
        raise PlanError(f"no axis is named {axis!r}", key="--only", hint=f"its axes are {known}")
    labelled = plan.axes[axis].by_label()
    if wrong := next((each for each in labels if each not in labelled), None):
        hint = f"its choices are {', '.join(labelled)}"
        raise PlanError(f"the axis {axis} has no choice {wrong!r}", key="--only", hint=hint)
    return {axis: [each for each in labelled if each not in labels]}


def _refuse_seeds(plan: CampaignPlan, path: Path) -> None:
    """Raise PlanError for an axis that sets the seed: each run has that of its repetition."""
    for name, axis in plan.axes.items():
        for label, choice in axis.by_label().items():
            if any(dotted_parts(key) == ["seed"] for key in choice.set):
                within = ("key",) if axis.key is not None else ("choices", label, "set", "seed")
                raise PlanError(
                    "sets the seed, but the nth run of every cell has the same one",
                    file=str(path),
                    key=dotted(("axes", name, *within)),
                    hint="remove it; `seed` at the top of the campaign changes all of them",
                )


def _base_file(plan: CampaignPlan, path: Path) -> Path:
    """The file of the base plan: beside the campaign's, or by its name. Raises PlanError."""
    beside = (path.parent / plan.plan).resolve()
    if beside.is_file():
        return beside
    try:
        if not is_path(plan.plan):
            return find(PLANS, plan.plan)
    except PlanError as error:
        error.file, error.key = str(path), "plan"
        raise
    raise PlanError(f"there is no file {beside}", file=str(path), key="plan")

"""Plans with faults that an operator causes: who that is, and where there is none."""

from __future__ import annotations

from dataclasses import replace

from harness.errors import PlanError
from harness.faults.acts import required
from harness.levers.manual import ManualLever, Operator
from harness.protocols.crashes import ClientNemesis
from harness.run.resolving import ResolvedPlan
from harness.run.schedule import ResolvedStep


def with_operator(
    resolved: ResolvedPlan, operator: Operator | None, *, file: str = "plan"
) -> ResolvedPlan:
    """The plan with the operator who causes its faults by hand. Raises PlanError if there are such
    faults and no operator to cause or report them."""
    if not any(map(_is_manual, resolved.steps)):
        return resolved
    made = replace(resolved, operator=operator)
    try:
        begin_by_hand(made)
    except PlanError as error:
        error.file = error.file or file
        raise
    return made


def begin_by_hand(resolved: ResolvedPlan) -> None:
    """Prepare the operator for the faults of this plan, if some are caused by hand.
    Raises PlanError if there is no operator, or if one is reported already."""
    faults = [step.step.id for step in resolved.steps if _is_manual(step)]
    if not faults:
        return
    if resolved.operator is None:
        raise PlanError(
            f"the fault {faults[0]!r} is made by hand, but there is no terminal here",
            key="faults.nemesis",
            hint="name a folder in which files report what was done: --signals FOLDER",
        )
    resolved.operator.begin(faults)


def refuse_manual(resolved: ResolvedPlan) -> None:
    """Raise PlanError for a fault that is caused by hand, where no operator can be awaited."""
    for step in resolved.steps:
        if _is_manual(step):
            raise PlanError(
                f"the fault {step.step.id!r} is made by hand: nobody is waited for here",
                key="faults.nemesis",
                hint="run the plan by `ackloss run`",
            )


def _is_manual(step: ResolvedStep) -> bool:
    nemesis = step.nemesis
    if nemesis is None or isinstance(nemesis, ClientNemesis):
        return False
    return any(act.lever == ManualLever.name for act in required(nemesis, "any"))

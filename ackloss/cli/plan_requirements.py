"""What options of `ackloss run` require of the plans. A refusal is a PlanError at a file and key.

`--as-expected` needs an expected verdict, `--compare` cells that pair, `--keep-cluster` a cluster
that outlives its process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import PlanError

if TYPE_CHECKING:
    from harness.plan import Plan
    from harness.run.resolving import ResolvedPlan


def require_expectations(files: Sequence[Path], plans: Sequence[ResolvedPlan]) -> None:
    """Refuse a plan without `expect`, its own or that of each cell."""
    for file, resolved in zip(files, plans, strict=True):
        plan = resolved.plan
        of_cells = [cell.expect for cell in plan.cells]
        if plan.expect is None and (not of_cells or None in of_cells):
            raise PlanError(
                "--as-expected needs the key `expect`",
                file=str(file),
                key="expect",
                hint="add the verdict that the plan should have, or each of its cells",
            )


def require_comparable(files: Sequence[Path], plans: Sequence[ResolvedPlan]) -> None:
    """Refuse two plans of which only one has cells, or which have none in common."""
    first, second = ({cell.name for cell in each.plan.cells} for each in plans)
    if (first or second) and not first & second:
        alone = "no cell in common" if first and second else "cells in one of them only"
        raise PlanError(
            f"--compare pairs cells by name, and these plans have {alone}",
            file=str(files[0] if first else files[1]),
            key="cells",
            hint="leave out --compare, or let cells of both plans have equal names",
        )


def require_clusters_to_keep(files: Sequence[Path], plans: Sequence[ResolvedPlan]) -> None:
    """Refuse a plan whose cluster cannot outlive the process."""
    for file, plan in zip(files, plans, strict=True):
        if not plan.provider.outlives:
            raise PlanError(
                f"a cluster of kind {plan.provider.plugin!r} ends with the process that runs it",
                file=str(file),
                key="cluster.kind",
                hint="leave out --keep-cluster",
            )


def unexpected(plan: Plan, result: Mapping[str, Any]) -> Iterator[str]:
    """What a plan expects of its verdict, and of those of its cells, and is otherwise."""
    verdicts = {cell["name"]: cell["verdict"] for cell in result.get("cells", ())}
    expectations = [(plan.name, plan.expect, result["verdict"])]
    expectations += [(f"{plan.name}: {c.name}", c.expect, verdicts.get(c.name)) for c in plan.cells]
    for name, expected, verdict in expectations:
        if expected not in (None, verdict):
            yield f"{name}: {verdict}, expected {expected}"

"""The workload that a plan names, with its options."""

from __future__ import annotations

from harness import registry
from harness.plan import Plan
from harness.protocols import Workload
from harness.protocols.groups import GroupSettings
from harness.protocols.transactions import TransactionSettings


def workload_of(plan: Plan, *, file: str = "") -> Workload:
    """The workload of a plan, or of a cell. Raises PlanError, which names the file if there is
    one."""
    registry.check_name("workloads", plan.workload.name, key="workload.name", file=file)
    made: Workload = registry.make(
        "workloads",
        plan.workload.name,
        plan.workload.options,
        key="workload.options.name",
        file=file,
    )
    return made


def group_of(plan: Plan) -> GroupSettings | None:
    """What its consumers do; `None` if it has none. Raises PlanError."""
    workload = workload_of(plan)
    return workload if isinstance(workload, GroupSettings) else None


def transactions_of(plan: Plan) -> TransactionSettings | None:
    """What its transactions and readers do; `None` if it has none. Raises PlanError."""
    workload = workload_of(plan)
    return workload if isinstance(workload, TransactionSettings) else None

"""The plan: one TOML file that states everything about a run, validated before anything starts."""

from __future__ import annotations

from harness.plan.model import (
    Cell,
    ClusterPlan,
    FinalPlan,
    Plan,
    TargetPlan,
    WorkloadPlan,
    number_of,
    plan_model,
)
from harness.plan.parsing import load_plan, parse_plan, read_plan, refuse_campaign
from harness.plan.steps import (
    Family,
    FaultStep,
    Image,
    Scalar,
    Section,
    Settings,
    Slug,
    Version,
)

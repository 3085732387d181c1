"""The plan: one TOML file that says everything about a run, validated before anything starts."""

from __future__ import annotations

from harness.plan.model import (
    ClusterPlan,
    FinalPlan,
    Plan,
    TargetPlan,
    TopicPlan,
    WorkloadPlan,
)
from harness.plan.parsing import load_plan, parse_plan, read_plan
from harness.plan.steps import (
    NAME,
    Family,
    FaultStep,
    Image,
    Mix,
    Repeat,
    Scalar,
    Settings,
    Slug,
    Version,
)

__all__ = [
    "NAME",
    "ClusterPlan",
    "Family",
    "FaultStep",
    "FinalPlan",
    "Image",
    "Mix",
    "Plan",
    "Repeat",
    "Scalar",
    "Settings",
    "Slug",
    "TargetPlan",
    "TopicPlan",
    "Version",
    "WorkloadPlan",
    "load_plan",
    "parse_plan",
    "read_plan",
]

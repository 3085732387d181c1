"""What a plan states about the reference system."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, field_validator

from harness.plan import ClusterPlan, Plan, Slug, TargetPlan
from targets.memory.settings import Settings

ABSENT: Final = ("version", "image", "settings", "memory_mb")
"""The keys of a target that simulated nodes do not have: they are refused."""


class MemoryTargetPlan(TargetPlan):
    """The reference system; times are in milliseconds of virtual time."""

    system: Slug = Field("memory", description="The system under test, a plug-in in targets/.")
    replicas: int = Field(3, ge=1, le=9, description="How many replicas: n1 ..., beside c1.")
    partitions: int = Field(1, ge=1, le=64, description="Logs that are replicated one by one.")
    first_partition: int = Field(
        0,
        ge=0,
        description="The first of them in the system, which ackloss sets for each cell of a run; "
        "of a plan that is read it is always 0.",
    )
    commit: Literal["quorum", "isr"] = Field(
        "quorum",
        description="An entry is committed once a majority has it, or all in the in-sync set.",
    )
    min_insync: int = Field(
        1, ge=1, le=9, description="isr: writes are refused while fewer replicas are in sync."
    )
    fsync: Literal["always", "never"] = Field(
        "always", description="always: a replica syncs an entry before it acknowledges it."
    )
    defects: list[Slug] = Field(
        default_factory=list, max_length=20, description="Defects that are switched on, by name."
    )
    session_ms: int = Field(
        300, ge=10, le=60_000, description="A replica that was not heard of for this time is dead."
    )
    heartbeat_ms: int = Field(60, ge=1, le=10_000, description="How often replicas report to c1.")
    lag_ms: int = Field(
        150, ge=10, le=60_000, description="isr: a replica behind for this time is not in sync."
    )
    attempt_ms: int = Field(
        120, ge=10, le=60_000, description="How long a client waits for one node."
    )
    request_ms: int = Field(800, ge=10, le=60_000, description="How long a client tries in all.")

    @field_validator("first_partition")
    @classmethod
    def _begins_at_0(cls, _: int) -> int:
        """The stored plan of a cell has the place of its partitions among those of all cells; run
        again it has the system to itself, which has no partitions before its own."""
        return 0

    def system_settings(self) -> Settings:
        """As the system takes them. Raises ValueError for impossible values."""
        fields = type(self).model_fields
        given = {
            name: getattr(self, name) for name in Settings.__dataclass_fields__ if name in fields
        }
        return Settings(**{**given, "defects": frozenset(self.defects)})


class MemoryPlan(Plan):
    """Top-level keys of a plan for the reference system."""

    cluster: ClusterPlan = Field(default_factory=lambda: ClusterPlan(kind="memory"))
    target: MemoryTargetPlan = Field(default_factory=lambda: MemoryTargetPlan())

    @property
    def partitions(self) -> int:
        """Of the system."""
        return self.target.partitions

    @property
    def replicas(self) -> int:
        """Of each partition: all nodes but the controller."""
        return self.target.replicas

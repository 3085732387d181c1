"""What a run's files hold, and the single writer of each."""

from __future__ import annotations

from harness.history.schemas import (
    ADDED,
    DELIVERIES,
    ENDS,
    HISTORY,
    MEMBERS,
    NEMESIS_PROCESS,
    OBSERVATIONS,
    READS,
    SCHEMA_VERSION,
)

__all__ = [
    "ADDED",
    "DELIVERIES",
    "ENDS",
    "HISTORY",
    "MEMBERS",
    "NEMESIS_PROCESS",
    "OBSERVATIONS",
    "READS",
    "SCHEMA_VERSION",
]

"""How pages describe a run of Kafka: from its plan.json and its brokers' logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from harness.protocols.pages import LogLines

LOG_LINES: Final = LogLines(
    dated=re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] (.*)", re.DOTALL),
    relevant=re.compile(
        rb"Shrinking ISR|Expanding ISR|(?<!Replayed )partition change for|Fencing broker"
        rb"|Setting new leader|unclean election|Truncating \S+ to offset|Truncating to offset"
        rb"|starts at (leader )?epoch|Becoming the active controller|has been (un)?fenced"
        rb"|to unfence has been granted|New leader and ISR|resigned",
        re.IGNORECASE,
    ),
    internal=re.compile(rb"__consumer_offsets|__transaction_state|__cluster_metadata"),
)
"""The lines about elections, the ISR and truncation."""


DECISIVE: Final = (
    ("producer", "acks"),
    ("producer", "enable.idempotence"),
    ("topic", "min.insync.replicas"),
    ("topic", "unclean.leader.election.enable"),
)
"""The settings that decide most losses, as group and key."""


def size(plan: Mapping[str, Any]) -> list[str]:
    """The brokers, and the replicas of each partition."""
    ours = _section(plan, "cluster").get("kind") != "external"
    brokers = _section(plan, "target").get("brokers") if ours else None
    factor = _section(plan, "topic").get("replication_factor")
    facts = [f"{brokers} brokers"] if brokers else [] if ours else ["a cluster of the user's"]
    return [*facts, f"replication factor {factor}"] if factor else facts


def stored_request(plan: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Settings of producers, topic and brokers."""
    return {
        "producer": _section(plan, "workload").get("producer") or {},
        "topic": _section(plan, "topic").get("settings") or {},
        "broker": _section(plan, "target").get("settings") or {},
    }


def _section(plan: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return plan.get(name) or {}

"""How pages describe a run of ZooKeeper: from its plan.json and its servers' logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from harness.protocols.systems import LogLines

LOG_LINES: Final = LogLines(
    dated=re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] (.*)", re.DOTALL),
    relevant=re.compile(
        rb"LEADING|FOLLOWING|OBSERVING|LOOKING|LEADER ELECTION TOOK|Shutdown called"
        rb"|Synchronizing with (Follower|Learner)|Getting a (diff|snapshot)|Truncating log"
        rb"|Sending (DIFF|SNAP|TRUNC|snapshot)|Exception when following|Unexpected exception"
        rb"|fsync-ing the write ahead log|Have quorum of supporters|Reading snapshot|expired",
    ),
    internal=re.compile(rb"Connection request|NIOServerCxn:|Notification: |PeerState set to"),
)
"""The lines about elections, syncing and the log."""

_SETTINGS: Final = ("forceSync", "tickTime", "initLimit", "syncLimit", "snapCount")


DECISIVE: Final = (("server", "forceSync"),)
"""The setting that decides most losses, as group and key."""


def size(plan: Mapping[str, Any]) -> list[str]:
    """The servers and observers."""
    ensemble = plan.get("ensemble") or {}
    servers, observers = ensemble.get("servers"), ensemble.get("observers")
    facts = [f"{servers} servers" if servers != 1 else "1 server"] if servers else []
    if observers:
        facts.append(f"{observers} observer{'s' if observers != 1 else ''}")
    return facts


def stored_request(plan: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The settings of every server."""
    ensemble = plan.get("ensemble") or {}
    named = {key: ensemble[key] for key in _SETTINGS if key in ensemble}
    return {"server": {**named, **((plan.get("target") or {}).get("settings") or {})}}

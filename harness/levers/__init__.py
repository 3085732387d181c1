"""Levers: the mechanisms that change one thing on a node, can undo it, and can prove both.

To add one: its module here, its line in `all_levers`, its undo record in `harness.faults.records`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.levers.clock import ClockLever
from harness.levers.disk import DiskLever
from harness.levers.net import NetLever
from harness.levers.pause import PauseLever
from harness.levers.power import PowerLever
from harness.levers.process import ProcessLever
from harness.levers.shaping import ShapingLever
from harness.levers.storage import FullLever, ReadOnlyLever
from harness.levers.stress import StressLever
from harness.protocols import Lever, Node


def all_levers(nodes: Mapping[str, Node]) -> dict[str, Lever[Any]]:
    """Every lever over nodes that are Linux hosts, by name."""
    levers: list[Lever[Any]] = [
        NetLever(nodes),
        ShapingLever(nodes),
        ProcessLever(nodes),
        PauseLever(nodes),
        StressLever(nodes),
        ClockLever(nodes),
        DiskLever(nodes),
        PowerLever(nodes),
        ReadOnlyLever(nodes),
        FullLever(nodes),
    ]
    return {lever.name: lever for lever in levers}

"""Levers: the mechanisms that change one thing on a node, can undo it, and can prove both.

To add one: its module here, its line in `all_levers`, its undo record in `harness.faults.records`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from harness.levers import clock
from harness.levers.clock import ClockLever
from harness.levers.disk import DiskLever, FullLever, ReadOnlyLever
from harness.levers.net import NetLever
from harness.levers.process import PauseLever, PowerLever, ProcessLever
from harness.levers.shaping import ShapingLever
from harness.levers.stress import StressLever
from harness.protocols import BOUNDED_DISK, FAKETIME, OWN_DISK, Lever, Node, NodeSpec

_DATA_MB: Final = 128
"""Holds what a log stores in some minutes at 2,000 small writes a second."""
_OWN_DISK_MB: Final = 1024
"""Sparse: it takes what is written. Some systems allocate files of 64 MB in advance."""


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


def prepared(spec: NodeSpec, needs: frozenset[str], library: Callable[[], bytes]) -> NodeSpec:
    """The node with what the faults of its plan need from its start (`Nemesis.needs`), the same
    when nothing is; `library` is that of libfaketime."""
    if OWN_DISK in needs:  # one that is small may be filled, too
        size_mb = _DATA_MB if BOUNDED_DISK in needs else _OWN_DISK_MB
        spec = replace(spec, own_disk_mb=size_mb)
    elif BOUNDED_DISK in needs:
        spec = replace(spec, data_mb=_DATA_MB)
    return clock.prepared(spec, library()) if FAKETIME in needs else spec

"""Simulated clusters: the harness tests itself on them in seconds, without Docker or root.

simulation     hosts, timers, one heap of events: deterministic from a seed
network        messages with small random delays, and rules that drop them
disk           files of which only what was fsynced survives a loss of power
node, cluster  what levers and targets see
levers         net, pause, process and disk for these nodes, with the real levers' undo records
virtual_clock  time that passes only while every thread of the harness waits

Nothing real is tested here: results of this kind never mix with real ones.
"""

from __future__ import annotations

from harness.clusters.memory.provider import Memory

__all__ = ["Memory"]

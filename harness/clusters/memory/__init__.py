"""Simulated clusters: the harness tests itself on them in seconds, without Docker or root.

simulation  hosts, timers, one heap of events, deterministic from a seed; the network between hosts
node        a process and its disk, of which only what was fsynced survives a loss of power; levers
            for these nodes (net, pause, process, disk), with the real levers' undo records
cluster     the kind of cluster; the nodes of a run; time that passes only while every thread of the
            harness waits

Nothing real is tested here: results of this kind never mix with real ones.
"""

from __future__ import annotations

from harness.clusters.memory.cluster import Memory

__all__ = ["Memory"]

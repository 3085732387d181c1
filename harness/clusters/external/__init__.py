"""Clusters that ackloss did not start: only clients of ours come there.

file      the file that says how a cluster is reached: never a plan
cluster   the nodes of such a cluster, which nothing can be done to
provider  the kind of cluster
"""

from __future__ import annotations

from harness.clusters.external.provider import External

__all__ = ["External"]

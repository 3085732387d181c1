"""Clusters of a compose project of the user's: its services are the nodes.

provider  the kind of cluster, and the file that names the project
project   the project's containers, as Docker knows them; starting it, and leaving it as it was
node      one container, the infrastructure container that works on it, and the levers over it
cluster   the nodes of a run: which container is which node of the system; what a run has left in
          force, undone in another process
"""

from __future__ import annotations

from harness.clusters.compose.provider import Compose

__all__ = ["Compose"]

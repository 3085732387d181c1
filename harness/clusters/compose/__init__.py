"""Clusters of a compose project of the user's: its services are the nodes.

file      the file that names the project, and the compose file that it names
project   the project's containers, as Docker knows them; starting it, and leaving it as it was
matching  which container is which broker
node      one container, and the infrastructure container that works on it
levers    what may not be done to a container that is not ours
cluster   the nodes of a run
undoing   what a run has left in force, undone in another process
provider  the kind of cluster
"""

from __future__ import annotations

from harness.clusters.compose.provider import Compose

__all__ = ["Compose"]

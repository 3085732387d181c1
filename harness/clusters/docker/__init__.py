"""Clusters of Docker containers: a pod for each node, and the removal of a run's objects."""

from __future__ import annotations

from harness.clusters.docker.provider import Docker

__all__ = ["Docker"]

"""Clusters of Docker containers: a pod for each node, and the removal of a run's objects."""

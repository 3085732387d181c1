"""Kinds of cluster, and the cleanup of dead runs."""

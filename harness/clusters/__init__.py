"""Kinds of cluster: where nodes are."""

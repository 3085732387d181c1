"""Kinds of cluster, and the clean-up of dead runs."""
